//! The parts that the URLs of one scheme may hold.

/// The parts that the URLs of one scheme may hold. It begins with as little as can be, `name:` and
/// perhaps a plain name behind it. Each method adds a part.
///
/// ```
/// use lock_core::backend::Scheme;
///
/// const TABLES: Scheme = Scheme::new("tables")
///     .with_hosts(16, 7_001)
///     .with_login()
///     .with_path()
///     .with_params(&["pool_max"])
///     .with_tls();
/// assert_eq!(TABLES.name(), "tables");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scheme {
    pub(super) name: &'static str,
    pub(super) location: Location,
    pub(super) login: Logins,
    pub(super) has_path: bool,
    pub(super) params: &'static [&'static str],
    pub(super) secret_params: &'static [&'static str],
    pub(super) tls: Option<Tls>,
    /// The feature that this build lacks.
    pub(super) needs: Option<&'static str>,
}

/// The place that the URL names behind its scheme.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Location {
    /// A plain name, or nothing.
    Name,
    Hosts {
        max: usize,
        port: u16,
    },
    /// The path of a socket.
    Socket,
    /// The path of a file, or `:memory:`.
    File,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Logins {
    None,
    One,
    /// Each host may have its own; the first host's is that of those without.
    Each,
}

/// The same scheme with `+tls` at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tls {
    /// A name by which everybody knows it.
    pub(super) alias: Option<&'static str>,
    pub(super) params: &'static [&'static str],
    pub(super) needs: Option<&'static str>,
}

impl Scheme {
    /// `name:`, which may be followed by a plain name. A scheme begins with a lower-case letter,
    /// goes on with those, digits, `+`, `-` and `.`, and does not end with `+tls`.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self {
            name,
            location: Location::Name,
            login: Logins::None,
            has_path: false,
            params: &[],
            secret_params: &[],
            tls: None,
            needs: None,
        }
    }

    /// One to `max` hosts; `port` is where a host listens unless the URL says otherwise.
    #[must_use]
    pub const fn with_hosts(mut self, max: usize, port: u16) -> Self {
        self.location = Location::Hosts { max, port };
        self
    }

    /// The path of a unix socket in place of hosts: `name:///run/socket`.
    #[must_use]
    pub const fn with_socket(mut self) -> Self {
        self.location = Location::Socket;
        self.has_path = true;
        self
    }

    /// A file in place of hosts: `name://relative/path`, `name:///absolute/path`, or
    /// `name::memory:` for none.
    #[must_use]
    pub const fn with_file(mut self) -> Self {
        self.location = Location::File;
        self.has_path = true;
        self
    }

    /// User and password before the hosts.
    #[must_use]
    pub const fn with_login(mut self) -> Self {
        self.login = Logins::One;
        self
    }

    /// User and password before each host; those before the first are for all that have none.
    #[must_use]
    pub const fn with_login_each(mut self) -> Self {
        self.login = Logins::Each;
        self
    }

    /// A path behind the hosts.
    #[must_use]
    pub const fn with_path(mut self) -> Self {
        self.has_path = true;
        self
    }

    /// The parameters that there are.
    #[must_use]
    pub const fn with_params(mut self, params: &'static [&'static str]) -> Self {
        self.params = params;
        self
    }

    /// Further parameters, whose values are never shown.
    #[must_use]
    pub const fn with_secret_params(mut self, params: &'static [&'static str]) -> Self {
        self.secret_params = params;
        self
    }

    /// `name+tls:`, which is the same over TLS.
    #[must_use]
    pub const fn with_tls(self) -> Self {
        self.with_tls_params(&[])
    }

    /// `name+tls:`, which has further parameters of its own.
    #[must_use]
    pub const fn with_tls_params(mut self, params: &'static [&'static str]) -> Self {
        self.tls = Some(Tls { alias: None, params, needs: None });
        self
    }

    /// One more name for `name+tls:`.
    #[must_use]
    pub(crate) const fn with_tls_alias(mut self, alias: &'static str) -> Self {
        if let Some(tls) = &mut self.tls {
            tls.alias = Some(alias);
        }
        self
    }

    /// Builds without these features, of which the second is for TLS, know the names only.
    #[must_use]
    pub(crate) const fn behind(
        mut self,
        (feature, is_on): (&'static str, bool),
        (tls_feature, tls_is_on): (&'static str, bool),
    ) -> Self {
        if !is_on {
            self.needs = Some(feature);
        }
        if !tls_is_on && let Some(tls) = &mut self.tls {
            tls.needs = Some(tls_feature);
        }
        self
    }

    /// Its name, without `+tls`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Each spelling of it, whether that is TLS, and the feature that it needs and this build lacks.
    pub(crate) fn spellings(
        &self,
    ) -> impl Iterator<Item = (String, bool, Option<&'static str>)> + use<> {
        let plain = (self.name.to_owned(), false, self.needs);
        let tls = self.tls.map(|tls| (format!("{}+tls", self.name), true, tls.needs));
        let alias = self.tls.and_then(|tls| Some((tls.alias?.to_owned(), true, tls.needs)));
        [Some(plain), tls, alias].into_iter().flatten()
    }

    /// The scheme as URLs spell it.
    pub(super) fn spelled(&self, tls: bool) -> String {
        format!("{}{}", self.name, if tls { "+tls" } else { "" })
    }

    /// The parameters that there are, and whether each is a secret.
    pub(super) fn known_params(
        &self,
        tls: bool,
    ) -> impl Iterator<Item = (&'static str, bool)> + use<> {
        let of_tls = self.tls.filter(|_| tls).map_or(&[][..], |tls| tls.params);
        let open = self.params.iter().chain(of_tls).map(|name| (*name, false));
        open.chain(self.secret_params.iter().map(|name| (*name, true)))
    }
}
