//! The purpose of a request: whether it may use the connection that is kept for renewals.
//!
//! It is said by the store and asked by the pool. All that is between them, the dialects and their
//! statements, is the same for either.

use std::future::Future;

/// The purpose of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(
    not(any(feature = "postgres", feature = "mysql")),
    allow(dead_code, reason = "where there is one connection nobody asks")
)]
pub(super) enum Lane {
    /// A renewal of what is held.
    Renewals,
    /// All else, which leaves a connection to the renewals where there are several.
    Others,
}

tokio::task_local! {
    static LANE: Lane;
}

impl Lane {
    /// Has a request, and all that is asked for in it, be in this lane.
    pub(super) async fn scope<F: Future>(self, request: F) -> F::Output {
        LANE.scope(self, request).await
    }

    /// The lane of the request that asks.
    #[cfg(any(feature = "postgres", feature = "mysql"))]
    pub(super) fn here() -> Self {
        LANE.try_with(|lane| *lane).unwrap_or(Self::Others)
    }
}
