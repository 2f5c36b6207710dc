//! The target of a URL: the members to connect to, and how.

use std::fmt;
use std::time::Duration;

use tonic::transport::Endpoint;

use crate::backend::url::Login;
use crate::backend::{StoreUrl, UrlError, UrlPart};

/// The session that is asked for, unless the URL says otherwise.
const SESSION_DEFAULT: Duration = Duration::from_secs(10);

/// etcd counts leases in seconds, and gives none below two by its defaults.
const SESSION_MIN: Duration = Duration::from_secs(2);
const SESSION_MAX: Duration = Duration::from_secs(10 * 60);

/// How long a member may take to connect to.
pub(super) const CONNECT_WITHIN: Duration = Duration::from_secs(1);

/// The members to connect to, and the login.
#[derive(Clone)]
pub(super) struct Target {
    /// One for each member.
    pub(super) endpoints: Vec<Endpoint>,
    /// The text that all keys begin with: empty, or with a slash at its end.
    pub(super) root: String,
    /// How long the session lives after its last keepalive.
    pub(super) session: Duration,
    pub(super) login: Option<Login>,
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts: Vec<_> = self.endpoints.iter().map(|endpoint| endpoint.uri()).collect();
        f.debug_struct("Target").field("hosts", &hosts).field("root", &self.root).finish()
    }
}

impl Target {
    pub(super) fn of(url: &StoreUrl) -> Result<Self, UrlError> {
        let hosts = url.hosts().iter().map(|host| endpoint(url, &host.to_string()));
        Ok(Self {
            endpoints: hosts.collect::<Result<_, _>>()?,
            root: root(url.path()),
            session: session(url)?,
            login: login(url)?,
        })
    }
}

/// The slash behind the hosts is none of etcd's; a second one is.
fn root(path: &str) -> String {
    let root = path.strip_prefix('/').unwrap_or(path);
    match root.strip_suffix('/').unwrap_or(root) {
        "" => String::new(),
        root => format!("{root}/"),
    }
}

fn session(url: &StoreUrl) -> Result<Duration, UrlError> {
    let session = url.duration("session")?.unwrap_or(SESSION_DEFAULT);
    let is_whole = session.subsec_nanos() == 0;
    if !is_whole || !(SESSION_MIN..=SESSION_MAX).contains(&session) {
        let reason = format!(
            "`session` is {session:?}, it must be whole seconds from {SESSION_MIN:?} to \
             {SESSION_MAX:?}"
        );
        return Err(UrlError::new(UrlPart::Parameters, reason));
    }
    Ok(session)
}

fn login(url: &StoreUrl) -> Result<Option<Login>, UrlError> {
    match url.login() {
        Some(login) if login.user().is_none_or(str::is_empty) => {
            Err(UrlError::new(UrlPart::Login, "etcd needs `user:password@`"))
        }
        login => Ok(login.cloned()),
    }
}

fn endpoint(url: &StoreUrl, host: &str) -> Result<Endpoint, UrlError> {
    let scheme = if url.is_tls() { "https" } else { "http" };
    let endpoint = Endpoint::from_shared(format!("{scheme}://{host}"))
        .map_err(|_| UrlError::new(UrlPart::Hosts, "it is no name that HTTP takes"))?
        .connect_timeout(CONNECT_WITHIN)
        .tcp_nodelay(true);
    #[cfg(feature = "etcd-tls")]
    if url.is_tls() {
        return super::tls::secured(endpoint, url);
    }
    Ok(endpoint)
}

#[cfg(test)]
mod tests {
    use super::super::schemes::MEMBERS;
    use super::*;

    fn target(url: &str) -> Result<Target, UrlError> {
        Target::of(&StoreUrl::parse(url, &[MEMBERS])?)
    }

    #[test]
    fn good_urls_are_read() {
        let plain = target("etcd://127.0.0.1").unwrap();
        assert_eq!(plain.endpoints[0].uri().to_string(), "http://127.0.0.1:2379/");
        assert_eq!((&*plain.root, plain.session, plain.login), ("", SESSION_DEFAULT, None));
        let full = target("etcd://u:p%40ss@h1:1,[::1]:2/a/b%20c/?session=5s").unwrap();
        assert_eq!(full.endpoints.len(), 2);
        assert_eq!((&*full.root, full.session), ("a/b c/", Duration::from_secs(5)));
        assert_eq!(full.login, Some(Login::new(Some("u".into()), "p@ss".into())));
        assert_eq!(target("etcd://h//locks").unwrap().root, "/locks/");
    }

    #[test]
    fn what_etcd_does_not_take_is_refused_by_its_part() {
        for (url, part) in [
            ("etcd://:p@h", UrlPart::Login),
            ("etcd://h?session=soon", UrlPart::Parameters),
            ("etcd://h?session=1s", UrlPart::Parameters),
            ("etcd://h?session=2500ms", UrlPart::Parameters),
            ("etcd://h?session=1h", UrlPart::Parameters),
        ] {
            assert_eq!(target(url).unwrap_err().part(), part, "{url}");
        }
    }
}
