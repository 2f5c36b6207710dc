//! Asking a running member, over its JSON gateway.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::server::EtcdServer;

/// How long an answer may take.
const WITHIN: Duration = Duration::from_secs(5);

/// One key as the server has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kv {
    /// Its name.
    pub key: String,
    /// Its value.
    pub value: String,
    /// By which revision it was created.
    pub created: i64,
    /// The lease that it ends with; 0 for none.
    pub lease: i64,
}

/// The token that a login was given.
#[derive(Clone, Debug)]
pub struct Token(String);

fn encoded(text: &str) -> String {
    STANDARD.encode(text)
}

fn decoded(value: &Value) -> String {
    let bytes = STANDARD.decode(value.as_str().unwrap_or_default()).expect("base64");
    String::from_utf8_lossy(&bytes).into_owned()
}

fn number(value: &Value) -> i64 {
    value.as_str().and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// The first key behind all that begin so.
fn behind(prefix: &str) -> String {
    match prefix.as_bytes().split_last() {
        Some((last, rest)) => {
            let end = [rest, &[last + 1]].concat();
            STANDARD.encode(end)
        }
        None => STANDARD.encode([0]),
    }
}

/// Each call blocks the calling thread, at most 5 s, and panics if the server does not carry it out.
impl EtcdServer {
    /// All keys that begin so, in the order of their creation.
    #[must_use]
    pub fn keys(&self, prefix: &str) -> Vec<Kv> {
        let first = if prefix.is_empty() { STANDARD.encode([0]) } else { encoded(prefix) };
        let ask = json!({
            "key": first, "range_end": behind(prefix),
            "sort_order": "ASCEND", "sort_target": "CREATE",
        });
        let answer = self.post("/v3/kv/range", &ask, None);
        let kvs = answer["kvs"].as_array().cloned().unwrap_or_default();
        let read = |kv: &Value| Kv {
            key: decoded(&kv["key"]),
            value: decoded(&kv["value"]),
            created: number(&kv["create_revision"]),
            lease: number(&kv["lease"]),
        };
        kvs.iter().map(read).collect()
    }

    /// Deletes one key.
    pub fn delete(&self, key: &str) {
        self.post("/v3/kv/deleterange", &json!({ "key": encoded(key) }), None);
    }

    /// Writes one key.
    pub fn put(&self, key: &str, value: &str) {
        self.post("/v3/kv/put", &json!({ "key": encoded(key), "value": encoded(value) }), None);
    }

    /// Writes one key, unless the server refuses.
    ///
    /// # Errors
    ///
    /// Its answer.
    pub fn try_put(&self, key: &str, value: &str) -> Result<(), String> {
        let ask = json!({ "key": encoded(key), "value": encoded(value) });
        match self.try_post("/v3/kv/put", &ask, None) {
            Ok(answer) if answer.get("error").is_none() => Ok(()),
            Ok(answer) => Err(answer.to_string()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// All leases.
    #[must_use]
    pub fn leases(&self) -> Vec<i64> {
        let answer = self.post("/v3/lease/leases", &json!({}), None);
        let leases = answer["leases"].as_array().cloned().unwrap_or_default();
        leases.iter().map(|lease| number(&lease["ID"])).collect()
    }

    /// Ends a lease, and all keys with it.
    pub fn revoke(&self, lease: i64) {
        self.post("/v3/lease/revoke", &json!({ "ID": lease.to_string() }), None);
    }

    /// Forgets all revisions up to now.
    pub fn compact(&self) {
        let status = self.post("/v3/maintenance/status", &json!({}), None);
        let revision = status["header"]["revision"].clone();
        self.post("/v3/kv/compaction", &json!({ "revision": revision, "physical": true }), None);
    }

    /// Raises the alarm that the database is full, or takes it back.
    pub fn is_full(&self, full: bool) {
        let member =
            self.post("/v3/maintenance/status", &json!({}), None)["header"]["member_id"].clone();
        let action = if full { "ACTIVATE" } else { "DEACTIVATE" };
        let ask = json!({ "action": action, "memberID": member, "alarm": "NOSPACE" });
        self.post("/v3/maintenance/alarm", &ask, None);
    }

    /// The number of this member, and that of the leader it knows.
    #[must_use]
    pub fn member_and_leader(&self) -> Option<(String, String)> {
        let status = self.try_post("/v3/maintenance/status", &json!({}), None).ok()?;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        Some((text(&status["header"]["member_id"])?, text(&status["leader"])?))
    }

    /// Has everybody log in: `root` with the password `secret`.
    pub fn enable_auth(&self) {
        let root = json!({ "name": "root", "password": "secret" });
        self.post("/v3/auth/user/add", &root, None);
        self.post("/v3/auth/role/add", &json!({ "name": "root" }), None);
        self.post("/v3/auth/user/grant", &json!({ "user": "root", "role": "root" }), None);
        self.post("/v3/auth/enable", &json!({}), None);
    }

    /// Logs in as `root`.
    #[must_use]
    pub fn log_in(&self) -> Token {
        let root = json!({ "name": "root", "password": "secret" });
        let answer = self.post("/v3/auth/authenticate", &root, None);
        Token(answer["token"].as_str().expect("a token").to_owned())
    }

    /// Gives `root` the password that it has, which ends its logins.
    pub fn end_logins(&self) {
        let root = json!({ "name": "root", "password": "secret" });
        self.post("/v3/auth/user/changepw", &root, Some(&self.log_in()));
    }

    /// Asks for something else, as `root`.
    pub fn post_as(&self, token: &Token, path: &str, ask: &Value) -> Value {
        self.post(path, ask, Some(token))
    }

    /// Whether it answers for a majority.
    #[must_use]
    pub fn is_well(&self) -> bool {
        if self.has_tls() {
            return TcpStream::connect_timeout(&self.addr(), WITHIN).is_ok();
        }
        let ask = json!({ "key": encoded("?"), "limit": 1 });
        match self.try_post("/v3/kv/range", &ask, None) {
            Ok(answer) => answer.get("header").is_some() || answer["code"] == 3,
            Err(_) => false,
        }
    }

    fn post(&self, path: &str, ask: &Value, token: Option<&Token>) -> Value {
        let answer = self.try_post(path, ask, token).expect("an answer of etcd");
        assert!(answer.get("error").is_none(), "{path}: {answer}");
        answer
    }

    fn try_post(&self, path: &str, ask: &Value, token: Option<&Token>) -> io::Result<Value> {
        let mut server = TcpStream::connect_timeout(&self.addr(), WITHIN)?;
        server.set_read_timeout(Some(WITHIN))?;
        let body = ask.to_string();
        let login = token.map(|Token(token)| format!("Authorization: {token}\r\n"));
        let login = login.unwrap_or_default();
        let length = body.len();
        let head = format!("POST {path} HTTP/1.0\r\n{login}Content-Length: {length}\r\n\r\n");
        server.write_all((head + &body).as_bytes())?;
        let mut answer = String::new();
        server.read_to_string(&mut answer)?;
        let (_, body) = answer.split_once("\r\n\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok(serde_json::from_str(body)?)
    }
}
