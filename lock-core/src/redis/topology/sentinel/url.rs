//! From a URL to the sentinels, the name of the master and who is asked as whom. No error repeats
//! the URL: it may hold passwords.

use std::borrow::Cow;
use std::fmt;

use percent_encoding::percent_decode_str;
use redis::io::tcp::TcpSettings;
use redis::{Client, ConnectionAddr, IntoConnectionInfo, ProtocolVersion, RedisConnectionInfo};
use url::form_urlencoded;

use super::answer::{Address, SENTINELS_MAX};
use crate::error::ConnectError;

/// Where sentinels listen, unless the URL says otherwise.
const SENTINEL_PORT: u16 = 26_379;

/// The highest number of a database that anyone configures.
const DB_MAX: i64 = 65_535;

/// A user and a password, for the servers or for the sentinels.
#[derive(Clone, Default)]
struct Login {
    user: Option<String>,
    password: Option<String>,
}

/// What to ask, and how to reach whoever is named.
#[derive(Clone)]
pub(in crate::redis) struct Target {
    /// In the order of the URL.
    pub(super) sentinels: Vec<Address>,
    /// The name of the master at the sentinels.
    pub(super) master: String,
    db: i64,
    tls: bool,
    server: Login,
    sentinel: Login,
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the logins.
        f.debug_struct("Target")
            .field("sentinels", &self.sentinels)
            .field("master", &self.master)
            .finish_non_exhaustive()
    }
}

fn bad(reason: impl Into<String>) -> ConnectError {
    ConnectError::Url { reason: reason.into() }
}

impl Target {
    /// Whether a URL is one of these.
    pub(in crate::redis) fn is_meant_by(url: &str) -> bool {
        let scheme = url.split_once(':').map(|(scheme, _)| scheme);
        matches!(scheme, Some("redis+sentinel" | "rediss+sentinel"))
    }

    /// Reads `redis+sentinel://[user:password@]h1[:port][,h2…]/master[/db][?parameters]`, and the
    /// same with `rediss+sentinel`.
    pub(in crate::redis) fn parse(url: &str) -> Result<Self, ConnectError> {
        let (scheme, rest) =
            url.split_once("://").ok_or_else(|| bad("`redis+sentinel:` is followed by `//`"))?;
        if rest.contains('#') {
            return Err(bad("`#` in a name or a password is written `%23`"));
        }
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let wanted = || bad("the sentinels are followed by `/` and the name of the master");
        let (authority, path) = rest.split_once('/').ok_or_else(wanted)?;
        let (user, hosts) = match authority.rsplit_once('@') {
            Some((user, hosts)) => (Some(user), hosts),
            None => (None, authority),
        };
        let (master, db) = path.split_once('/').unwrap_or((path, ""));
        let master = decoded(master)?;
        if master.is_empty() || master.contains(|c: char| c.is_control() || c == ' ') {
            return Err(wanted());
        }
        let (mut server, sentinel) = logins(query)?;
        if let Some(user) = user {
            if server.user.is_some() || server.password.is_some() {
                return Err(bad("user and password stand before the `@` or behind the `?`"));
            }
            server = before_at(user)?;
        }
        Ok(Self {
            sentinels: addresses(hosts)?,
            master: master.into_owned(),
            db: database(db)?,
            tls: scheme == "rediss+sentinel",
            server: checked(server, "user")?,
            sentinel: checked(sentinel, "sentinel_user")?,
        })
    }

    /// For a sentinel.
    pub(super) fn sentinel(&self, at: &Address) -> Result<Client, redis::RedisError> {
        self.client(at, &self.sentinel, 0)
    }

    /// For a server that the sentinels name.
    pub(super) fn server(&self, at: &Address) -> Result<Client, redis::RedisError> {
        self.client(at, &self.server, self.db)
    }

