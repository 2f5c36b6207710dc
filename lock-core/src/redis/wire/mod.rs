//! One server, wherever it is: connections that come back, and what goes over them.
//!
//! All connections are made and served at home, the thread `lock-io` of `backend::io`. So are the
//! tasks that end what others wait for: connecting, asking the sentinels, looking at a cluster,
//! batches. Requests are sent by whoever asks. So no runtime that is blocked, or gone, holds up a
//! renewal or keeps others from finding another master.
//!
//! At a server a client has two connections: one for renewals, and one for all else, pushes too. At
//! a node of a cluster pushes have a third. Up to 32 more are for attempts that wait for replicas.
//! A store of idempotency records has one more. The child of a fork has none of this: what it
//! connects to anew has a thread of its own, and its parent's clients are of no use to it.
//!
//! - Withdrawals of a claim whose last attempt was answered may take any connection.
//! - Renewals wait in the batch that the next request takes: one allocation for 128 claims. A batch
//!   does not wait for the one before it, which may hang for as long as a longer lease has time.
//! - Claims on free keys go together where many ask at once: one more task, started with the first
//!   call for several, sends what was gathered meanwhile. A claim that is gone before its batch
//!   goes is not sent; one whose task is gone is told whether it was.
//! - An application's pool is asked in the runtime that polls, as its connections live where they
//!   are made. The conductor passes it by, and so it never sees where the pool leads: a pool that
//!   was not looked at is asked for nothing of a lock. A caller on another executor has the
//!   conductor's runtime lent, and the pool's connections live there then.
//! - A member of a quorum is asked for a grant, and for the raise of a token, over the connection
//!   that it was looked at, and under an enrolment of the incarnation that this look showed. Over a
//!   pool's its script compares the `run_id` as well. Renewals have their own connection, which
//!   nobody looks at: they extend what a member still has, and grant nothing.
//! - Wakers and subscribers run under none of the mutexes here, as they may drop guards and claims
//!   of the same client.
//!
//! - [`route`]: where a connection leads. [`access`]: the login, and the settings.
//! - [`connection`]: one that comes back. [`request`]: a request over it, and what comes of it.
//! - [`runtime`]: which runtime serves it. [`hello`]: the first words.
//! - [`session`]: what the connections of a client share. [`inbox`]: pushes, by claim.
//!   [`channels`]: those that claims wait at, [`hearing`]: one that does.
//! - [`lanes`]: connections of attempts that wait for replicas.
//! - Claims that ask together, by [`batch`](crate::backend::batch): [`renewals`], and those of
//!   [`free`] keys.
//! - [`pool`]: an application's own connections; `no_pool` where it has none. `fake`: a server of
//!   tests.
//! - [`fault`]: what an error means. [`refusal`]: the word of a server that hangs up.

use std::time::Duration;

use crate::ground::Pauses;

/// Pauses between connects to the one server there is: holders are to be told soon if it comes back
/// without its data.
const RECONNECT_PAUSES: Pauses = Pauses::new(Duration::from_millis(10), Duration::from_millis(80));

pub(in crate::redis) mod access;
mod channels;
pub(in crate::redis) mod connection;
#[cfg(test)]
pub(in crate::redis) mod fake;
pub(in crate::redis) mod fault;
pub(in crate::redis) mod free;
pub(in crate::redis) mod hearing;
pub(in crate::redis) mod hello;
pub(in crate::redis) mod inbox;
pub(in crate::redis) mod lanes;
#[cfg(feature = "deadpool")]
pub(in crate::redis) mod pool;
#[cfg(not(feature = "deadpool"))]
#[path = "no_pool.rs"]
pub(in crate::redis) mod pool;
pub(in crate::redis) mod refusal;
pub(in crate::redis) mod renewals;
pub(in crate::redis) mod request;
pub(in crate::redis) mod route;
pub(in crate::redis) mod runtime;
pub(in crate::redis) mod session;
