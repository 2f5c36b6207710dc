//! The task that sees to the members. It probes those that must be probed, and writes what
//! proto/membership says, until all is well or nobody has the quorum any more. Renewals and
//! withdrawals do not wait for it. Attempts do, and where the conductor makes them, it runs beside
//! the conductor.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;

use super::Members;
use super::membership::{Call, MembershipState, Standing};
use crate::backend::{Enrolment, Fault, FaultKind, Member, Probe};
use crate::ground::{Pauses, Plus as _, clock};
use crate::proto::{self, Act, Enrol, Identity, Membership};

/// Pauses between the looks at a member that does not answer.
const PROBE_PAUSES: Pauses = Pauses::new(Duration::from_millis(200), Duration::from_secs(1));

/// Probes at one member are at least so far apart.
const PROBES_APART: Duration = Duration::from_millis(10);

/// The outcome of a request to a member.
enum Event {
    Probed { sent: Instant, answer: Result<Probe, Fault> },
    Enrolled { act: Act, answer: Result<bool, Fault> },
}

type Running = FuturesUnordered<BoxFuture<'static, (usize, Event)>>;

/// The requests to one member.
#[derive(Debug, Clone)]
struct Line {
    is_busy: bool,
    /// Not before.
    again: Instant,
    failures: u32,
}

struct Session<M> {
    members: Weak<Members<M>>,
    state: Arc<MembershipState>,
    call: Call,
    membership: Membership,
    lines: Vec<Line>,
    running: Running,
}

/// Ends the session whatever becomes of its task: it may go with its runtime.
struct Rises(Arc<MembershipState>, Call);

impl Drop for Rises {
    fn drop(&mut self) {
        self.0.rise(&self.1);
    }
}

/// Starts the task.
pub(super) fn start<M: Member>(
    members: Weak<Members<M>>,
    state: Arc<MembershipState>,
    identity: Identity,
    call: Call,
) {
    let line = Line { is_busy: false, again: clock::now(), failures: 0 };
    let lines = vec![line; state.seats.len()];
    let rises = Rises(state.clone(), call.clone());
    let mut membership = Membership::new(identity);
    for (member, seat) in state.seats.iter().enumerate() {
        if seat.was_enrolled.load(Ordering::Relaxed) {
            membership.knows(member);
        }
    }
    let client = members.clone();
    let session =
        Session { members, state, call, membership, lines, running: FuturesUnordered::new() };
    drop(tokio::spawn(async move {
        let rises = rises;
        session.run().await;
        let state = rises.0.clone();
        drop(rises);
        // Called between the last look around and the end.
        let is_needed = client.strong_count() > 0 && state.conflict().is_none();
        if is_needed && state.seats.iter().any(|seat| seat.is_unseen()) {
            state.call();
        }
    }));
}

impl<M: Member> Session<M> {
    async fn run(mut self) {
        loop {
            let Some(members) = self.members.upgrade() else { return };
            if !self.state.sits(&self.call) {
                return;
            }
            let now = clock::now();
            for member in 0..self.lines.len() {
                let is_known = self.membership.standing(member) == Some(proto::Standing::Good);
                if is_known && self.state.seats[member].is_unseen() {
                    self.membership.unsee(member);
                }
            }
            let wake = self.begin(&members, now);
            drop(members);
            if self.state.conflict().is_some() || (wake.is_none() && self.running.is_empty()) {
                return;
            }
            let wake = wake.unwrap_or_else(|| now.plus(Duration::from_secs(60)));
            tokio::select! {
                Some((member, heard)) = self.running.next() => {
                    // This may be of the past, if the sitting was taken over.
                    if self.state.sits(&self.call) {
                        self.hear(member, heard);
                    }
                }
                () = self.call.notified() => {}
                () = clock::alarm(wake) => {}
            }
        }
    }

