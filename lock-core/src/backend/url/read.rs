//! The reader. What it refuses, it names without repeating what stands there: where a password was
//! pasted as it is, any part may be a piece of it.

use percent_encoding::percent_decode_str;

use super::scheme::{Location, Logins};
use super::{Host, Login, Scheme, UrlError, UrlPart};

/// The longest name of an unknown scheme or parameter that an error repeats.
const SHOWN_BYTES_MAX: usize = 32;

/// A store without a file, where there could be one.
const IN_MEMORY: &str = ":memory:";

#[derive(Clone, PartialEq, Eq)]
pub(super) struct Read {
    pub(super) scheme: Scheme,
    pub(super) tls: bool,
    pub(super) hosts: Vec<Host>,
    /// One for each host where each may have its own, else one at most.
    pub(super) logins: Vec<Option<Login>>,
    pub(super) path: String,
    pub(super) params: Vec<Param>,
}

#[derive(Clone, PartialEq, Eq)]
pub(super) struct Param {
    pub(super) name: &'static str,
    pub(super) value: String,
    pub(super) secret: bool,
}

fn bad(part: UrlPart, reason: impl Into<String>) -> UrlError {
    UrlError::new(part, reason.into())
}

/// Reads a URL of one of these schemes, which may have the parameters `beside` those of its own.
pub(super) fn read(
    url: &str,
    schemes: &[Scheme],
    beside: &[&'static str],
) -> Result<(usize, Read), UrlError> {
    let (number, tls, rest) = find(url, schemes)?;
    let scheme = schemes[number];
    let odd = |c: char| c == '#' || c.is_control();
    if rest.contains(odd) {
        return Err(bad(UrlPart::Whole, "a `#` is written `%23`, a control character likewise"));
    }
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) = parts(rest, &scheme)?;
    if path.contains('@') || query.contains('@') {
        let reason = "an `@` behind the hosts is written `%40`; in a password a `/` is `%2F` and a \
                      `?` is `%3F`";
        return Err(bad(UrlPart::Login, reason));
    }
    let (hosts, logins) = hosts(authority, &scheme)?;
    let path = decoded_path(path, &scheme)?;
    let known: Known =
        beside.iter().map(|name| (*name, false)).chain(scheme.known_params(tls)).collect();
    let params = params(query, &scheme, tls, &known)?;
    Ok((number, Read { scheme, tls, hosts, logins, path, params }))
}

/// The place of the scheme, whether it is TLS, and what follows the colon.
fn find<'a>(url: &'a str, schemes: &[Scheme]) -> Result<(usize, bool, &'a str), UrlError> {
    let (given, rest) = url.split_once(':').unwrap_or(("", url));
    for (number, scheme) in schemes.iter().enumerate() {
        for (spelling, tls, needs) in scheme.spellings() {
            if spelling.eq_ignore_ascii_case(given) {
                return match needs {
                    None => Ok((number, tls, rest)),
                    Some(feature) => Err(bad(
                        UrlPart::Scheme,
                        format!("`{spelling}:` needs the feature `{feature}`"),
                    )),
                };
            }
        }
    }
    if let Some(scheme) = misspelt(given, schemes) {
        let reason = format!("TLS is part of the scheme: `{}:`", scheme.spelled(true));
        return Err(bad(UrlPart::Scheme, reason));
    }
    // Without the slashes it may be what stands before the colon of a login.
    let shown = match is_scheme(given) && given.len() <= SHOWN_BYTES_MAX && rest.starts_with("//") {
        true => format!("`{given}:` is none of ours"),
        false => "there is none of ours".to_owned(),
    };
    let known =
        schemes.iter().flat_map(Scheme::spellings).map(|(spelling, _, needs)| match needs {
            None => format!("`{spelling}:`"),
            Some(feature) => format!("`{spelling}:` (needs the feature `{feature}`)"),
        });
    let known = known.collect::<Vec<_>>().join(", ");
    Err(bad(UrlPart::Scheme, format!("{shown}: use {known}")))
}

