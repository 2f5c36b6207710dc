//! The login to connect with.

use std::fmt;

/// A user, unless it is the store's default one, and a password. `Debug` shows neither.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    user: Option<String>,
    password: String,
}

impl Login {
    /// `None` is the store's default user.
    #[must_use]
    pub fn new(user: Option<String>, password: String) -> Self {
        Self { user, password }
    }

    /// The user; `None` is the store's default one.
    #[must_use]
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// The password. It is not empty if it was read from a URL.
    #[must_use]
    pub fn password(&self) -> &str {
        &self.password
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").finish_non_exhaustive()
    }
}