    /// Begins what is to be done, and says when there is more to do.
    fn begin(&mut self, members: &Arc<Members<M>>, now: Instant) -> Option<Instant> {
        let plan = self.membership.plan(now);
        for act in plan.acts {
            let line = &mut self.lines[act.member];
            if line.is_busy {
                continue;
            }
            line.is_busy = true;
            let enrolment = enrolment(self.membership.identity(), &act);
            let members = members.clone();
            self.running.push(Box::pin(async move {
                let member = act.member;
                let answer = members.all[member].enrol(&act.seen, &enrolment).await;
                (member, Event::Enrolled { act, answer })
            }));
        }
        let mut wake = plan.next;
        for member in plan.probes {
            let line = &mut self.lines[member];
            if line.is_busy {
                continue;
            }
            if line.again > now {
                wake = Some(wake.map_or(line.again, |wake| wake.min(line.again)));
                continue;
            }
            line.is_busy = true;
            let members = members.clone();
            self.running.push(Box::pin(async move {
                let sent = clock::now();
                let answer = members.all[member].probe().await;
                if answer.is_ok() {
                    members.health[member].answered();
                }
                (member, Event::Probed { sent, answer })
            }));
        }
        wake
    }

    fn hear(&mut self, member: usize, heard: Event) {
        let now = clock::now();
        let line = &mut self.lines[member];
        line.is_busy = false;
        line.again = now.plus(PROBES_APART);
        let answer = match heard {
            Event::Probed { sent, answer: Ok(probe) } => {
                line.failures = 0;
                let seat = &self.state.seats[member];
                seat.answers(sent, now);
                if probe.enrolment.is_some() {
                    seat.was_enrolled.store(true, Ordering::Relaxed);
                }
                self.membership.saw(member, sent, now, probe);
                Ok(())
            }
            Event::Enrolled { act, answer: Ok(written) } => {
                // The enrolment is read anew: as it is now, or as another has made it.
                self.membership.unsee(member);
                line.again = if written { now } else { line.again };
                if written {
                    self.state.seats[member].tell(act.what);
                }
                Ok(())
            }
            Event::Probed { answer: Err(fault), .. }
            | Event::Enrolled { answer: Err(fault), .. } => Err(fault),
        };
        if let Err(fault) = answer {
            line.failures += 1;
            line.again = now.plus(PROBE_PAUSES.pause(line.failures, clock::random_bits()));
            self.membership.missed(member);
            let seat = &self.state.seats[member];
            let what = format!("`{}`: {fault}", seat.name);
            seat.set(Standing::Away(Fault::new(fault.kind(), what).with_source(fault)));
        }
        self.publish(member, now);
    }

    /// Tells those who ask how the members stand; `heard` is the one that has answered.
    fn publish(&self, heard: usize, now: Instant) {
        use proto::Standing as Of;
        if let Some((one, other)) = self.membership.twins() {
            let name = |member: usize| &self.state.seats[member].name;
            let what = format!("`{}` and `{}` are one server", name(one), name(other));
            return self.state.conflicts(other, Fault::new(FaultKind::Refused, what));
        }
        for (member, seat) in self.state.seats.iter().enumerate() {
            let Some(of) = self.membership.standing(member) else { continue };
            let standing = match (of, self.membership.enrolment(member)) {
                (Of::Foreign, Some(theirs)) => {
                    let fault = conflict(&seat.name, self.membership.identity(), theirs);
                    return self.state.conflicts(member, fault);
                }
                (Of::Vacant | Of::Lost, _) if self.membership.is_stuck(member) => {
                    Standing::Unenrolled
                }
                (Of::Unrepaired, _) if self.membership.is_stuck(member) => Standing::Unrepaired,
                // A matter of a moment.
                (Of::Vacant | Of::Lost | Of::Unrepaired, _) => Standing::Unseen,
                (Of::Early { left }, _) if member == heard => {
                    Standing::Early { until: now.plus(left) }
                }
                (Of::Good, Some(enrolment)) if member == heard => {
                    let Some(members) = self.members.upgrade() else { return };
                    // The store first, then those who ask it.
                    members.all[member].serve_under(Some(enrolment));
                    Standing::Good(Arc::new(enrolment.clone()))
                }
                _ => continue,
            };
            seat.set(standing);
        }
    }
}

