//! The parts that are read out of a URL, and the part that is refused. That nothing shows a secret
//! is tried over all stores, in `connect`.

use super::*;

const ONE: Scheme = Scheme::new("one").with_hosts(1, 5).with_tls().with_tls_alias("ones");
const MANY: Scheme = Scheme::new("many")
    .with_hosts(3, 7)
    .with_login()
    .with_path()
    .with_params(&["wait", "name"])
    .with_secret_params(&["token"])
    .with_tls_params(&["ca"]);
const EACH: Scheme = Scheme::new("many+each").with_hosts(3, 7).with_login_each().with_tls();
const SOCKET: Scheme = Scheme::new("socket").with_socket().with_login();
const FILE: Scheme = Scheme::new("file").with_file().with_params(&["table"]);
const NAME: Scheme = Scheme::new("name");
const LACKING: Scheme = Scheme::new("lacking").behind(("more", false), ("tls", true));
const ALL: [Scheme; 7] = [ONE, MANY, EACH, SOCKET, FILE, NAME, LACKING];

fn good(url: &str) -> StoreUrl {
    StoreUrl::parse(url, &ALL).unwrap_or_else(|error| panic!("{url}: {error}"))
}

fn bad(url: &str) -> UrlError {
    StoreUrl::parse(url, &ALL).expect_err(url)
}

fn login(user: Option<&str>, password: &str) -> Login {
    Login::new(user.map(String::from), password.to_owned())
}

#[test]
fn every_part_is_read_and_decoded() {
    let url = good("many+tls://al%20ice:p%40:s%2Fs@H1,h_2:80,[::0:1]/a/b%20c/?name=x%26+y&ca=/f");
    assert_eq!((url.scheme(), url.is_tls()), ("many", true));
    assert_eq!(url.login(), Some(&login(Some("al ice"), "p@:s/s")));
    let hosts: Vec<_> = url.hosts().iter().map(ToString::to_string).collect();
    assert_eq!(hosts, ["h1:7", "h_2:80", "[::1]:7"]);
    assert_eq!((url.hosts()[2].name(), url.hosts()[2].port()), ("::1", 7));
    assert_eq!(url.path(), "/a/b c/");
    assert_eq!((url.param("name"), url.param("ca")), (Some("x&+y"), Some("/f")));
    assert_eq!((url.param("token"), url.duration("wait").unwrap()), (None, None));
    let url = good("MANY://:a,b@h/?wait=1500ms");
    assert_eq!((url.login(), url.path(), url.is_tls()), (Some(&login(None, "a,b")), "", false));
    assert_eq!(url.duration("wait").unwrap().unwrap().as_millis(), 1_500);
    assert!(good("many://h?wait=soon").duration("wait").is_err());
}

#[test]
fn a_scheme_without_hosts_has_a_name_or_a_socket() {
    assert_eq!((good("name:").path(), good("name:a%20b/c").path()), ("", "a b/c"));
    let url = good("socket://u:p@/run/a%20b.sock");
    assert_eq!((url.path(), url.login()), ("/run/a b.sock", Some(&login(Some("u"), "p"))));
    assert!(url.hosts().is_empty());
}

#[test]
fn a_file_has_a_path_or_is_in_memory() {
    for (url, path) in [
        ("file://a.db", "a.db"),
        ("file:///run/a%20b.db", "/run/a b.db"),
        ("file://a/b?table=t", "a/b"),
        ("file::memory:", ":memory:"),
        ("file::memory:?table=t", ":memory:"),
    ] {
        assert_eq!(good(url).path(), path, "{url}");
    }
    assert!(good("file://a.db").hosts().is_empty());
}

#[test]
fn each_host_has_its_own_login_or_that_of_the_first() {
    let url = good("many+each://u:p@a,b,:q%2C@c");
    let passwords = (0..3).map(|place| url.login_at(place).map(Login::password));
    assert_eq!(passwords.collect::<Vec<_>>(), [Some("p"), Some("p"), Some("q,")]);
    let url = good("many+each://a,:p@b");
    assert_eq!((url.login_at(0), url.login_at(1)), (None, Some(&login(None, "p"))));
    assert_eq!(good("many://:p@a,b").login_at(1), Some(&login(None, "p")));
}

#[test]
fn tls_has_one_spelling_beside_the_usual_alias_and_others_are_told_it() {
    for url in ["one+tls://h", "ones://h", "ONES://h"] {
        assert!(good(url).is_tls(), "{url}");
        assert_eq!(good(url).scheme(), "one");
    }
    for (url, right) in [
        ("ones+tls://h", "`one+tls:`"),
        ("one+ssl://h", "`one+tls:`"),
        ("manys://h", "`many+tls:`"),
        ("manys+each://h", "`many+each+tls:`"),
        ("many+tls+each://h", "`many+each+tls:`"),
        ("many://h?tls", "`many+tls:`"),
        ("many+each://h?ssl=true", "`many+each+tls:`"),
    ] {
        let error = bad(url).to_string();
        assert!(error.contains(&format!("TLS is part of the scheme: {right}")), "{url}: {error}");
    }
    assert!(bad("socket+tls:///s").to_string().contains("`socket+tls:` is none of ours"));
}