/// Whether it has the form of a scheme.
pub(crate) fn is_scheme(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.bytes().all(inner)
}

/// The scheme that is meant by another way to spell TLS: `rediss+sentinel`, `redlocks`,
/// `redis+tls+cluster`, `zookeeper+ssl`.
fn misspelt<'a>(given: &str, schemes: &'a [Scheme]) -> Option<&'a Scheme> {
    let given = given.to_ascii_lowercase();
    let said = |part: &&str| matches!(*part, "tls" | "ssl");
    let has_said = given.split('+').any(|part| said(&part));
    let words: Vec<_> = given.split('+').filter(|part| !said(part)).collect();
    let (first, rest) = words.split_first()?;
    let of = |first: &str| {
        let meant = [&[first], rest].concat().join("+");
        schemes.iter().find(|scheme| scheme.tls.is_some() && scheme.name == meant)
    };
    of(first).filter(|_| has_said).or_else(|| of(first.strip_suffix('s')?))
}

/// The text before the path, and the path.
fn parts<'a>(rest: &'a str, scheme: &Scheme) -> Result<(&'a str, &'a str), UrlError> {
    let name = scheme.name;
    if scheme.location == Location::Name {
        return match rest.starts_with('/') {
            true => Err(bad(UrlPart::Path, format!("`{name}:` is followed by a plain name"))),
            false => Ok(("", rest)),
        };
    }
    if scheme.location == Location::File {
        return match rest.strip_prefix("//").or((rest == IN_MEMORY).then_some(rest)) {
            Some(path) => Ok(("", path)),
            None => {
                let reason =
                    format!("`{name}:` is followed by `//` and a path, or by `{IN_MEMORY}`");
                Err(bad(UrlPart::Path, reason))
            }
        };
    }
    let slashes = || bad(UrlPart::Hosts, format!("`{name}:` is followed by `//`"));
    let rest = rest.strip_prefix("//").ok_or_else(slashes)?;
    Ok(rest.split_at(rest.find('/').unwrap_or(rest.len())))
}

type Hosts = (Vec<Host>, Vec<Option<Login>>);

fn hosts(authority: &str, scheme: &Scheme) -> Result<Hosts, UrlError> {
    let each: Vec<_> = match scheme.login {
        Logins::Each => authority.split(',').collect(),
        _ => vec![authority],
    };
    let (mut hosts, mut logins) = (Vec::new(), Vec::new());
    for one in each {
        let (before, names) = match one.split_once('@') {
            Some((before, names)) => (Some(before), names),
            None => (None, one),
        };
        if names.contains('@') {
            return Err(bad(UrlPart::Login, "an `@` in a user or a password is written `%40`"));
        }
        logins.push(before.map(|before| login(before, scheme)).transpose()?);
        match scheme.location {
            Location::Hosts { port, .. } => {
                for name in names.split(',') {
                    hosts.push(Host::read(name, port)?);
                }
            }
            Location::Socket if !names.is_empty() => {
                let name = scheme.name;
                let reason = format!("a socket has a path and no host: `{name}:///path`");
                return Err(bad(UrlPart::Hosts, reason));
            }
            _ => {}
        }
    }
    match scheme.location {
        Location::Hosts { max, .. } if hosts.len() > max => {
            let (name, s) = (scheme.name, if max == 1 { "" } else { "s" });
            Err(bad(UrlPart::Hosts, format!("`{name}:` takes {max} host{s} at most")))
        }
        _ => Ok((hosts, logins)),
    }
}

/// `user:password`, or `:password` of the default user.
fn login(text: &str, scheme: &Scheme) -> Result<Login, UrlError> {
    if scheme.login == Logins::None {
        let reason = format!("`{}:` takes no user and no password", scheme.name);
        return Err(bad(UrlPart::Login, reason));
    }
    let wanted = || bad(UrlPart::Login, "before the `@` stands `user:password` or `:password`");
    let (user, password) = text.split_once(':').ok_or_else(wanted)?;
    let (user, password) = (decoded(user, UrlPart::Login)?, decoded(password, UrlPart::Login)?);
    if password.is_empty() {
        return Err(wanted());
    }
    Ok(Login::new((!user.is_empty()).then_some(user), password))
}