fn enrolment(identity: &Identity, act: &Act) -> Enrolment {
    let Identity { quorum, members, lease_max } = identity.clone();
    let seen = &act.seen.enrolment;
    let fresh = |ready_at: Duration, token_min| Enrolment {
        quorum,
        members,
        lease_max,
        nonce: clock::random_u64(),
        incarnation: act.seen.incarnation.clone(),
        // The time as it is written, in whole microseconds.
        ready_at: Duration::from_micros(u64::try_from(ready_at.as_micros()).unwrap_or(u64::MAX)),
        token_min,
    };
    match (act.what, seen) {
        (Enrol::Repair { token_min, .. }, Some(seen)) => {
            Enrolment { token_min: Some(token_min), ..seen.clone() }
        }
        (Enrol::Found { ready_at }, _) => fresh(ready_at, Some(0)),
        (Enrol::Quarantine { ready_at }, _) => fresh(ready_at, None),
        // There is nothing to repair.
        (Enrol::Repair { .. }, None) => fresh(Duration::MAX, None),
    }
}

fn conflict(name: &str, ours: &Identity, theirs: &Enrolment) -> Fault {
    let what = format!(
        "`{name}` is a member of another quorum: `{}` ({} members, leases up to {:?}); this client \
         is of `{}` ({} members, leases up to {:?})",
        theirs.quorum, theirs.members, theirs.lease_max, ours.quorum, ours.members, ours.lease_max
    );
    Fault::new(FaultKind::Refused, what)
}

#[cfg(test)]
mod tests {
    use std::future::Future as _;
    use std::pin::pin;
    use std::task::{Context, Waker};

    use tokio::runtime::{Builder, Runtime};

    use crate::ground::background;
    use crate::memory::Memory;
    use crate::quorum::{MembershipConfig, Quorum};

    fn runtime() -> Runtime {
        Builder::new_current_thread().enable_time().build().unwrap()
    }

    #[test]
    fn the_conductor_has_members_looked_at_while_the_application_is_blocked() {
        let (application, conductor) = (runtime(), runtime());
        let stores = vec![Memory::new(), Memory::new(), Memory::new()];
        let config = MembershipConfig::new(["one", "two", "three"]);
        let quorum = Quorum::managed(stores, config).unwrap();
        let state = quorum.members.membership.clone().unwrap();
        // Begun in a runtime that is not driven any more.
        application.block_on(async { state.call() });
        assert!(state.seats.iter().all(|seat| seat.is_unseen()));
        let here = background::enter();
        // They are new, and kept away for a time.
        conductor.block_on(state.admit(0)).unwrap_err();
        assert!(!state.seats[0].is_unseen());
        drop(here);
        // The one before finds that it was taken over, and ends.
        application.block_on(async {
            for _ in 0..8 {
                tokio::task::yield_now().await;
            }
        });
        assert_eq!(application.metrics().num_alive_tasks(), 0);
        assert_eq!(conductor.metrics().num_alive_tasks(), 1);
    }

    /// The caller began to wait in a runtime that lives, and the look in one that does not.
    #[test]
    fn the_conductor_has_members_looked_at_that_a_caller_waits_for() {
        let (blocked, caller, conductor) = (runtime(), runtime(), runtime());
        let stores = vec![Memory::new(), Memory::new(), Memory::new()];
        let config = MembershipConfig::new(["one", "two", "three"]);
        let quorum = Quorum::managed(stores, config).unwrap();
        let state = quorum.members.membership.clone().unwrap();
        blocked.block_on(async { state.call() });
        let mut admitting = pin!(state.admit(0));
        caller.block_on(async {
            let mut cx = Context::from_waker(Waker::noop());
            assert!(admitting.as_mut().poll(&mut cx).is_pending());
        });
        let here = background::enter();
        // They are new, and kept away for a time.
        conductor.block_on(admitting).unwrap_err();
        assert!(!state.seats[0].is_unseen());
        drop(here);
    }
}
