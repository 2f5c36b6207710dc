//! The scenes, by what they are about. Each function's doc names the fault and the invariants that
//! it defends, as `docs/faults.md` lists them.
//!
//! Bounds on time are wide, for a machine that is busy with other things; no assertion is decided
//! by a sleep.
//!
//! - `processes`, `waiters`: processes and waiters that are stopped and killed.
//! - `blocked`: runtimes.
//! - `server`: servers that are killed, that hang, and whose clocks jump.
//! - `link`: links that are silent, slow or cut. `replies`: requests and answers that are lost.
//! - `client`: what the application does to its own locks. `cancel`: futures that are dropped.
//! - `data`: locks deleted by hand, and strange keys. `modes`: several hold a key at a time.
//! - `chaos`: faults at random, judged by the history.

pub(super) mod blocked;
pub(super) mod cancel;
pub(super) mod chaos;
pub(super) mod client;
pub(super) mod data;
pub(super) mod link;
pub(super) mod modes;
pub(super) mod processes;
pub(super) mod replies;
pub(super) mod server;
pub(super) mod waiters;

use std::future::Future;
use std::time::Duration;

use lock_core::{AcquireError, LockGuard};

use super::layout::{Power, Tempo, Verb};
use super::line::{Line, Snare};
use super::stage::{Client, Stage};
use crate::actor::Actor;
use crate::proxy::{Action, Direction, Flow, Match, Proxy};
use crate::support::{LATE, SLACK, Stopwatch, given_back, ms, renewed};
use crate::wait::{eventually, within};

/// How long one request to a store may take.
const OPERATION: Duration = ms(2_000);

/// Waits for the key, and sees when it is granted that its holder has been told of the loss.
fn granted_once_lost(
    rival: &Actor,
    key: &str,
    holder: &LockGuard,
) -> impl Future<Output = Result<LockGuard, AcquireError>> + use<> {
    let (rival, key, handle) = (rival.clone(), key.to_owned(), holder.handle());
    async move {
        let next = rival.acquire(&key, ms(9_000)).await.0;
        assert!(!handle.is_held(), "a finding of safety: two hold the key");
        next
    }
}
