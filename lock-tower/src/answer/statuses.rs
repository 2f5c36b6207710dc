//! The statuses that an application has chosen in place of the defaults.

use std::fmt;

use http::StatusCode;

/// One status at most for each cause.
#[derive(Debug, Clone)]
pub(crate) struct Statuses<C>(Vec<(C, StatusCode)>);

impl<C> Default for Statuses<C> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<C: Copy + PartialEq + fmt::Debug> Statuses<C> {
    #[track_caller]
    pub(crate) fn set(&mut self, cause: C, status: StatusCode) {
        assert!(
            status.is_client_error() || status.is_server_error(),
            "the status of {cause:?} is {status}, it must be from 400 to 599"
        );
        self.0.retain(|(known, _)| *known != cause);
        self.0.push((cause, status));
    }

    pub(crate) fn of(&self, cause: C) -> Option<StatusCode> {
        self.0.iter().find(|(known, _)| *known == cause).map(|(_, status)| *status)
    }
}