    fn client(&self, at: &Address, login: &Login, db: i64) -> Result<Client, redis::RedisError> {
        let (host, port) = (at.host.clone(), at.port);
        let addr = match self.tls {
            false => ConnectionAddr::Tcp(host, port),
            true => ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None },
        };
        let mut settings =
            RedisConnectionInfo::default().set_protocol(ProtocolVersion::RESP3).set_db(db);
        if let Some(user) = &login.user {
            settings = settings.set_username(user);
        }
        if let Some(password) = &login.password {
            settings = settings.set_password(password);
        }
        let tcp = TcpSettings::default().set_nodelay(true);
        Client::open(
            addr.into_connection_info()?.set_redis_settings(settings).set_tcp_settings(tcp),
        )
    }
}

fn decoded(text: &str) -> Result<Cow<'_, str>, ConnectError> {
    percent_decode_str(text).decode_utf8().map_err(|_| bad("percent-encoded text is not UTF-8"))
}

/// `user:password`, or `:password` of the default user.
fn before_at(text: &str) -> Result<Login, ConnectError> {
    let wanted = || bad("before the `@` stands `user:password`");
    let (user, password) = text.split_once(':').ok_or_else(wanted)?;
    let (user, password) = (decoded(user)?.into_owned(), decoded(password)?.into_owned());
    if password.is_empty() {
        return Err(wanted());
    }
    Ok(Login { user: (!user.is_empty()).then_some(user), password: Some(password) })
}

/// Nobody logs in by a name alone.
fn checked(login: Login, name: &str) -> Result<Login, ConnectError> {
    match (&login.user, &login.password) {
        (Some(_), None) => Err(bad(format!("`{name}` needs a password beside it"))),
        _ => Ok(login),
    }
}

fn logins(query: &str) -> Result<(Login, Login), ConnectError> {
    let (mut server, mut sentinel) = (Login::default(), Login::default());
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        let slot = match &*name {
            "user" => &mut server.user,
            "password" => &mut server.password,
            "sentinel_user" => &mut sentinel.user,
            "sentinel_password" => &mut sentinel.password,
            // Not repeated: it may be what follows an `&` in a password.
            _ => {
                return Err(bad(
                    "unknown parameter: there are `user`, `password`, `sentinel_user` and \
                     `sentinel_password`, and an `&` in a value is written `%26`",
                ));
            }
        };
        if value.is_empty() || slot.replace(value.into_owned()).is_some() {
            return Err(bad(format!("`{name}` is empty, or given twice")));
        }
    }
    Ok((server, sentinel))
}

fn database(text: &str) -> Result<i64, ConnectError> {
    match text {
        "" => Ok(0),
        text if text.bytes().all(|byte| byte.is_ascii_digit()) => text
            .parse()
            .ok()
            .filter(|db| *db <= DB_MAX)
            .ok_or_else(|| bad("the number of the database is too great")),
        _ => Err(bad("behind the name of the master stands the number of a database")),
    }
}

