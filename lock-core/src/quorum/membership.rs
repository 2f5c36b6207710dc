//! The members of a managed quorum, by what is known of them, for those who ask them.

use std::fmt;
use std::future::{Future as _, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{Notify, watch};

use super::series::Series;
use crate::backend::{Enrolment, Fault, FaultKind};
use crate::ground::{Plus as _, background, clock, timeout};
use crate::proto::Enrol;

/// How long an attempt waits for a probe of its member, which takes one request at most.
const PROBED_WITHIN: Duration = Duration::from_secs(2);

/// How long a client that connects waits for a majority; one connect and one probe.
const OPENED_WITHIN: Duration = Duration::from_secs(5);

/// A client that connects waits for members that are late for as long again as a majority took, and
/// for this long at least. The quorum that they are of shows whether lists of members differ.
const LATE_WITHIN: Duration = Duration::from_millis(100);

/// The standing of one member, as this client knows it.
#[derive(Debug, Clone)]
pub(super) enum Standing {
    // ## Unseen => (Good | Early | Unrepaired | Unenrolled | Away)
    /// It must be probed before anything is asked of it.
    Unseen,
    // ## Good => Unseen
    Good(Arc<Enrolment>),
    // ## Early => (Unrepaired | Good | Unseen | Away)
    /// It lost its data, or is new, and is kept away until then.
    Early {
        until: Instant,
    },
    // ## Unrepaired => (Good | Early | Unseen | Away)
    /// It waits for a majority of the others, which know how far the tokens are.
    Unrepaired,
    // ## Unenrolled => (Early | Good | Unseen | Away)
    /// It waits for the others, which know whether the quorum is new.
    Unenrolled,
    // ## Away => (Unenrolled | Early | Unrepaired | Good | Unseen)
    Away(Fault),
}

/// One member.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) name: String,
    standing: watch::Sender<Standing>,
    /// The highest minimum token that it was seen to have.
    token_min: AtomicU64,
    /// It was seen to have an enrolment, in whatever sitting: without one it has lost it.
    pub(super) was_enrolled: AtomicBool,
    /// When it answered last.
    answered: Mutex<Option<Instant>>,
    pub(super) series: Series,
}

/// The standing of the members of a managed quorum, for all claims of a client. One task at most
/// sees to the members, while one of them needs it. It begins where it is needed first. The
/// conductor takes it over if it needs it, as the application may have blocked the runtime of the
/// one before.
pub(super) struct MembershipState {
    pub(super) seats: Vec<Seat>,
    /// A member is of another quorum: nothing is served any more.
    conflict: OnceLock<(usize, Fault)>,
    sitting: Mutex<Sitting>,
    /// Starts the task of a sitting.
    start: Box<dyn Fn(Call) + Send + Sync>,
}

#[derive(Debug, Default)]
struct Sitting {
    /// Its task.
    latest: Call,
    /// Whether the task is there, and if so, whether it is the conductor's.
    on: Option<bool>,
}

/// Wakes the task of one sitting: a member is unseen, or another sitting has begun.
pub(super) type Call = Arc<Notify>;

impl MembershipState {
    pub(super) fn new(names: &[String], start: impl Fn(Call) + Send + Sync + 'static) -> Self {
        let seat = |name: &String| Seat {
            name: name.clone(),
            standing: watch::Sender::new(Standing::Unseen),
            token_min: AtomicU64::new(0),
            was_enrolled: AtomicBool::new(false),
            answered: Mutex::new(None),
            series: Series::new(name),
        };
        Self {
            seats: names.iter().map(seat).collect(),
            conflict: OnceLock::new(),
            sitting: Mutex::default(),
            start: Box::new(start),
        }
    }

    fn sitting(&self) -> MutexGuard<'_, Sitting> {
        self.sitting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the members seen to, if nobody does who can be relied on here.
    pub(super) fn call(&self) {
        let here = background::is_here();
        let mut sitting = self.sitting();
        sitting.latest.notify_one();
        if sitting.on.is_some_and(|conductors| conductors || !here) {
            return;
        }
        let latest = Call::default();
        *sitting = Sitting { latest: latest.clone(), on: Some(here) };
        drop(sitting);
        (self.start)(latest);
    }

    /// Whether the task of `call` is the one that sees to the members.
    pub(super) fn sits(&self, call: &Call) -> bool {
        Arc::ptr_eq(&self.sitting().latest, call)
    }

    /// The task ends. One that was called meanwhile is begun anew by whoever called.
    pub(super) fn rise(&self, call: &Call) {
        let mut sitting = self.sitting();
        if Arc::ptr_eq(&sitting.latest, call) {
            sitting.on = None;
        }
    }

    pub(super) fn conflict(&self) -> Option<&Fault> {
        self.conflict.get().map(|(_, fault)| fault)
    }

