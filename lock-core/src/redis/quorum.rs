//! `redlock://`: one lock at a majority of independent servers.
//!
//! The hosts of the URL know nothing of each other: no replication between them, no cluster.

use std::sync::Arc;
use std::time::Duration;

use redis::{Client, ConnectionAddr};
use url::form_urlencoded;

use super::topology::Topology;
use super::topology::origin::Origin;
use super::wire::pool::RedisPool;
use super::wire::url as server_url;
use crate::error::ConnectError;
use crate::quorum::MembershipConfig;

/// The longest part of a parameter that an error repeats.
const SHOWN_CHARS_MAX: usize = 32;

/// Where a server listens, unless the URL says otherwise.
const PORT: u16 = 6_379;

/// What a URL says.
struct Target {
    servers: Vec<Client>,
    config: MembershipConfig,
}

fn bad(reason: impl Into<String>) -> ConnectError {
    ConnectError::Url { reason: reason.into() }
}

/// The servers that a URL names, each of which is connected to when it is asked for something, and
/// what they agree on.
pub(super) fn members(
    url: &str,
    pools: Vec<RedisPool>,
) -> Result<(Vec<Arc<Topology>>, MembershipConfig), ConnectError> {
    server_url::install_tls();
    let Target { servers, config } = Target::parse(url)?;
    if !pools.is_empty() && pools.len() != servers.len() {
        let (pools, servers) = (pools.len(), servers.len());
        return Err(bad(format!("{pools} pools for {servers} servers: one each, in their order")));
    }
    let mut pools = pools.into_iter();
    let member = |server| Topology::new(&Origin::Server(Arc::new(server)), pools.next()).into();
    Ok((servers.into_iter().map(member).collect(), config))
}

impl Target {
    /// Reads `redlock://[user:password@]h1[:port],[…@]h2,h3[/db][?name=…&lease_max=…]`, and the
    /// same with `redlocks`, which is TLS. A login before the first host is that of all which have
    /// none of their own.
    fn parse(url: &str) -> Result<Self, ConnectError> {
        let (scheme, rest) =
            url.split_once("://").ok_or_else(|| bad("`redlock:` is followed by `//`"))?;
        if rest.contains('#') {
            return Err(bad("`#` in a name or a password is written `%23`"));
        }
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (hosts, db) = rest.split_once('/').unwrap_or((rest, ""));
        let scheme = if scheme == "redlocks" { "rediss" } else { "redis" };
        let (mut servers, mut names, mut common) = (Vec::new(), Vec::new(), None);
        for (place, host) in hosts.split(',').enumerate() {
            let (login, host) = match host.rsplit_once('@') {
                Some((login, host)) => (Some(login), host),
                None => (None, host),
            };
            if place == 0 {
                common = login;
            }
            if host.is_empty() {
                return Err(bad("a host of the list is empty"));
            }
            let login = login.or(common).map(|login| format!("{login}@")).unwrap_or_default();
            let server = server_url::client(&format!("{scheme}://{login}{host}/{db}"))?;
            names.push(name(&server)?);
            servers.push(server);
        }
        let config = parameters(query, MembershipConfig::new(names))?;
        Ok(Self { servers, config })
    }
}

/// What all clients call a server: as the URL spells it, but for the case and the usual port.
fn name(server: &Client) -> Result<String, ConnectError> {
    match server.get_connection_info().addr() {
        ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
            let host = host.to_lowercase();
            let port = if *port == 0 { PORT } else { *port };
            Ok(if host.contains(':') {
                format!("[{host}]:{port}")
            } else {
                format!("{host}:{port}")
            })
        }
        _ => Err(bad("the members of a quorum are reached by host and port")),
    }
}

fn parameters(query: &str, mut config: MembershipConfig) -> Result<MembershipConfig, ConnectError> {
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        config = match &*name {
            "name" => config.with_name(value),
            "lease_max" => config.with_lease_max(time(&value)?),
            _ => {
                // A `?` in a password that is not encoded leads here too.
                let name = if query.contains('@') { "…".to_owned() } else { shown(&name) };
                let takes = "this URL takes `name` and `lease_max`";
                return Err(bad(format!("unknown parameter `{name}`: {takes}")));
            }
        }
    }
    Ok(config)
}

fn time(value: &str) -> Result<Duration, ConnectError> {
    humantime::parse_duration(value).map_err(|_| {
        let value = shown(value);
        bad(format!("`lease_max` is a time such as `30s` or `2m`, not `{value}`"))
    })
}

fn shown(text: &str) -> String {
    text.escape_default().take(SHOWN_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str) -> Result<(Vec<String>, Vec<Option<String>>), String> {
        let target = Target::parse(url).map_err(|error| error.to_string())?;
        let names = target.servers.iter().map(|server| name(server).unwrap()).collect();
        let info = target.servers.iter().map(|server| server.get_connection_info());
        let passwords = info.map(|info| info.redis_settings().password().map(String::from));
        Ok((names, passwords.collect()))
    }

    #[test]
    fn hosts_are_named_alike_and_have_the_login_of_the_first_or_their_own() {
        let (names, passwords) = read("redlock://u:p@A:1,b,v:w%2c@[::1]:3/2?lease_max=5s").unwrap();
        assert_eq!(names, ["a:1", "b:6379", "[::1]:3"]);
        assert_eq!(passwords, [Some("p".into()), Some("p".into()), Some("w,".into())]);
        let (_, passwords) = read("redlock://a,b,c?name=n").unwrap();
        assert_eq!(passwords, [None, None, None]);
        assert!(read("redlocks://a,b,c").is_ok() == cfg!(feature = "redis-tls"));
    }

    #[test]
    fn a_bad_url_is_refused_without_repeating_it() {
        for url in [
            "redlock:a,b,c",
            "redlock://:secret@a,,c",
            "redlock://:secret@a,b:port,c",
            "redlock://:secret@a,b,c/x",
            "redlock://:secret@a,b,c#d",
            "redlock://:secret@a,b,c?lease_max=soon",
            "redlock://:sec?secret@a,b,c",
            "redlock://:secret@a,b,c?lease=5s",
        ] {
            let error = read(url).unwrap_err();
            assert!(!error.contains("secret"), "{url}: {error}");
        }
    }
}