#[test]
fn a_scheme_that_is_unknown_or_that_this_build_lacks_is_told_what_there_is() {
    let error = bad("etcd://u:secret@h").to_string();
    for part in ["`etcd:`", "`one:`", "`one+tls:`", "`ones:`", "(needs the feature `more`)"] {
        assert!(error.contains(part), "{error}");
    }
    assert!(bad("lacking:x").to_string().contains("`lacking:` needs the feature `more`"));
}

#[test]
fn what_is_malformed_is_refused_by_its_part() {
    for (url, part) in [
        ("", UrlPart::Scheme),
        ("h:1", UrlPart::Scheme),
        ("many://u:p#@h", UrlPart::Whole),
        ("many://h/a\nb", UrlPart::Whole),
        ("many:h", UrlPart::Hosts),
        ("many://", UrlPart::Hosts),
        ("many://u:p@", UrlPart::Hosts),
        ("many://a,,b", UrlPart::Hosts),
        ("many://a:0", UrlPart::Hosts),
        ("many://a:65536", UrlPart::Hosts),
        ("many://a:1:2", UrlPart::Hosts),
        ("many://[::1", UrlPart::Hosts),
        ("many://[::1]2", UrlPart::Hosts),
        ("many://[a]", UrlPart::Hosts),
        ("many://::1", UrlPart::Hosts),
        ("many://a b", UrlPart::Hosts),
        ("many://a,b,c,d", UrlPart::Hosts),
        ("one://a,b", UrlPart::Hosts),
        ("socket://h/s", UrlPart::Hosts),
        ("many://@h", UrlPart::Login),
        ("many://u@h", UrlPart::Login),
        ("many://u:@h", UrlPart::Login),
        ("many://u:p@p@h", UrlPart::Login),
        ("many://u:p/p@h", UrlPart::Login),
        ("many://u:p?p@h", UrlPart::Login),
        ("many://u:p%2@h", UrlPart::Login),
        ("many://u:p%zz@h", UrlPart::Login),
        ("many://u:p%ff@h", UrlPart::Login),
        ("one://u:p@h", UrlPart::Login),
        ("name:u:p@h", UrlPart::Login),
        ("many+each://u:p@h,v@i", UrlPart::Login),
        ("file:a.db", UrlPart::Path),
        ("file:", UrlPart::Path),
        ("file://", UrlPart::Path),
        ("file:///", UrlPart::Path),
        ("file://a@b", UrlPart::Login),
        ("many://h/%zz", UrlPart::Path),
        ("many://h/a%0Ab", UrlPart::Path),
        ("one://h/a", UrlPart::Path),
        ("name://h", UrlPart::Path),
        ("socket://", UrlPart::Path),
        ("many://h?name", UrlPart::Parameters),
        ("many://h?name=", UrlPart::Parameters),
        ("many://h?name=a&", UrlPart::Parameters),
        ("many://h?name=a&name=b", UrlPart::Parameters),
        ("many://h?name=%", UrlPart::Parameters),
        ("many://h?ca=f", UrlPart::Parameters),
        ("many://h?Name=a", UrlPart::Parameters),
        ("many://h?password=p", UrlPart::Parameters),
        ("name:n?x=y", UrlPart::Parameters),
    ] {
        assert_eq!(bad(url).part(), part, "{url}");
    }
}

#[test]
fn a_parameter_is_refused_by_name_with_those_that_there_are() {
    let error = bad("many://h?name=n&fsync=no").to_string();
    assert!(error.contains("`fsync` is unknown: `many:` takes `wait`, `name`, `token`"), "{error}");
    assert!(bad("many://h?name=a&name=b").to_string().contains("`name` is given twice"));
    assert!(bad("one://h?x=y").to_string().contains("`one:` takes none"));
    // It may be the end of the token.
    let error = bad("many://h?token=t&rest=x").to_string();
    assert!(!error.contains("rest") && error.contains("`%26`"), "{error}");
}

#[test]
fn what_is_no_secret_is_shown() {
    let shown = format!("{:?}", good("many+tls://u:p@h,i:2/locks?name=n&token=t"));
    let wanted = r#"StoreUrl { scheme: "many+tls", hosts: [h:7, i:2], path: "/locks", params: ["name=n", "token"], .. }"#;
    assert_eq!(shown, wanted);
}
