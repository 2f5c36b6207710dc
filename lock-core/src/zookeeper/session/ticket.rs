//! The enrolment that a server must have for an attempt to be served, as far as a session knows.

use std::sync::Arc;

use crate::backend::Enrolment;

/// The rule by which attempts are served.
#[derive(Debug, Clone, Default)]
pub(in crate::zookeeper) enum Rule {
    /// The store is on its own.
    #[default]
    Always,
    Never,
    /// While the server has this enrolment; the number is another for each.
    Under(Arc<Enrolment>, u64),
}

/// The proof that the server had the right enrolment when it was read in this session.
#[derive(Debug, Clone)]
pub(in crate::zookeeper) struct Ticket {
    pub(in crate::zookeeper) path: Arc<str>,
    pub(in crate::zookeeper) version: i32,
    /// Tokens are above this.
    pub(in crate::zookeeper) token_min: u64,
    pub(in crate::zookeeper) rule: u64,
}
