//! From a URL to what is connected to. No error repeats the URL: it may hold a password.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use zookeeper_client::{Acls, Client};

use crate::error::ConnectError;
use crate::quorum::MembershipConfig;

/// The session timeout that is asked for, unless the URL says otherwise.
const SESSION_DEFAULT: Duration = Duration::from_secs(10);

/// What may be asked for; the server narrows it to 2 to 20 of its ticks.
const SESSION_MIN: Duration = Duration::from_millis(100);
const SESSION_MAX: Duration = Duration::from_secs(10 * 60);

/// How long a server may be silent, or take to connect to, before the next is tried: a session
/// must find another server while its proof is good.
const SILENCE_MAX: Duration = Duration::from_secs(2);

/// Not shorter than a pause of a healthy server.
const SILENCE_MIN: Duration = Duration::from_millis(500);

/// Where a server listens, unless the URL says otherwise.
const PORT_DEFAULT: u16 = 2181;

/// The longest part of an unknown parameter that an error repeats.
const SHOWN_CHARS_MAX: usize = 32;

/// Where to connect to, and as whom.
#[derive(Clone)]
pub(super) struct Target {
    /// `host:port` of each server, separated by commas.
    hosts: String,
    /// The path under which all lock directories are, without a slash at its end; empty for the
    /// root of the tree.
    pub(super) root: String,
    /// The session timeout to ask for.
    pub(super) session: Duration,
    digest: Option<Vec<u8>>,
    #[cfg(feature = "zookeeper-tls")]
    tls: Option<zookeeper_client::TlsOptions>,
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target").field("hosts", &self.hosts).field("root", &self.root).finish()
    }
}

fn bad(reason: impl Into<String>) -> ConnectError {
    ConnectError::Url { reason: reason.into() }
}

fn shown(text: &str) -> String {
    text.escape_default().take(SHOWN_CHARS_MAX).collect()
}

impl Target {
    /// Reads `zookeeper://[user:password@]h1[:port],h2[:port][/root][?session=10s]`, and the same
    /// with `zookeeper+tls`, which takes `ca`, `cert` and `key` as well: files in PEM.
    pub(super) fn parse(url: &str) -> Result<Self, ConnectError> {
        Self::read(url).map(|(target, _)| target)
    }

    /// Reads
    /// `zookeeper+quorum://[user:password@]h1[:port],h2,h3[/root][?session=…&name=…&lease_max=…]`,
    /// each of whose hosts is a server of its own.
    pub(super) fn parse_quorum(url: &str) -> Result<(Vec<Self>, MembershipConfig), ConnectError> {
        let (target, parameters) = Self::read(url)?;
        let hosts: Vec<_> = target.hosts.split(',').collect();
        let mut config = MembershipConfig::new(hosts.iter().map(|host| with_port(host)));
        if let Some(name) = parameters.name {
            config = config.with_name(name);
        }
        if let Some(lease_max) = parameters.lease_max {
            config = config.with_lease_max(lease_max);
        }
        let each = hosts.iter().map(|&host| Self { hosts: host.to_owned(), ..target.clone() });
        Ok((each.collect(), config))
    }

    fn read(url: &str) -> Result<(Self, Parameters), ConnectError> {
        let (scheme, rest) =
            url.split_once("://").ok_or_else(|| bad("`zookeeper:` is followed by `//`"))?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, root) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        let (user, hosts) = match authority.rsplit_once('@') {
            Some((user, hosts)) => (Some(user), hosts),
            None => (None, authority),
        };
        let parameters = Parameters::parse(query, scheme)?;
        let target = Self {
            hosts: checked_hosts(hosts)?,
            root: checked_root(root)?,
            session: parameters.session,
            digest: user.map(digest).transpose()?,
            #[cfg(feature = "zookeeper-tls")]
            tls: (scheme == "zookeeper+tls").then(|| parameters.tls()).transpose()?,
        };
        Ok((target, parameters))
    }

    /// Whether everything is sent over TLS.
    pub(super) fn is_tls(&self) -> bool {
        #[cfg(feature = "zookeeper-tls")]
        return self.tls.is_some();
        #[cfg(not(feature = "zookeeper-tls"))]
        false
    }

    /// How the nodes of an authenticated client are protected: nobody else may touch them.
    pub(super) fn acls(&self) -> Acls<'static> {
        if self.digest.is_some() { Acls::creator_all() } else { Acls::anyone_all() }
    }

    /// Opens a session; the client tries all servers in turn for as long as a session would last.
    pub(super) async fn connect(&self) -> Result<Client, zookeeper_client::Error> {
        let mut connector = Client::connector()
            .with_session_timeout(self.session)
            .with_connection_timeout((self.session / 4).clamp(SILENCE_MIN, SILENCE_MAX));
        if let Some(digest) = &self.digest {
            connector = connector.with_auth("digest", digest);
        }
        #[cfg(feature = "zookeeper-tls")]
        if let Some(tls) = &self.tls {
            super::tls::install();
            return connector.with_tls(tls.clone()).secure_connect(&self.hosts).await;
        }
        connector.connect(&self.hosts).await
    }
}