fn addresses(hosts: &str) -> Result<Vec<Address>, ConnectError> {
    let mut addresses = Vec::new();
    for host in hosts.split(',') {
        let address = address(host)?;
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    if addresses.len() > SENTINELS_MAX {
        return Err(bad(format!("at most {SENTINELS_MAX} sentinels can be named")));
    }
    Ok(addresses)
}

fn address(text: &str) -> Result<Address, ConnectError> {
    // The port is what follows the last colon, unless that is part of an address in brackets.
    let (name, port) = match text.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => (name, Some(port)),
        _ => (text, None),
    };
    let port = match port {
        None => SENTINEL_PORT,
        Some(port) => match port.parse() {
            Ok(port @ 1..) => port,
            _ => return Err(bad("a port is a number from 1 to 65535")),
        },
    };
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    let bracketed = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    let host = match bracketed {
        Some(inner) if inner.parse::<std::net::Ipv6Addr>().is_ok() => inner,
        None if !name.is_empty() && name.bytes().all(plain) => name,
        _ => {
            let what = "each sentinel is a name, an IPv4 address, or an IPv6 address in brackets";
            return Err(bad(what));
        }
    };
    Ok(Address { host: host.to_owned(), port })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_a_good_url_is_read() {
        let target = Target::parse(
            "redis+sentinel://al%20ice:p%40ss@h1,h2:5000,[::1]:6000,h1/my-master/3\
             ?sentinel_user=w&sentinel_password=x%2By",
        )
        .unwrap();
        let at: Vec<_> = target.sentinels.iter().map(ToString::to_string).collect();
        assert_eq!(at, ["h1:26379", "h2:5000", "[::1]:6000"]);
        assert_eq!((target.master.as_str(), target.db, target.tls), ("my-master", 3, false));
        assert_eq!(target.server.user.as_deref(), Some("al ice"));
        assert_eq!(target.server.password.as_deref(), Some("p@ss"));
        assert_eq!(target.sentinel.user.as_deref(), Some("w"));
        assert_eq!(target.sentinel.password.as_deref(), Some("x+y"));
        let target = Target::parse("rediss+sentinel://h/m?password=p").unwrap();
        assert!(target.tls && target.server.user.is_none() && target.db == 0);
        assert_eq!(target.server.password.as_deref(), Some("p"));
    }

    #[test]
    fn a_client_speaks_resp3_as_the_one_who_logs_in() {
        let url = "redis+sentinel://u:p@h/m/2?sentinel_password=q";
        let target = Target::parse(url).unwrap();
        let at = Address { host: "there".into(), port: 7 };
        let server = target.server(&at).unwrap();
        let settings = server.get_connection_info().redis_settings();
        assert_eq!(settings.protocol(), ProtocolVersion::RESP3);
        assert_eq!((settings.username(), settings.password()), (Some("u"), Some("p")));
        assert_eq!(settings.db(), 2);
        let sentinel = target.sentinel(&at).unwrap();
        let settings = sentinel.get_connection_info().redis_settings();
        assert_eq!((settings.username(), settings.password()), (None, Some("q")));
        assert_eq!(settings.db(), 0);
    }

    #[test]
    fn a_bad_url_is_refused_and_neither_error_nor_debug_repeats_a_secret() {
        let many = format!("redis+sentinel://{}/m?password=secret", ["h:1", "h:2"].join(",h:9,"));
        assert!(Target::parse(&many).is_ok());
        let hosts: Vec<_> = (1..=SENTINELS_MAX + 1).map(|port| format!("h:{port}")).collect();
        let too_many = format!("redis+sentinel://{}/m?password=secret", hosts.join(","));
        for url in [
            "redis+sentinel:secret",
            "redis+sentinel://:secret@h",
            "redis+sentinel://:secret@h/",
            "redis+sentinel://:secret@/m",
            "redis+sentinel://:secret@h,/m",
            "redis+sentinel://secret@h/m",
            "redis+sentinel://u:@h/m?sentinel_password=secret",
            "redis+sentinel://:secret@h:0/m",
            "redis+sentinel://:secret@h:99999/m",
            "redis+sentinel://:secret@h:secret/m",
            "redis+sentinel://:secret@[::1/m",
            "redis+sentinel://:secret@h/m/secret",
            "redis+sentinel://:secret@h/m/99999999",
            "redis+sentinel://:secret@h/m/0/secret",
            "redis+sentinel://:secret@h/m?password=secret",
            "redis+sentinel://h/m?password=secret&password=secret",
            "redis+sentinel://h/m?pass=secret",
            "redis+sentinel://h/m?password=top&secret",
            "redis+sentinel://h/m?password=top&secret=",
            "redis+sentinel://h/m?password:secret",
            "redis+sentinel://h/m?user=secret",
            "redis+sentinel://h/m?sentinel_user=secret",
            "redis+sentinel://:sec#ret@h/m",
            "redis+sentinel://:%ffsecret@h/m",
            "redis+sentinel://:secret@h/m%00",
            &too_many,
        ] {
            let error = Target::parse(url).unwrap_err();
            assert!(!error.to_string().contains("secret"), "{url}: {error}");
            assert!(!format!("{error:?}").contains("secret"), "{url}: {error:?}");
        }
        let target = Target::parse("redis+sentinel://u:secret@h/m?sentinel_password=secret");
        assert!(!format!("{:?}", target.unwrap()).contains("secret"));
    }
}