    /// Whether this member was found to be of another quorum.
    pub(super) fn is_foreign(&self, member: usize) -> bool {
        self.conflict.get().is_some_and(|(found, _)| *found == member)
    }

    /// From now on nothing is served.
    pub(super) fn conflicts(&self, member: usize, fault: Fault) {
        tracing::error!(%fault, "two lists of members do not go together: no lock is granted");
        // The first that was found stays.
        drop(self.conflict.set((member, fault)));
        for seat in &self.seats {
            seat.set(Standing::Unseen);
        }
    }

    /// The enrolment under which a member may be asked, as soon as it was probed.
    pub(super) async fn admit(&self, member: usize) -> Result<Arc<Enrolment>, Fault> {
        let seat = &self.seats[member];
        let mut standing = seat.standing.subscribe();
        let until = clock::now().plus(PROBED_WITHIN);
        loop {
            if let Some(conflict) = self.conflict() {
                return Err(conflict.clone());
            }
            let now = standing.borrow_and_update().clone();
            match now {
                Standing::Good(enrolment) => return Ok(enrolment),
                Standing::Unseen => self.call(),
                other => {
                    self.call();
                    return Err(other.fault(&seat.name));
                }
            }
            let mut changed = pin!(standing.changed());
            // Called at each poll, as whoever polls may be another one. The runtime of the task that
            // was called may be blocked, or have ended, and the conductor comes and takes it over.
            let seen = poll_fn(|cx| {
                let polled = changed.as_mut().poll(cx);
                if polled.is_pending() {
                    self.call();
                }
                polled.map(drop)
            });
            if timeout::by(until, seen).await.is_err() {
                return Err(Standing::Unseen.fault(&seat.name));
            }
        }
    }

    /// A member did not serve an attempt under `enrolment`: it is probed again.
    pub(super) fn unsee(&self, member: usize, enrolment: &Arc<Enrolment>) {
        let seat = &self.seats[member];
        let unsee = |standing: &mut Standing| {
            let is_it = matches!(standing, Standing::Good(good) if Arc::ptr_eq(good, enrolment));
            if is_it {
                *standing = Standing::Unseen;
            }
            is_it
        };
        if seat.standing.send_if_modified(unsee) {
            self.call();
        }
    }

    /// The enrolment under which a member may be asked now.
    pub(super) fn good(&self, member: usize) -> Option<Arc<Enrolment>> {
        match self.seats[member].standing() {
            Standing::Good(enrolment) => Some(enrolment),
            _ => None,
        }
    }

    /// Whether a member has not lost its data since it was asked under `enrolment`, as far as is
    /// known.
    pub(super) fn is_still(&self, member: usize, enrolment: &Enrolment) -> bool {
        match self.seats[member].standing() {
            Standing::Good(now) => now.nonce == enrolment.nonce,
            Standing::Unseen | Standing::Away(_) => true,
            Standing::Early { .. } | Standing::Unrepaired | Standing::Unenrolled => false,
        }
    }

    /// Resolves when a member may be asked.
    pub(super) async fn is_good(&self, member: usize) {
        let mut standing = self.seats[member].standing.subscribe();
        // The sender lives as long as this.
        drop(standing.wait_for(|standing| matches!(standing, Standing::Good(_))).await);
    }

    /// Resolves when a majority has answered, and the others have or are late.
    pub(super) async fn open(&self) -> Result<(), Fault> {
        if clock::runtime().is_none() {
            let what = "no Tokio runtime with timers here, which the members are asked in";
            return Err(Fault::new(FaultKind::Refused, what));
        }
        self.call();
        let begun = clock::now();
        let mut seen: FuturesUnordered<_> =
            self.seats.iter().map(|seat| self.is_seen(seat)).collect();
        let mut until = begun.plus(OPENED_WITHIN);
        while let Ok(Some(())) = timeout::by(until, seen.next()).await {
            if let Some(conflict) = self.conflict() {
                return Err(conflict.clone());
            }
            if self.answered() > self.seats.len() / 2 {
                // This waits for members that are late, as claims do.
                let now = clock::now();
                let took = now.saturating_duration_since(begun);
                until = until.min(now.plus(took.max(LATE_WITHIN)));
            }
        }
        if let Some(conflict) = self.conflict() {
            return Err(conflict.clone());
        }
        if self.answered() > self.seats.len() / 2 { Ok(()) } else { Err(self.why_closed()) }
    }

    fn answered(&self) -> usize {
        self.seats.iter().filter(|seat| seat.answered().is_some()).count()
    }