/// A host as the client reads it.
fn with_port(host: &str) -> String {
    match host.rsplit_once(':') {
        Some((_, port)) if !port.contains(']') => host.to_lowercase(),
        _ => format!("{}:{PORT_DEFAULT}", host.to_lowercase()),
    }
}

fn checked_hosts(hosts: &str) -> Result<String, ConnectError> {
    for host in hosts.split(',') {
        // The port is what follows the last colon, unless that is part of an address in brackets.
        let (name, port) = match host.rsplit_once(':') {
            Some((name, port)) if !port.contains(']') => (name, Some(port)),
            _ => (host, None),
        };
        let plain = |name: &str| {
            !name.is_empty()
                && name
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_'))
        };
        let bracketed = |name: &str| {
            let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
            address.is_some_and(|address| address.parse::<std::net::Ipv6Addr>().is_ok())
        };
        if !plain(name) && !bracketed(name) {
            return Err(bad(
                "each host is a name, an IPv4 address, or an IPv6 address in brackets",
            ));
        }
        if port.is_some_and(|port| !matches!(port.parse::<u16>(), Ok(1..))) {
            return Err(bad("a port is a number from 1 to 65535"));
        }
    }
    Ok(hosts.to_owned())
}

/// ZooKeeper's own rules for a path, and no slash at its end.
fn checked_root(root: &str) -> Result<String, ConnectError> {
    let root = decoded(root.strip_suffix('/').unwrap_or(root))?;
    for node in root.split('/').skip(1) {
        let legal = !node.is_empty()
            && node != "."
            && node != ".."
            && !node.chars().any(|c| {
                c.is_control() || matches!(c, '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..='\u{ffff}')
            });
        if !legal {
            return Err(bad("the path has an empty, relative or illegal part"));
        }
    }
    if root == "/zookeeper" || root.starts_with("/zookeeper/") {
        return Err(bad("the path `/zookeeper` is ZooKeeper's own"));
    }
    Ok(root.into_owned())
}

fn decoded(text: &str) -> Result<Cow<'_, str>, ConnectError> {
    percent_decode_str(text).decode_utf8().map_err(|_| bad("percent-encoded text is not UTF-8"))
}

/// `user:password`, percent-decoded, as the scheme `digest` takes it.
fn digest(user: &str) -> Result<Vec<u8>, ConnectError> {
    let wanted = || bad("digest authentication needs `user:password@`");
    let (user, password) = user.split_once(':').ok_or_else(wanted)?;
    let (user, password) = (decoded(user)?, decoded(password)?);
    if user.is_empty() || password.is_empty() || user.contains(':') {
        return Err(wanted());
    }
    Ok(format!("{user}:{password}").into_bytes())
}

/// What stands behind the `?`.
struct Parameters {
    session: Duration,
    /// Of a quorum.
    name: Option<String>,
    lease_max: Option<Duration>,
    #[cfg(feature = "zookeeper-tls")]
    files: [Option<String>; 3],
}

impl Parameters {
    fn parse(query: &str, scheme: &str) -> Result<Self, ConnectError> {
        let (tls, quorum) = (scheme == "zookeeper+tls", scheme == "zookeeper+quorum");
        let mut parameters = Self {
            session: SESSION_DEFAULT,
            name: None,
            lease_max: None,
            #[cfg(feature = "zookeeper-tls")]
            files: [const { None }; 3],
        };
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*name {
                "session" => parameters.session = session(&value)?,
                "name" if quorum => parameters.name = Some(value.into_owned()),
                "lease_max" if quorum => parameters.lease_max = Some(time(&name, &value)?),
                #[cfg(feature = "zookeeper-tls")]
                "ca" if tls => parameters.files[0] = Some(value.into_owned()),
                #[cfg(feature = "zookeeper-tls")]
                "cert" if tls => parameters.files[1] = Some(value.into_owned()),
                #[cfg(feature = "zookeeper-tls")]
                "key" if tls => parameters.files[2] = Some(value.into_owned()),
                _ => {
                    let takes = match (tls, quorum) {
                        (true, _) => "`session`, `ca`, `cert` and `key`",
                        (_, true) => "`session`, `name` and `lease_max`",
                        _ => "`session`",
                    };
                    // A `?` in a password that is not encoded leads here too.
                    let name = if query.contains('@') { "…".to_owned() } else { shown(&name) };
                    return Err(bad(format!("unknown parameter `{name}`: this URL takes {takes}")));
                }
            }
        }
        Ok(parameters)
    }

    #[cfg(feature = "zookeeper-tls")]
    fn tls(&self) -> Result<zookeeper_client::TlsOptions, ConnectError> {
        super::tls::options(&self.files).map_err(bad)
    }
}

