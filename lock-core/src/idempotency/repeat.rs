//! A verb that is asked again while the store does not answer.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::backend::{Fault, FaultKind};
use crate::ground::{FAULT_PAUSES, Pauses, Plus as _, clock};
use crate::records::BoxFuture;

/// How long a caller waits for the store.
pub(super) const STORE_WITHIN: Duration = Duration::from_secs(2);

/// How long the task goes on with a claim or an abort behind the caller's back.
const KEEP_ASKING: Duration = Duration::from_secs(30);

/// Pauses between the tries to keep an outcome, which may be large.
const OUTCOME_PAUSES: Pauses = Pauses::new(Duration::from_millis(20), Duration::from_secs(10));

/// How long the task goes on with an outcome at most: it cannot be had again.
pub(super) const KEEP_COMPLETING: Duration = Duration::from_secs(10 * 60);

/// How long one try with an outcome may take, whatever the store makes of its time.
pub(super) const TRY_WITHIN: Duration = Duration::from_secs(5);

/// A try that took this much longer was interrupted: the process was stopped.
const TRY_MARGIN: Duration = Duration::from_secs(1);

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
                    Err(fault) if fault.is_transient() => self.note(fault),
                    answer => return answer,
                }
                let pause = FAULT_PAUSES.pause(failures, clock::random_bits());
                let over = clock::now().plus(pause) >= self.since.plus(within);
                if over || !go_on() {
                    break;
                }
                tokio::time::sleep(pause).await;
            }
            Err(self.fault())
        };
        let until = self.since.plus(within);
        tokio::time::timeout_at(clock::timer(until), asking)
            .await
            .unwrap_or_else(|_| Err(self.fault()))
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

    /// Asks for `within`, and then once more, be it that the process was stopped meanwhile: the
    /// last try is begun after that time, and is a whole one. A caller who has waited long enough
    /// is told `late`.
    ///
    /// # Errors
    ///
    /// The last fault.
    pub(super) async fn insist<'a, T>(
        &self,
        within: Duration,
        verb: impl Fn() -> BoxFuture<'a, Result<T, Fault>>,
        late: impl FnOnce(Fault),
    ) -> Result<T, Fault> {
        let mut insisting = std::pin::pin!(self.try_on(self.since.plus(within), verb));
        tokio::select! {
            biased;
            answer = &mut insisting => return answer,
            () = tokio::time::sleep(STORE_WITHIN) => {}
        }
        late(self.fault());
        insisting.await
    }

    async fn try_on<'a, T>(
        &self,
        until: Instant,
        verb: impl Fn() -> BoxFuture<'a, Result<T, Fault>>,
    ) -> Result<T, Fault> {
        for failures in 1.. {
            let began = clock::now();
            match tokio::time::timeout(TRY_WITHIN, verb()).await {
                Ok(Err(fault)) if fault.is_transient() => self.note(fault),
                Ok(answer) => return answer,
                Err(_) => self.note(silent()),
            }
            let now = clock::now();
            if began >= until && now <= began.plus(TRY_WITHIN).plus(TRY_MARGIN) {
                break;
            }
            // Seldom after a while: the outcome may be large, and the store may refuse it.
            let next = now.plus(OUTCOME_PAUSES.pause(failures, clock::random_bits()));
            let next = if now < until { next.min(until) } else { next };
            clock::sleep_until(next).await;
        }
        Err(self.fault())
    }

    fn note(&self, fault: Fault) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(fault);
    }

    /// Whether any try has failed in a way that leaves open whether it took effect.
    pub(super) fn has_failed(&self) -> bool {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Whether this began less than `within` ago.
    pub(super) fn is_within(&self, within: Duration) -> bool {
        clock::now() < self.since.plus(within)
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
