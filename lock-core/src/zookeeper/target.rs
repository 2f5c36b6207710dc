//! The way from a URL to the servers that are connected to.

use std::fmt;
use std::time::Duration;

use zookeeper_client::{Acls, Client};

use super::Exclusive;
use crate::backend::url::Login;
use crate::backend::{StoreUrl, UrlError, UrlPart};
use crate::ground::{Plus as _, clock};

/// The session timeout that is asked for, unless the URL says otherwise.
const SESSION_DEFAULT: Duration = Duration::from_secs(10);

/// The bounds of the timeout to ask for; the server narrows it to 2 to 20 of its ticks.
const SESSION_MIN: Duration = Duration::from_millis(100);
const SESSION_MAX: Duration = Duration::from_secs(10 * 60);

/// The longest that a server may be silent, or take to connect to, before the next is tried. A
/// session must find another server while its proof is good.
const SILENCE_MAX: Duration = Duration::from_secs(2);

/// Not shorter than a pause of a healthy server.
const SILENCE_MIN: Duration = Duration::from_millis(500);

/// The pauses between two rounds of servers of which none could be connected to.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// The servers to connect to, and the login.
#[derive(Clone)]
pub(super) struct Target {
    /// `host:port` of each server.
    hosts: Vec<String>,
    /// The path under which all lock directories are, without a slash at its end; empty for the
    /// root of the tree.
    pub(super) root: String,
    /// The session timeout to ask for.
    pub(super) session: Duration,
    /// The name in which exclusive claims stand in line.
    pub(super) exclusive: Exclusive,
    login: Option<Login>,
    #[cfg(feature = "zookeeper-tls")]
    tls: Option<zookeeper_client::TlsOptions>,
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target").field("hosts", &self.hosts).field("root", &self.root).finish()
    }
}

impl Target {
    pub(super) fn of(url: &StoreUrl) -> Result<Self, UrlError> {
        Ok(Self {
            hosts: url.hosts().iter().map(ToString::to_string).collect(),
            root: root(url.path())?,
            session: session(url)?,
            exclusive: exclusive(url)?,
            login: login(url)?,
            #[cfg(feature = "zookeeper-tls")]
            tls: url.is_tls().then(|| super::tls::options(url)).transpose()?,
        })
    }

    /// Each host as a server of its own.
    pub(super) fn each(&self) -> impl Iterator<Item = Self> {
        self.hosts.iter().map(|host| Self { hosts: vec![host.clone()], ..self.clone() })
    }

    /// Whether everything is sent over TLS.
    pub(super) fn is_tls(&self) -> bool {
        #[cfg(feature = "zookeeper-tls")]
        return self.tls.is_some();
        #[cfg(not(feature = "zookeeper-tls"))]
        false
    }

