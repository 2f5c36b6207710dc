//! From a URL to a backend.

use std::sync::Arc;

use crate::backend::url::is_scheme;
use crate::backend::{ConnectError, Driver, DynBackend, Opening, Prefix, Scheme, StoreUrl};
#[cfg(feature = "redis")]
pub(crate) use crate::redis::pools::Pools;
use crate::stores::STORES;

/// Without Redis there is no pool of its connections.
#[cfg(not(feature = "redis"))]
#[derive(Default)]
pub(crate) struct Pools {}

/// The parameter of every URL of a client, whichever its store.
const PREFIX: &str = "prefix";

/// Connects to the store that a URL names: one of this crate's, or one of `outside`. Also the prefix
/// that it names.
pub(crate) async fn backend(
    url: &str,
    label: Option<&'static str>,
    outside: Vec<Driver>,
    pools: Pools,
) -> Result<(Arc<dyn DynBackend>, Option<Prefix>), ConnectError> {
    let (opening, prefix) = opening(url, label, outside, pools)?;
    Ok((opening.await?, prefix))
}

/// Checks all that the URL says; nothing is sent before the answer is polled.
fn opening(
    url: &str,
    label: Option<&'static str>,
    outside: Vec<Driver>,
    pools: Pools,
) -> Result<(Opening, Option<Prefix>), ConnectError> {
    let drivers = drivers(outside)?;
    let schemes: Vec<_> = drivers.iter().map(Driver::scheme).collect();
    let (place, url) = StoreUrl::parse_at(url, &schemes, &[PREFIX])?;
    let url = url.for_client(label);
    let prefix = url.param(PREFIX).map(Prefix::new).transpose()?;
    #[cfg(feature = "redis")]
    if !pools.are_none() {
        return Ok((pools.open(&url)?, prefix));
    }
    #[cfg(not(feature = "redis"))]
    let Pools {} = pools;
    Ok((drivers[place].open(url)?, prefix))
}

/// The table: the stores of this crate, then those from outside of it, each scheme once.
fn drivers(outside: Vec<Driver>) -> Result<Vec<Driver>, ConnectError> {
    let mut drivers = STORES.concat();
    for driver in outside {
        let scheme = driver.scheme();
        let name = scheme.name();
        if !is_scheme(name)
            || name.contains(|c: char| c.is_ascii_uppercase())
            || name.ends_with("+tls")
        {
            return Err(ConnectError::SchemeName { scheme: name });
        }
        if drivers.iter().any(|other| is_spelled_as(scheme, other.scheme())) {
            return Err(ConnectError::SchemeTaken { scheme: name });
        }
        drivers.push(driver);
    }
    Ok(drivers)
}

/// Whether a URL could be of both.
fn is_spelled_as(one: Scheme, other: Scheme) -> bool {
    one.spellings().any(|(one, ..)| other.spellings().any(|(other, ..)| one == other))
}

#[cfg(all(test, feature = "redis-tls", feature = "zookeeper-tls"))]
#[cfg(all(feature = "sqlite", feature = "postgres-tls"))]
#[cfg(all(feature = "mysql-tls", feature = "etcd-tls"))]
mod tests {
    use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
    use proptest::prelude::*;

    use super::*;
    use crate::LockClient;
    use crate::memory::Memory;

    /// In each piece of each password of these tests, and nowhere else.
    const MARK: &str = "hunter2";

    fn schemes() -> Vec<Scheme> {
        drivers(Vec::new()).unwrap().iter().map(Driver::scheme).collect()
    }

    /// All ways to spell a scheme, right and wrong.
    fn spellings() -> Vec<String> {
        let right = schemes().into_iter().flat_map(|scheme| scheme.spellings().collect::<Vec<_>>());
        let wrong = ["", "redlocks", "rediss+sentinel", "redis+tls+cluster", "zookeepers", "ftp"];
        right.map(|(spelling, ..)| spelling).chain(wrong.map(String::from)).collect()
    }

    /// Whatever comes of it shows no piece of a password. Also whether it was read.
    fn shows_nothing(url: &str) -> bool {
        let builder = LockClient::builder(url);
        let mut shown = format!("{builder:?}");
        let read = StoreUrl::parse(url, &schemes());
        shown += &format!("{read:?}");
        // All that a store checks before it connects to anything.
        if let Err(error) = opening(url, None, Vec::new(), Pools::default()) {
            shown += &format!("{error} {error:?}");
        }
        assert!(!shown.contains(MARK), "{url}: {shown}");
        read.is_ok()
    }

