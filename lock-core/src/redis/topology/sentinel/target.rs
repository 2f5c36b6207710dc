//! The way from a URL to the sentinels, the name of the master and the logins.

use std::time::Duration;

use crate::backend::url::{Host, Login};
use crate::backend::{StoreUrl, UrlError, UrlPart};
use crate::redis::wire::access::{self, Access};

/// The time that a sentinel has to answer, and to be connected to. One that takes longer is passed
/// over.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// The sentinels to ask, and the way to reach the server that they name.
#[derive(Debug, Clone)]
pub(in crate::redis) struct Target {
    /// The sentinels in the order of the URL, each once.
    pub(super) sentinels: Vec<Host>,
    /// The name of the master at the sentinels.
    pub(super) master: String,
    /// The access to a sentinel.
    pub(super) sentinel: Access,
    /// The access to a server that the sentinels name.
    pub(super) server: Access,
    /// [`ANSWER_WITHIN`], but in tests.
    pub(super) within: Duration,
}

impl Target {
    pub(in crate::redis) fn of(url: &StoreUrl) -> Result<Self, UrlError> {
        let (master, db) = match url.path().strip_prefix('/') {
            Some(path) => path.split_once('/').unwrap_or((path, "")),
            None => ("", ""),
        };
        if master.is_empty() || master.contains(' ') {
            let reason = "the sentinels are followed by `/` and the name of the master";
            return Err(UrlError::new(UrlPart::Path, reason));
        }
        let mut sentinels = Vec::new();
        for host in url.hosts() {
            if !sentinels.contains(host) {
                sentinels.push(host.clone());
            }
        }
        let server = Access { db: access::database(db, UrlPart::Path)?, ..Access::of(url) };
        let sentinel = Access { login: login_of_sentinels(url)?, db: 0, tls: url.is_tls() };
        Ok(Self { sentinels, master: master.to_owned(), sentinel, server, within: ANSWER_WITHIN })
    }
}

fn login_of_sentinels(url: &StoreUrl) -> Result<Option<Login>, UrlError> {
    let user = url.param("sentinel_user").map(String::from);
    match (user, url.param("sentinel_password")) {
        (user, Some(password)) => Ok(Some(Login::new(user, password.to_owned()))),
        (None, None) => Ok(None),
        (Some(_), None) => {
            let reason = "`sentinel_user` needs `sentinel_password` beside it";
            Err(UrlError::new(UrlPart::Parameters, reason))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redis::schemes::SENTINEL;

    fn target(rest: &str) -> Result<Target, UrlError> {
        Target::of(&StoreUrl::parse(&format!("redis+sentinel://{rest}"), &[SENTINEL])?)
    }

    #[test]
    fn every_part_of_a_good_url_is_read() {
        let login = |user: Option<&str>, password: &str| {
            Some(Login::new(user.map(String::from), password.into()))
        };
        let hosts = "al%20ice:p%40ss@h1,h2:5000,[::1]:6000,h1:26379";
        let params = "sentinel_user=w&sentinel_password=x%2By";
        let read = target(&format!("{hosts}/my-master/3?{params}")).unwrap();
        let at: Vec<_> = read.sentinels.iter().map(ToString::to_string).collect();
        assert_eq!(at, ["h1:26379", "h2:5000", "[::1]:6000"]);
        assert_eq!((read.master.as_str(), read.server.db, read.sentinel.db), ("my-master", 3, 0));
        assert_eq!(read.server.login, login(Some("al ice"), "p@ss"));
        assert_eq!(read.sentinel.login, login(Some("w"), "x+y"));
        let read = target("h/m").unwrap();
        assert_eq!((read.server.login, read.sentinel.login, read.server.db), (None, None, 0));
        let read = target("h/m/?sentinel_password=q").unwrap();
        assert_eq!(read.sentinel.login, login(None, "q"));
    }

    #[test]
    fn what_names_no_master_or_database_is_refused_by_its_part() {
        for (rest, part) in [
            ("h", UrlPart::Path),
            ("h/", UrlPart::Path),
            ("h/a%20b", UrlPart::Path),
            ("h/m/x", UrlPart::Path),
            ("h/m/65536", UrlPart::Path),
            ("h/m/0/1", UrlPart::Path),
            ("h/m?sentinel_user=u", UrlPart::Parameters),
        ] {
            assert_eq!(target(rest).unwrap_err().part(), part, "{rest}");
        }
    }
}