    /// The protection of the nodes of an authenticated client: nobody else may touch them.
    pub(super) fn acls(&self) -> Acls<'static> {
        if self.login.is_some() { Acls::creator_all() } else { Acls::anyone_all() }
    }

    /// Opens a session; tries all servers in turn for as long as a session would last.
    ///
    /// The library would do so itself, and without a pause where each connect fails at once.
    pub(super) async fn connect(&self) -> Result<Client, zookeeper_client::Error> {
        let until = clock::now().plus(self.session);
        let mut pause = PAUSE_MIN;
        loop {
            match self.connect_once().await {
                Err(zookeeper_client::Error::NoHosts) if clock::now().plus(pause) < until => {}
                Err(zookeeper_client::Error::NoHosts) => {
                    return Err(zookeeper_client::Error::Timeout);
                }
                answer => return answer,
            }
            clock::alarm_in(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Asks each server once.
    async fn connect_once(&self) -> Result<Client, zookeeper_client::Error> {
        let mut connector = Client::connector()
            .with_fail_eagerly()
            .with_session_timeout(self.session)
            .with_connection_timeout(silence(self.session));
        if let Some(login) = &self.login {
            let (user, password) = (login.user().unwrap_or_default(), login.password());
            connector = connector.with_auth("digest", format!("{user}:{password}").as_bytes());
        }
        let hosts = self.hosts.join(",");
        #[cfg(feature = "zookeeper-tls")]
        if let Some(tls) = &self.tls {
            super::tls::install();
            return connector.with_tls(tls.clone()).secure_connect(&hosts).await;
        }
        connector.connect(&hosts).await
    }
}

/// The time that a server may be silent, for a session of which this timeout is asked. The library
/// takes two fifths of the timeout that was granted where this is above three fifths of it.
pub(super) fn silence(session: Duration) -> Duration {
    (session / 4).clamp(SILENCE_MIN, SILENCE_MAX)
}

/// ZooKeeper's own rules for a path, and no slash at its end.
fn root(path: &str) -> Result<String, UrlError> {
    let bad = |reason: &'static str| UrlError::new(UrlPart::Path, reason);
    let root = path.strip_suffix('/').unwrap_or(path);
    for node in root.split('/').skip(1) {
        let odd = |c| matches!(c, '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..='\u{ffff}');
        if matches!(node, "" | "." | "..") || node.contains(odd) {
            return Err(bad("it has an empty, relative or illegal part"));
        }
    }
    if root == "/zookeeper" || root.starts_with("/zookeeper/") {
        return Err(bad("`/zookeeper` is ZooKeeper's own"));
    }
    Ok(root.to_owned())
}

/// The login, in a form that the scheme `digest` takes.
fn login(url: &StoreUrl) -> Result<Option<Login>, UrlError> {
    let Some(login) = url.login() else { return Ok(None) };
    match login.user() {
        Some(user) if !user.contains(':') => Ok(Some(login.clone())),
        _ => {
            let reason = "digest authentication needs `user:password@`, with no `:` in the user";
            Err(UrlError::new(UrlPart::Login, reason))
        }
    }
}

fn session(url: &StoreUrl) -> Result<Duration, UrlError> {
    let session = url.duration("session")?.unwrap_or(SESSION_DEFAULT);
    if !(SESSION_MIN..=SESSION_MAX).contains(&session) {
        let reason =
            format!("`session` is {session:?}, it must be from {SESSION_MIN:?} to {SESSION_MAX:?}");
        return Err(UrlError::new(UrlPart::Parameters, reason));
    }
    Ok(session)
}

fn exclusive(url: &StoreUrl) -> Result<Exclusive, UrlError> {
    match url.param("exclusive") {
        None | Some("mutex") => Ok(Exclusive::Mutex),
        Some("writer") => Ok(Exclusive::Writer),
        Some(_) => Err(UrlError::new(UrlPart::Parameters, "`exclusive` is `mutex` or `writer`")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::schemes::{QUORUM, SERVERS};
    use super::*;

    fn target(url: &str) -> Result<Target, UrlError> {
        Target::of(&StoreUrl::parse(url, &[SERVERS, QUORUM])?)
    }

    #[test]
    fn good_urls_are_read() {
        let plain = target("zookeeper://127.0.0.1").unwrap();
        assert_eq!((&plain.hosts[..], &*plain.root), (&["127.0.0.1:2181".to_owned()][..], ""));
        assert_eq!((plain.session, plain.login), (SESSION_DEFAULT, None));
        assert_eq!(plain.exclusive, Exclusive::Mutex);
        for (name, exclusive) in [("mutex", Exclusive::Mutex), ("writer", Exclusive::Writer)] {
            let url = format!("zookeeper://h/locks?exclusive={name}");
            assert_eq!(target(&url).unwrap().exclusive, exclusive);
        }
        let url = "zookeeper://u:p%40ss@h1:2181,H2,[::1]:2183/a/b%20c/?session=1500ms";
        let full = target(url).unwrap();
        assert_eq!(full.hosts, ["h1:2181", "h2:2181", "[::1]:2183"]);
        assert_eq!((&*full.root, full.session), ("/a/b c", Duration::from_millis(1500)));
        assert_eq!(full.login, Some(Login::new(Some("u".into()), "p@ss".into())));
        let each: Vec<_> = full.each().flat_map(|one| one.hosts).collect();
        assert_eq!(each, full.hosts);
        assert_eq!(target("zookeeper://h/").unwrap().root, "");
    }

    #[test]
    fn what_zookeeper_does_not_take_is_refused_by_its_part() {
        for (url, part) in [
            ("zookeeper://h/a//b", UrlPart::Path),
            ("zookeeper://h/../b", UrlPart::Path),
            ("zookeeper://h/a%EF%BF%BE", UrlPart::Path),
            ("zookeeper://h/zookeeper/locks", UrlPart::Path),
            ("zookeeper://:p@h", UrlPart::Login),
            ("zookeeper://u%3Av:p@h", UrlPart::Login),
            ("zookeeper://h?session=soon", UrlPart::Parameters),
            ("zookeeper://h?session=1ms", UrlPart::Parameters),
            ("zookeeper://h?exclusive=Writer", UrlPart::Parameters),
            ("zookeeper://h?exclusive=", UrlPart::Parameters),
            ("zookeeper+quorum://h?exclusive=writer", UrlPart::Parameters),
            ("zookeeper+quorum://h?session=1day", UrlPart::Parameters),
        ] {
            assert_eq!(target(url).unwrap_err().part(), part, "{url}");
        }
    }
}