    #[test]
    fn no_malformed_url_of_any_scheme_shows_a_secret() {
        for spelling in spellings() {
            for rest in [
                // In the place of the user, and without a host.
                "://hunter2@h",
                "://:hunter2@",
                "://hunter2:hunter2@",
                // Without slashes, or with too many.
                ":hunter2",
                ":u:hunter2@h",
                ":/u:hunter2@h",
                ":///u:hunter2@h",
                // Unescaped in the password.
                "://u:hunter2@hunter2@h",
                "://u:hunter2/hunter2@h",
                "://u:1/hunter2@h/m",
                "://u:hunter2#hunter2@h",
                "://u:hunter2?hunter2@h",
                "://u:1?hunter2=hunter2@h",
                "://u:hunter2&hunter2@h",
                "://u:hunter2,hunter2@h",
                "://u:hunter2\nhunter2@h",
                "://u:[hunter2]@h",
                // Broken codes.
                "://u:hunter2%@h",
                "://u:hunter2%4@h",
                "://u:hunter2%zz@h",
                "://u:hunter2%ff@h",
                // Behind the `?`.
                "://h/m?hunter2",
                "://h/m?password=hunter2",
                "://h/m?pass:hunter2",
                "://h/m?sentinel_password=hunter2&hunter2",
                "://h/m?sentinel_password=hunter2&hunter2=",
                "://h/m?sentinel_password=hunter2&sentinel_password=hunter2",
                "://h/m?sentinel_password=hunter2%zz",
                "://h/m?sentinel_user=hunter2",
                "://h/m?hunter2@i",
                // Something else is wrong.
                "://u:hunter2@h:port/m",
                "://u:hunter2@h:0/m",
                "://u:hunter2@h,,i/m",
                "://u:hunter2@[::1/m",
                "://u:hunter2@h i/m",
                "://u:hunter2@h/m%00",
                "://u:hunter2@h/m/x/y",
                "://u:hunter2@h//m",
                "://u:hunter2@h/m?fsync=no",
                "://u:hunter2@h/m?session=soon",
                "://u:hunter2@h/m?lease_max=1ms",
                "://u:hunter2@h/m?ca=/nowhere",
                "://u:hunter2@h,i/m",
                "://u:hunter2@h,v:hunter2@i,hunter2@j/m",
                "://u:hunter2@h,i,h/m",
            ] {
                let rest = if spelling == "memory" && rest == ":hunter2" { ":" } else { rest };
                shows_nothing(&format!("{spelling}{rest}"));
            }
        }
        for bare in
            ["hunter2", "hunter2@h", "hunter2@h:1", "u:hunter2@h", ":hunter2@h", "//u:hunter2@h"]
        {
            assert!(!shows_nothing(bare));
        }
    }

    /// A password with odd characters in it.
    fn password() -> impl Strategy<Value = String> {
        let odd = proptest::collection::vec("[-@/#?&%:,+;!|\\[\\]\\\\ \n\u{e9}]", 0..4);
        odd.prop_map(|odd| odd.iter().fold(MARK.to_owned(), |all, odd| all + odd + MARK))
    }

