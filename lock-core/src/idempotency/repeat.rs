//! A verb that is asked again while the store does not answer.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::store::BoxFuture;
use crate::backend::{Fault, FaultKind};
use crate::engine::clock;
use crate::proto::FAULT_PAUSES;

/// How long a caller waits for the store.
pub(super) const STORE_WITHIN: Duration = Duration::from_secs(2);

/// How long the keeper goes on asking behind the caller's back.
pub(super) const KEEP_ASKING: Duration = Duration::from_secs(30);

/// One verb of a store, asked as often as need be.
#[derive(Debug)]
pub(super) struct Repeat {
    since: Instant,
    last: Mutex<Option<Fault>>,
}

impl Repeat {
    pub(super) fn new() -> Self {
        Self { since: clock::now(), last: Mutex::new(None) }
    }

    /// Asks until the store answers or refuses, for `within` at most; `go_on` says before each
    /// repetition whether anybody still cares.
    ///
    /// # Errors
    ///
    /// The last fault.
    pub(super) async fn ask<'a, T>(
        &self,
        within: Duration,
        verb: impl Fn() -> BoxFuture<'a, Result<T, Fault>>,
        go_on: impl Fn() -> bool,
    ) -> Result<T, Fault> {
        let asking = async {
            for failures in 1.. {
                match verb().await {
                    Err(fault) if fault.is_transient() => {
                        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(fault);
                    }
                    answer => return answer,
                }
                let pause = FAULT_PAUSES.pause(failures, clock::random_bits());
                let over = clock::now() + pause >= self.since + within;
                if over || !go_on() {
                    break;
                }
                tokio::time::sleep(pause).await;
            }
            Err(self.fault())
        };
        let until = self.since + within;
        tokio::time::timeout_at(until.into(), asking).await.unwrap_or_else(|_| Err(self.fault()))
    }

    /// Asks as [`ask`](Self::ask), on behind the back of a caller who is told `late` when he has
    /// waited long enough.
    ///
    /// # Errors
    ///
    /// The last fault.
    pub(super) async fn ask_beyond<'a, T>(
        &self,
        verb: impl Fn() -> BoxFuture<'a, Result<T, Fault>>,
        go_on: impl Fn() -> bool,
        late: impl FnOnce(Fault),
    ) -> Result<T, Fault> {
        let mut asking = std::pin::pin!(self.ask(KEEP_ASKING, verb, go_on));
        tokio::select! {
            biased;
            answer = &mut asking => return answer,
            () = tokio::time::sleep(STORE_WITHIN) => {}
        }
        late(self.fault());
        asking.await
    }

    /// Whether this began less than `within` ago.
    pub(super) fn is_within(&self, within: Duration) -> bool {
        clock::now() < self.since + within
    }

    /// The last fault, or that there was no answer at all.
    pub(super) fn fault(&self) -> Fault {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.clone().unwrap_or_else(silent)
    }
}

/// No answer in time.
pub(super) fn silent() -> Fault {
    let what = format!("the record store did not answer within {STORE_WITHIN:?}");
    Fault::new(FaultKind::Transient, what)
}
