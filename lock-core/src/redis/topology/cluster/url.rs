//! From a URL to the nodes that are asked first. No error repeats the URL: it may hold a password.

use std::fmt;

use percent_encoding::percent_decode_str;
use redis::io::tcp::TcpSettings;
use redis::{Client, ConnectionAddr, IntoConnectionInfo, ProtocolVersion, RedisConnectionInfo};

use super::layout::Addr;
use crate::backend::{Fault, FaultKind};
use crate::error::ConnectError;
use crate::redis::wire::fault;

/// The scheme of the URL.
const SCHEME: &str = "redis+cluster://";

/// Nodes that a URL may name.
const SEEDS_MAX: usize = 64;

/// Where a node listens unless the URL says otherwise.
const PORT_DEFAULT: u16 = 6379;

/// As whom every node is connected to.
#[derive(Clone, Default)]
pub(super) struct Login {
    user: Option<String>,
    password: Option<String>,
    /// Everything is sent over TLS.
    pub(super) tls: bool,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").field("tls", &self.tls).finish_non_exhaustive()
    }
}

impl Login {
    /// A client of one node.
    pub(super) fn client(&self, addr: &Addr) -> Result<Client, Fault> {
        let (host, port) = (addr.host.to_string(), addr.port);
        let at = match self.tls {
            true => ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None },
            false => ConnectionAddr::Tcp(host, port),
        };
        let mut settings = RedisConnectionInfo::default().set_protocol(ProtocolVersion::RESP3);
        if let Some(user) = &self.user {
            settings = settings.set_username(user);
        }
        if let Some(password) = &self.password {
            settings = settings.set_password(password);
        }
        let info = at.into_connection_info().map_err(fault::fault)?;
        let tcp = TcpSettings::default().set_nodelay(true);
        let info = info.set_redis_settings(settings).set_tcp_settings(tcp);
        Client::open(info).map_err(|error| {
            let what = format!("a node of the cluster: {}", error.category());
            Fault::new(FaultKind::Refused, what)
        })
    }
}

/// What a URL says.
#[derive(Debug)]
pub(in crate::redis) struct Target {
    pub(super) seeds: Vec<Addr>,
    pub(super) login: Login,
}

fn bad(reason: impl Into<String>) -> ConnectError {
    ConnectError::Url { reason: reason.into() }
}

impl Target {
    /// Reads `redis+cluster://[user:password@]host[:port][,host[:port]…][?tls]`.
    pub(in crate::redis) fn parse(url: &str) -> Result<Self, ConnectError> {
        let rest = url.strip_prefix(SCHEME);
        let rest = rest.ok_or_else(|| bad("`redis+cluster:` is followed by `//`"))?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (user, rest) = match rest.rsplit_once('@') {
            Some((user, rest)) => (Some(user), rest),
            None => (None, rest),
        };
        let (hosts, path) = rest.split_once('/').unwrap_or((rest, ""));
        if !matches!(path, "" | "0") {
            return Err(bad("a cluster has one database: leave the path out"));
        }
        let mut login = login(user)?;
        match query {
            "" => {}
            "tls" if cfg!(feature = "redis-tls") => login.tls = true,
            "tls" => return Err(bad("`?tls` needs the feature `redis-tls`")),
            _ => return Err(bad("unknown parameter: `redis+cluster:` takes `tls`")),
        }
        let seeds = hosts.split(',').map(seed).collect::<Result<Vec<_>, _>>()?;
        if seeds.len() > SEEDS_MAX {
            return Err(bad(format!("at most {SEEDS_MAX} nodes can be named")));
        }
        Ok(Self { seeds, login })
    }
}

fn login(user: Option<&str>) -> Result<Login, ConnectError> {
    let Some(user) = user else { return Ok(Login::default()) };
    let decoded = |text: &str| {
        let decoded = percent_decode_str(text).decode_utf8();
        decoded.map(String::from).map_err(|_| bad("user and password are percent-encoded UTF-8"))
    };
    let (user, password) = match user.split_once(':') {
        Some((user, password)) => (user, Some(decoded(password)?)),
        None => (user, None),
    };
    let user = Some(decoded(user)?).filter(|user| !user.is_empty());
    if user.is_some() && password.is_none() {
        return Err(bad("a user needs a password: `user:password@`"));
    }
    Ok(Login { user, password, tls: false })
}

fn seed(text: &str) -> Result<Addr, ConnectError> {
    let refused = || bad("nodes are named `host` or `host:port`, with commas between them");
    let (host, port) = match text.strip_prefix('[').and_then(|text| text.split_once(']')) {
        Some((host, "")) => (host, None),
        Some((host, port)) => (host, Some(port.strip_prefix(':').ok_or_else(refused)?)),
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let port = port.map_or(Ok(PORT_DEFAULT), str::parse).map_err(|_| refused())?;
    let odd = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '[' | ']' | '@' | '#');
    if host.is_empty() || port == 0 || host.contains(odd) {
        return Err(refused());
    }
    Ok(Addr::new(host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seeds(url: &str) -> String {
        format!("{:?}", Target::parse(url).unwrap().seeds)
    }

    #[test]
    fn good_urls_are_read() {
        assert_eq!(seeds("redis+cluster://a,b:7001/0"), "[a:6379, b:7001]");
        assert_eq!(seeds("redis+cluster://u:p%40@[::1]:7,[::2]/"), "[::1:7, ::2:6379]");
        let login = Target::parse("redis+cluster://u:p%40:x@h").unwrap().login;
        assert_eq!((login.user.as_deref(), login.password.as_deref()), (Some("u"), Some("p@:x")));
        let login = Target::parse("redis+cluster://:p@h").unwrap().login;
        assert_eq!((login.user.as_deref(), login.password.as_deref()), (None, Some("p")));
        let tls = Target::parse("redis+cluster://h?tls");
        assert_eq!(tls.is_ok(), cfg!(feature = "redis-tls"));
    }

    #[test]
    fn bad_urls_are_refused_without_repeating_them() {
        for rest in [
            ":secret@",
            ":secret@h:port",
            ":secret@h:0",
            ":secret@h,,i",
            ":secret@h/1",
            ":secret@h?db=1",
            "secret@h",
            "u:%ff-secret@h",
            ":secret@h:1:2",
            ":secret@a b",
        ] {
            let error = Target::parse(&format!("redis+cluster://{rest}")).unwrap_err().to_string();
            assert!(!error.contains("secret"), "{error}");
        }
        assert!(Target::parse("redis+cluster:h").is_err());
    }

    #[test]
    fn a_login_shows_no_password() {
        let target = Target::parse("redis+cluster://someone:secret@h").unwrap();
        let shown = format!("{target:?}");
        assert!(!shown.contains("secret") && !shown.contains("someone"), "{shown}");
    }
}