    /// Resolves when a member was probed, or could not be.
    async fn is_seen(&self, seat: &Seat) {
        let mut standing = seat.standing.subscribe();
        let is_seen = |standing: &Standing| {
            self.conflict().is_some() || !matches!(standing, Standing::Unseen)
        };
        // The sender lives as long as this.
        drop(standing.wait_for(is_seen).await);
    }

    /// The reason why no majority answers: a refusal, if most refuse.
    fn why_closed(&self) -> Fault {
        let (mut lines, mut refusals) = (Vec::new(), 0);
        for seat in self.seats.iter().filter(|seat| seat.answered().is_none()) {
            lines.push(match seat.standing() {
                Standing::Away(fault) => {
                    refusals += usize::from(!fault.is_transient());
                    fault.to_string()
                }
                _ => format!("`{}` did not answer in time", seat.name),
            });
        }
        let is_final = self.seats.len() - refusals <= self.seats.len() / 2;
        let kind = if is_final { FaultKind::Refused } else { FaultKind::Transient };
        let what = format!(
            "{} of the {} members of the quorum do not answer: {}",
            lines.len(),
            self.seats.len(),
            lines.join("; ")
        );
        Fault::new(kind, what)
    }
}

impl Seat {
    pub(super) fn standing(&self) -> Standing {
        self.standing.borrow().clone()
    }

    pub(super) fn is_unseen(&self) -> bool {
        matches!(&*self.standing.borrow(), Standing::Unseen)
    }

    pub(super) fn set(&self, standing: Standing) {
        if let Standing::Good(enrolment) = &standing {
            self.token_min.fetch_max(enrolment.token_min.unwrap_or(0), Ordering::AcqRel);
        }
        self.series.is_good(matches!(standing, Standing::Good(_)));
        self.standing.send_replace(standing);
    }

    pub(super) fn token_min(&self) -> u64 {
        self.token_min.load(Ordering::Acquire)
    }

    /// It has answered at `at` a request that was sent at `sent`.
    pub(super) fn answers(&self, sent: Instant, at: Instant) {
        self.series.answered(at.saturating_duration_since(sent));
        *self.answered.lock().unwrap_or_else(PoisonError::into_inner) = Some(at);
    }

    /// Says what was written at it.
    pub(super) fn tell(&self, what: Enrol) {
        let member = self.name.as_str();
        match what {
            Enrol::Found { .. } => tracing::info!(member, "enrolled in a new quorum"),
            Enrol::Quarantine { .. } => {
                self.series.quarantined();
                tracing::warn!(
                    member,
                    "a member of the quorum is new or may have lost data: it is kept away for the \
                     longest lease"
                );
            }
            Enrol::Repair { token_min, on_clocks } => {
                self.series.repaired();
                if on_clocks {
                    tracing::warn!(
                        member,
                        "a majority of the quorum lost its data at once: that tokens go on to grow \
                         rests on the clocks of the clients"
                    );
                }
                tracing::info!(member, token_min, "a member of the quorum grants again");
            }
        }
    }

    pub(super) fn answered(&self) -> Option<Instant> {
        *self.answered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Standing {
    /// The reason why the member is not asked.
    fn fault(&self, name: &str) -> Fault {
        let unready = |what: &str| Fault::new(FaultKind::Unready, format!("`{name}` {what}"));
        match self {
            Self::Away(fault) => fault.clone(),
            Self::Early { until } => {
                let left = until.saturating_duration_since(clock::now());
                unready(&format!("may have lost what it granted, and is kept away for {left:.1?}"))
            }
            Self::Unrepaired => {
                unready("lost its data, and the others do not answer how far the tokens are")
            }
            Self::Unenrolled => {
                unready("is no member of this quorum yet, and the others do not answer whose it is")
            }
            Self::Unseen | Self::Good(_) => unready("was not probed in time"),
        }
    }
}

impl fmt::Debug for MembershipState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MembershipState")
            .field("seats", &self.seats)
            .field("conflict", &self.conflict)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use tokio::runtime::Builder;

    use super::*;

    /// An attempt that a caller began is gone on with by the conductor when the caller's runtime is
    /// gone.
    #[test]
    fn a_wait_for_a_member_that_began_in_a_runtime_that_is_gone_ends_in_the_next() {
        let runtime = || {
            let mut builder = Builder::new_current_thread();
            builder.enable_time().start_paused(true).build().unwrap()
        };
        let state = MembershipState::new(&["one".to_owned()], drop);
        let (first, second) = (runtime(), runtime());
        let mut admitting = pin!(state.admit(0));
        first.block_on(async {
            let mut cx = Context::from_waker(Waker::noop());
            assert!(admitting.as_mut().poll(&mut cx).is_pending());
        });
        drop(first);
        let fault = second.block_on(admitting).unwrap_err();
        assert_eq!(fault.kind(), Standing::Unseen.fault("one").kind());
    }
}
