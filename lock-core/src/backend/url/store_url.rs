//! The parts of a URL.

use std::fmt;
use std::time::Duration;

use super::read::{self, Read};
use super::{Host, Login, Scheme, UrlError, UrlPart};

/// The parts of a URL, decoded, and checked by its [`Scheme`]. `Debug` shows neither a login nor
/// the value of a secret parameter.
#[derive(Clone, PartialEq, Eq)]
pub struct StoreUrl {
    read: Read,
    /// The label of the client that connects.
    label: Option<&'static str>,
}

impl StoreUrl {
    /// Reads a URL of one of these schemes. The grammar is in [`url`](crate::backend::url).
    ///
    /// # Errors
    ///
    /// [`UrlError`] says which part is refused, and never repeats a secret.
    pub fn parse(url: &str, schemes: &[Scheme]) -> Result<Self, UrlError> {
        Self::parse_at(url, schemes, &[]).map(|(_, url)| url)
    }

    /// Also the place of the scheme among those given. The URL may have the parameters `beside` those
    /// of its scheme.
    pub(crate) fn parse_at(
        url: &str,
        schemes: &[Scheme],
        beside: &[&'static str],
    ) -> Result<(usize, Self), UrlError> {
        read::read(url, schemes, beside).map(|(place, read)| (place, Self { read, label: None }))
    }

    /// The same, for a client of this label.
    #[must_use]
    pub(crate) fn for_client(mut self, label: Option<&'static str>) -> Self {
        self.label = label;
        self
    }

    /// The label of the client that connects, see
    /// [`ClientBuilder::label`](crate::ClientBuilder::label). Each of its claims has it too, as
    /// [`Terms::label`](crate::backend::Terms::label).
    #[must_use]
    pub fn label(&self) -> Option<&'static str> {
        self.label
    }

    /// The scheme, without `+tls`.
    #[must_use]
    pub fn scheme(&self) -> &'static str {
        self.read.scheme.name
    }

    /// Whether everything is to be sent over TLS: the scheme ends with `+tls`.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        self.read.tls
    }

    /// The login to connect with; where each host may have one, that of the first.
    #[must_use]
    pub fn login(&self) -> Option<&Login> {
        self.read.logins.first()?.as_ref()
    }

    /// The login for the host at a place of the list: its own, or that of the first.
    #[must_use]
    pub fn login_at(&self, place: usize) -> Option<&Login> {
        self.read.logins.get(place).and_then(Option::as_ref).or_else(|| self.login())
    }

    /// The hosts in their order, none where the scheme has none.
    #[must_use]
    pub fn hosts(&self) -> &[Host] {
        &self.read.hosts
    }

    /// The text behind the hosts, with the slash that it begins with; empty if that is all. In a
    /// scheme without hosts it is the plain name.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.read.path
    }

    /// The value of a parameter.
    #[must_use]
    pub fn param(&self, name: &str) -> Option<&str> {
        self.read.params.iter().find(|param| param.name == name).map(|param| &*param.value)
    }

    /// The value of a parameter that is a time, such as `10s`, `1500ms` or `2m`.
    ///
    /// # Errors
    ///
    /// [`UrlError`] if it is none.
    pub fn duration(&self, name: &str) -> Result<Option<Duration>, UrlError> {
        let time = |value| {
            humantime::parse_duration(value).map_err(|_| {
                let reason = format!("`{name}` is a time such as `10s` or `1500ms`");
                UrlError::new(UrlPart::Parameters, reason)
            })
        };
        self.param(name).map(time).transpose()
    }

    /// The value of a parameter that is `true` or `false`.
    ///
    /// # Errors
    ///
    /// [`UrlError`] if it is neither.
    pub fn flag(&self, name: &str) -> Result<Option<bool>, UrlError> {
        let flag = |value: &str| {
            value.parse().map_err(|_| {
                UrlError::new(UrlPart::Parameters, format!("`{name}` is `true` or `false`"))
            })
        };
        self.param(name).map(flag).transpose()
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |param: &read::Param| match param.secret {
            true => param.name.to_owned(),
            false => format!("{}={}", param.name, param.value),
        };
        f.debug_struct("StoreUrl")
            .field("scheme", &self.read.scheme.spelled(self.read.tls))
            .field("hosts", &self.read.hosts)
            .field("path", &self.read.path)
            .field("params", &self.read.params.iter().map(shown).collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}
