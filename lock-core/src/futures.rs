//! The futures and streams that this crate returns, each with what is lost if it is dropped.
//!
//! All of them are named types, so that they can be kept in a `struct`. They can be sent to other
//! threads.
//!
//! | made by | resolves |
//! |---|---|
//! | [`LockBuilder::acquire`](crate::LockBuilder::acquire) | [`Acquire`], of several keys [`MultiAcquire`]: with the guard |
//! | [`LockHandle::lost`](crate::LockHandle::lost) | [`Lost`], of several keys [`MultiLost`]: when the hold is over without a release |
//! | [`LockHandle::renewal_failing`](crate::LockHandle::renewal_failing) | [`RenewalFailing`]: when the hold may be lost soon |
//! | [`LockHandle::revoke_requested`](crate::LockHandle::revoke_requested) | [`RevokeRequested`]: when somebody asks for the key |
//! | [`LockGuard::downgrade`](crate::LockGuard::downgrade) | [`Downgrade`]: when the hold shares its key |
//! | [`LockGuard::scope`](crate::LockGuard::scope) | [`Scoped`]: as the future inside |
//! | [`Election::run_for`](crate::Election::run_for) | [`RunFor`]: with the term |
//! | [`Election::observe`](crate::Election::observe) | [`Observe`], a stream: whenever another one leads |
//! | [`LockClient::closed`](crate::LockClient::closed) | [`Closed`]: when the client is shut down |

pub use crate::engine::{
    Acquire, Closed, Downgrade, Lost, MultiAcquire, MultiLost, Observe, RenewalFailing,
    RenewalFailure, RevokeRequested, RunFor, Scoped,
};