fn time(name: &str, value: &str) -> Result<Duration, ConnectError> {
    humantime::parse_duration(value).map_err(|_| {
        bad(format!("`{name}` is a time such as `10s` or `1500ms`, not `{}`", shown(value)))
    })
}

fn session(value: &str) -> Result<Duration, ConnectError> {
    let session = time("session", value)?;
    if !(SESSION_MIN..=SESSION_MAX).contains(&session) {
        return Err(bad(format!(
            "`session` is {session:?}, it must be from {SESSION_MIN:?} to {SESSION_MAX:?}"
        )));
    }
    Ok(session)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(url: &str) -> Target {
        Target::parse(url).unwrap_or_else(|error| panic!("{url}: {error}"))
    }

    #[test]
    fn good_urls_are_read() {
        let plain = target("zookeeper://127.0.0.1");
        assert_eq!((plain.hosts.as_str(), plain.root.as_str()), ("127.0.0.1", ""));
        assert_eq!(plain.session, SESSION_DEFAULT);
        let full = target("zookeeper://u:p%40ss@h1:2181,h2,[::1]:2183/a/b%20c/?session=1500ms");
        assert_eq!(full.hosts, "h1:2181,h2,[::1]:2183");
        assert_eq!(full.root, "/a/b c");
        assert_eq!(full.session, Duration::from_millis(1500));
        assert_eq!(full.digest.as_deref(), Some(&b"u:p@ss"[..]));
        assert!(!format!("{full:?}").contains("p@ss"));
        assert_eq!(target("zookeeper://h/").root, "");
    }

    #[test]
    fn each_host_of_a_quorum_is_a_server_of_its_own() {
        let url = "zookeeper+quorum://u:p@H1,h2:2182,[::1]/locks?session=4s&name=n&lease_max=5s";
        let (each, config) = Target::parse_quorum(url).unwrap();
        let names = ["h1:2181", "h2:2182", "[::1]:2181"];
        let wanted =
            MembershipConfig::new(names).with_name("n").with_lease_max(Duration::from_secs(5));
        assert_eq!(config, wanted);
        let hosts: Vec<_> = each.iter().map(|target| target.hosts.as_str()).collect();
        assert_eq!(hosts, ["H1", "h2:2182", "[::1]"]);
        for target in each {
            assert_eq!((target.root.as_str(), target.session.as_secs()), ("/locks", 4));
            assert_eq!(target.digest.as_deref(), Some(&b"u:p"[..]));
        }
    }

    #[test]
    fn a_bad_url_is_refused_without_repeating_it() {
        for (url, part) in [
            ("zookeeper:secret", "`//`"),
            ("zookeeper://", "host"),
            ("zookeeper://u:secret@", "host"),
            ("zookeeper://u:secret@h:port", "port"),
            ("zookeeper://u:secret@h:0", "port"),
            ("zookeeper://u:secret@h1,,h2", "host"),
            ("zookeeper://u:secret@h/a//b", "path"),
            ("zookeeper://u:secret@h/../b", "path"),
            ("zookeeper://u:secret@h/zookeeper/locks", "ZooKeeper's own"),
            ("zookeeper://secret@h", "user:password"),
            ("zookeeper://:secret@h", "user:password"),
            ("zookeeper://u:secret@h?session=soon", "session"),
            ("zookeeper://u:secret@h?session=1ms", "100ms"),
            ("zookeeper://u:secret@h?session=1day", "600s"),
            ("zookeeper://u:secret@h?chroot=/x", "chroot"),
            ("zookeeper://u:secret@h?ca=x.pem", "ca"),
            ("zookeeper://u:secret@h?name=n", "name"),
            ("zookeeper+quorum://u:secret@h?lease_max=soon", "lease_max"),
            ("zookeeper+quorum://u:secret@h?ca=x.pem", "lease_max"),
            ("zookeeper://u:p?secret@h", "parameter"),
            ("zookeeper://h?secret@x", "parameter"),
        ] {
            let error = Target::parse(url).unwrap_err().to_string();
            assert!(error.contains(part) && !error.contains("secret"), "{url}: {error}");
        }
    }
}