fn decoded_path(path: &str, scheme: &Scheme) -> Result<String, UrlError> {
    let path = decoded(if path == "/" { "" } else { path }, UrlPart::Path)?;
    if path.contains(char::is_control) {
        return Err(bad(UrlPart::Path, "it has a control character"));
    }
    match scheme.location {
        Location::Socket if path.is_empty() => {
            let reason = format!("the socket is missing: `{}:///path`", scheme.name);
            Err(bad(UrlPart::Path, reason))
        }
        Location::File if path.is_empty() => {
            let reason = format!("the file is missing: `{}://path`", scheme.name);
            Err(bad(UrlPart::Path, reason))
        }
        Location::Hosts { .. } if !path.is_empty() && !scheme.has_path => {
            Err(bad(UrlPart::Path, format!("`{}:` takes none", scheme.name)))
        }
        _ => Ok(path),
    }
}

/// The parameters that there may be, and whether each is a secret.
type Known = Vec<(&'static str, bool)>;

fn params(query: &str, scheme: &Scheme, tls: bool, known: &Known) -> Result<Vec<Param>, UrlError> {
    let mut params = Vec::<Param>::new();
    for piece in query.split('&').filter(|_| !query.is_empty()) {
        let (given, value) = piece.split_once('=').unwrap_or((piece, ""));
        let Some((name, secret)) = known.iter().copied().find(|(name, _)| *name == given) else {
            // It may be what follows an `&` in a secret.
            let shown = piece.contains('=') && !params.iter().any(|param| param.secret);
            return Err(unknown_param(given, shown, scheme, tls, known));
        };
        let refused = |what: &str| bad(UrlPart::Parameters, format!("`{name}` {what}"));
        if params.iter().any(|param| param.name == name) {
            return Err(refused("is given twice"));
        }
        let value = decoded(value, UrlPart::Parameters)?;
        if value.is_empty() {
            return Err(refused("has no value"));
        }
        params.push(Param { name, value, secret });
    }
    Ok(params)
}

fn unknown_param(given: &str, shown: bool, scheme: &Scheme, tls: bool, known: &Known) -> UrlError {
    let spelled = scheme.spelled(tls);
    if matches!(given, "tls" | "ssl") && scheme.tls.is_some() {
        let reason = format!("TLS is part of the scheme: `{}:`", scheme.spelled(true));
        return bad(UrlPart::Parameters, reason);
    }
    if matches!(given, "user" | "username" | "pass" | "password") && scheme.login != Logins::None {
        return bad(UrlPart::Parameters, "user and password stand before an `@`, not here");
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    let shown = match shown && given.len() <= SHOWN_BYTES_MAX && given.bytes().all(plain) {
        true => format!("`{given}` is unknown"),
        false => "one is unknown, or is no `name=value`".to_owned(),
    };
    let known: Vec<_> = known.iter().map(|(name, _)| format!("`{name}`")).collect();
    let takes = match &known[..] {
        [] => format!("`{spelled}:` takes none"),
        known => format!("`{spelled}:` takes {}, and an `&` in a value is `%26`", known.join(", ")),
    };
    bad(UrlPart::Parameters, format!("{shown}: {takes}"))
}

fn decoded(text: &str, part: UrlPart) -> Result<String, UrlError> {
    let is_code = |rest: &str| matches!(rest.as_bytes(), [a, b, ..] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit());
    if !text.split('%').skip(1).all(is_code) {
        return Err(bad(part, "a `%` is followed by two hex digits, and is itself written `%25`"));
    }
    let text = percent_decode_str(text).decode_utf8();
    text.map(String::from).map_err(|_| bad(part, "percent-encoded text is not UTF-8"))
}