    fn one_of(list: &[&'static str]) -> impl Strategy<Value = &'static str> + use<> {
        proptest::sample::select(list.to_vec())
    }

    proptest! {
        #[test]
        fn no_url_shows_a_password(
            spelling in proptest::sample::select(spellings()),
            slashes in one_of(&["://", ":", "//", ":/", ""]),
            login in one_of(&["", "u:<p>@", ":<p>@", "<p>@", "u:@", "u:<p>@v:<p>@"]),
            hosts in one_of(&["h", "h:1", "h:x", "h,i,j", "h,v:<p>@i,:<p>@j", "[::1]:2", "[::1", ""]),
            path in one_of(&["", "/", "/m", "/0", "/m/0", "//", "/%zz", "/a%00"]),
            query in one_of(&["", "?", "?<p>", "?password=<p>", "?sentinel_password=<p>",
                "?db=1&sentinel_password=<p>&sentinel_user=<p>", "?session=2s", "?name=n&name=n"]),
            password in password(),
            is_encoded in any::<bool>(),
        ) {
            let written = match is_encoded {
                true => utf8_percent_encode(&password, NON_ALPHANUMERIC).to_string(),
                false => password,
            };
            let url = [&spelling, slashes, login, hosts, path, query].concat();
            shows_nothing(&url.replace("<p>", &written));
        }

        #[test]
        fn a_password_is_read_as_it_is_or_refused(password in password(), is_encoded: bool) {
            let written = match is_encoded {
                true => utf8_percent_encode(&password, NON_ALPHANUMERIC).to_string(),
                false => password.clone(),
            };
            for (scheme, rest) in [
                ("redis", "h/0"),
                ("redis+unix", "/run/s"),
                ("redis+sentinel", "h/m"),
                ("redis+cluster", "h"),
                ("redlock", "h,i,j"),
                ("zookeeper", "h/m"),
                ("zookeeper+quorum", "h,i,j"),
                ("etcd", "h/m"),
            ] {
                let read = StoreUrl::parse(&format!("{scheme}://u:{written}@{rest}"), &schemes());
                prop_assert!(read.is_ok() || !is_encoded, "{:?}", read);
                if let Ok(url) = read {
                    prop_assert_eq!(url.login().unwrap().password(), &password);
                }
            }
        }
    }

    #[test]
    fn good_urls_of_every_scheme_are_opened() {
        for url in [
            "memory:",
            "memory:name",
            "redis://127.0.0.1",
            "rediss://u:p@h:1/2",
            "redis+unix://:p@/run/s?db=1",
            "redis+sentinel+tls://h1,h2/m/3?sentinel_password=p",
            "redis+cluster+tls://:p@h1,h2:7001/0",
            "redlock+tls://u:p@a,b,c/1?name=n&lease_max=5s",
            "zookeeper://u:p@h1,[::1]:2182/locks?session=4s",
            "zookeeper+quorum://a,b,c/locks?name=n&lease_max=5s",
            "etcd://u:p@h1,[::1]:2380/locks?session=4s",
            "sqlite://a/b%20c.db?table=locks&create=true",
            "sqlite::memory:",
        ] {
            let opening = opening(url, None, Vec::new(), Pools::default());
            assert!(opening.is_ok(), "{url}: {:?}", opening.err());
        }
    }

    #[test]
    fn other_spellings_of_tls_are_told_the_right_one() {
        for (url, right) in [
            ("rediss+sentinel://h/m", "`redis+sentinel+tls:`"),
            ("redis+tls+sentinel://h/m", "`redis+sentinel+tls:`"),
            ("rediss+cluster://h", "`redis+cluster+tls:`"),
            ("redis+cluster://h?tls", "`redis+cluster+tls:`"),
            ("redlocks://a,b,c", "`redlock+tls:`"),
            ("rediss+tls://h", "`redis+tls:`"),
            ("zookeepers://h", "`zookeeper+tls:`"),
            ("etcds://h", "`etcd+tls:`"),
            ("zookeeper+tls+quorum://a,b,c", "`zookeeper+quorum+tls:`"),
        ] {
            let error = StoreUrl::parse(url, &schemes()).unwrap_err().to_string();
            assert!(error.contains(right), "{url}: {error}");
        }
    }

    #[test]
    fn a_scheme_is_taken_once_and_has_the_form_of_one() {
        let driver = |name| {
            Driver::new(Scheme::new(name).with_tls(), |_| std::future::ready(Ok(Memory::new())))
        };
        assert!(drivers(vec![driver("tables"), driver("redis+tables")]).is_ok());
        for taken in
            [vec![driver("memory")], vec![driver("rediss")], vec![driver("t"), driver("t")]]
        {
            let error = drivers(taken).unwrap_err();
            assert!(matches!(error, ConnectError::SchemeTaken { .. }), "{error:?}");
        }
        for odd in ["", "Tables", "1t", "t:", "t+tls", "t t"] {
            let error = drivers(vec![driver(odd)]).unwrap_err();
            assert!(matches!(error, ConnectError::SchemeName { .. }), "{error:?}");
        }
    }

    #[test]
    fn the_page_of_the_urls_has_each_scheme() {
        let page = include_str!("client.rs");
        for (spelling, ..) in schemes().iter().flat_map(Scheme::spellings) {
            assert!(page.contains(&format!("`{spelling}:")), "`{spelling}:` is not in client.rs");
        }
    }
}
