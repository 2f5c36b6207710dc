//! A script's call, from the node that is believed to serve its slot to the one that does.

use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::Value;

use super::Cluster;
use super::redirect::{Redirect, is_ask};
use super::server::{Lane, REQUEST_LEAST, Server};
use crate::backend::Replicas;
use crate::backend::{Fault, FaultKind};
use crate::ground::{Pauses, Plus as _, clock};
use crate::redis::protocol::names::{Name, Names, Owner};
use crate::redis::protocol::script::{FREE, KEEP, KEEP_SHARE};
use crate::redis::wire::inbox::Inbox;
use crate::redis::wire::renewals::{Renew, Renewed};
use crate::redis::wire::request::{Call, Failure, REQUEST_WITHIN, Unserved};

/// Redirections of one call. A cluster that is at one with itself needs one, or two in a migration.
const REDIRECTS_MAX: u32 = 5;

/// Pauses between requests to a cluster that is about to serve them.
const REDIRECT_PAUSES: Pauses = Pauses::new(Duration::from_millis(5), Duration::from_millis(50));

/// A node that took longer may have hung and been succeeded meanwhile. Before its answer counts,
/// the others are asked. This is shorter than any node timeout by which a cluster can be run.
const SUSPECT: Duration = Duration::from_millis(500);

/// The time that a release waits for the keys of its lock to be in one place again.
const RELEASE_UNSTABLE: Duration = Duration::from_millis(100);

/// A call that waits for the cluster leaves the last try so much of its time, or a fifth of it if
/// that is less. A node that is well answers within it. One that does not counts as broken.
const LAST_TRY: Duration = Duration::from_millis(200);

/// Until when it is worth waiting, of a call that has `budget` from now on.
fn worth_waiting(now: Instant, budget: Duration) -> Instant {
    now.plus(budget.saturating_sub(LAST_TRY.min(budget / 5)))
}

/// One call on its way.
struct Way<'a> {
    call: &'a Call,
    lane: Lane,
    /// Until when it is worth waiting for the cluster.
    until: Instant,
    /// Until when it is worth waiting for keys that are on their way.
    unstable_until: Instant,
    /// The time when the last answer is due.
    end: Instant,
    /// Whether it goes where the slot is on its way to.
    follows_ask: bool,
    /// The inbox of a claim in line, which may be told meanwhile what it asks for.
    inbox: Option<&'a Inbox>,
}

impl<'a> Way<'a> {
    fn new(call: &'a Call, lane: Lane, budget: Duration) -> Self {
        let now = clock::now();
        let until = worth_waiting(now, budget);
        let (unstable_until, end, follows_ask) = (until, now.plus(budget), true);
        Self { call, lane, until, unstable_until, end, follows_ask, inbox: None }
    }

    fn is_told(&self) -> bool {
        self.inbox.is_some_and(Inbox::is_handed)
    }
}

impl Cluster {
    /// Makes a call, within the time of a request.
    pub(in crate::redis) async fn call(&self, call: &Call) -> Result<Value, Unserved> {
        self.follow(Way::new(call, Lane::Main, REQUEST_WITHIN)).await
    }

    /// The same for an attempt of a claim with this inbox. It does not wait for keys on their way once
    /// the claim was handed the key: the line that it looks for may be gone with that.
    pub(in crate::redis) async fn attempt(
        &self,
        call: &Call,
        inbox: Option<&Inbox>,
    ) -> Result<Value, Unserved> {
        self.follow(Way { inbox, ..Way::new(call, Lane::Main, REQUEST_WITHIN) }).await
    }

    /// The same as [`call`](Self::call), and waits for its replication; both answers in an array.
    pub(in crate::redis) async fn call_and_wait(
        &self,
        call: &Call,
        replicas: Replicas,
    ) -> Result<Value, Unserved> {
        self.follow(Way::new(call, Lane::Waiting(replicas), REQUEST_WITHIN)).await
    }

    /// Makes a call that renews a claim as well, within this time.
    pub(in crate::redis) async fn call_to_renew(
        &self,
        call: &Call,
        within: Duration,
    ) -> Result<Value, Unserved> {
        self.follow(Way::new(call, Lane::Renewals, within)).await
    }

    /// Withdraws a claim. It only gives up the lock itself while the keys of the lock are in two
    /// places, or where the slot is on its way to. Those who wait find that at their next recheck.
    pub(in crate::redis) async fn withdraw(
        &self,
        call: &Call,
        names: &Names,
        owner: Owner<'_>,
        held: bool,
    ) -> Result<Value, Unserved> {
        let mut way = Way::new(call, Lane::Main, REQUEST_WITHIN);
        way.unstable_until = clock::now().plus(RELEASE_UNSTABLE);
        way.follows_ask = false;
        let (until, end) = (way.until, way.end);
        let unserved = match self.follow(way).await {
            Err(unserved) if unserved.fault.is_try_again() || is_ask(&unserved.fault) => unserved,
            answer => return answer,
        };
        let mut command = FREE.evalsha(1);
        command.arg(names.lock()).arg(owner);
        let free = Call { script: &FREE, command, slot: call.slot };
        let share = keep_share(names.held(), owner, call.slot, None);
        let later = |call| {
            let way = Way::new(call, Lane::Main, REQUEST_WITHIN);
            self.follow(Way { until, unstable_until: until, end, ..way })
        };
        let mut answer = later(&free).await?;
        if answer == TOGETHER {
            answer = later(&share).await?;
        }
        match answer {
            // Its place in the line must go too.
            Value::Int(0) if !held && is_ask(&unserved.fault) => later(call).await,
            // And is out of reach.
            Value::Int(0) if !held => Err(unserved),
            answer => Ok(answer),
        }
    }

    /// Renews one claim with the next batch of the node that serves it. While the keys of its lock
    /// are in two places, it keeps the lock itself, without further tokens.
    pub(in crate::redis) async fn renew(&self, mut renew: Renew) -> Result<Renewed, Fault> {
        let (slot, now) = (renew.slot, clock::now());
        let (until, end) = (worth_waiting(now, renew.within), now.plus(renew.within));
        let (mut redirects, mut pauses) = (0, 0);
        self.keep_fresh();
        loop {
            let Some(server) = self.owner(slot) else { return Err(nobody()) };
            // A node behind a redirection has the time that is left, not the whole again.
            renew.within = left(end);
            let asked = clock::now();
            let answer = server.renewals.renew(renew.clone()).await;
            let failure = match answer {
                Ok(answer) if self.still_owns(slot, &server, asked).await => return Ok(answer),
                Ok(_) => return Err(superseded()),
                Err(failure) => failure,
            };
            let last = match Redirect::of(&failure, &server.addr) {
                Some(Redirect::Moved(to)) => {
                    redirects += 1;
                    self.moved(slot, &server, to);
                    redirects > REDIRECTS_MAX
                }
                Some(Redirect::Ask(_) | Redirect::TryAgain) => {
                    return self.keep(&renew, end).await;
                }
                Some(Redirect::Down) => {
                    self.refresh_soon();
                    !pause(&mut pauses, until).await
                }
                None => {
                    self.failed(&server, &failure);
                    true
                }
            };
            if last {
                return Err(failure.into_fault());
            }
        }
    }

    async fn keep(&self, renew: &Renew, end: Instant) -> Result<Renewed, Fault> {
        let owner = Owner { claim: renew.claim, session: &self.session.id, of_quorum: false };
        let mut command = KEEP.evalsha(1);
        command.arg(renew.names.lock()).arg(owner).arg(renew.lease_ms);
        let mut answer =
            self.keep_by(&Call { script: &KEEP, command, slot: renew.slot }, end).await?;
        if answer == TOGETHER {
            // The lock lives for as long by now. Its share is in another key, and the number of a
            // permit in a third.
            for (name, is_share) in [(renew.names.slots(), false), (renew.names.held(), true)] {
                let share = keep_share(name, owner, renew.slot, Some((renew.lease_ms, is_share)));
                answer = self.keep_by(&share, end).await?;
            }
        }
        Renewed::read_kept(&answer).map_err(Failure::into_fault)
    }

    async fn keep_by(&self, call: &Call, end: Instant) -> Result<Value, Fault> {
        self.call_to_renew(call, left(end)).await.map_err(|unserved| unserved.fault.into_fault())
    }

    async fn follow(&self, way: Way<'_>) -> Result<Value, Unserved> {
        let (call, slot) = (way.call, way.call.slot);
        let (mut asked, mut redirects, mut pauses) = (None, 0, 0);
        self.keep_fresh();
        loop {
            let (server, asking) = match asked.take() {
                Some(addr) => (self.server(addr), true),
                None => (self.owner(slot), false),
            };
            let Some(server) = server else {
                self.refresh_soon();
                if pause(&mut pauses, way.until).await {
                    continue;
                }
                return Err(Unserved { fault: Failure::Other(nobody()), sent: None });
            };
            self.session.count();
            let within = left(way.end);
            let sent = clock::now();
            let call = call.fitting(asking || self.is_moving());
            let answer = server.call(way.lane, &call, asking, within).await;
            let unserved = match answer {
                Ok(answer) if asking || self.still_owns(slot, &server, sent).await => {
                    return Ok(answer);
                }
                Ok(_) => return Err(Unserved { fault: Failure::Other(superseded()), sent: None }),
                Err(unserved) => unserved,
            };
            let redirect = Redirect::of(&unserved.fault, &server.addr);
            // Nothing was done where one is told.
            let sent = unserved.sent.filter(|_| redirect.is_none());
            let last = match redirect {
                Some(Redirect::Moved(to)) => {
                    redirects += 1;
                    self.moved(slot, &server, to);
                    // Two nodes that name each other are about to agree.
                    redirects > 2 && !pause(&mut pauses, way.until).await
                }
                // A call that waits for replicas waits for the end of the move, too.
                Some(Redirect::Ask(_)) if matches!(way.lane, Lane::Waiting(_)) => {
                    !pause(&mut pauses, way.unstable_until).await
                }
                Some(Redirect::Ask(_)) if !way.follows_ask => true,
                Some(Redirect::Ask(to)) => {
                    redirects += 1;
                    asked = Some(self.known(to));
                    false
                }
                Some(Redirect::TryAgain) => {
                    redirects = 0;
                    way.is_told() || !pause(&mut pauses, way.unstable_until).await || way.is_told()
                }
                Some(Redirect::Down) => {
                    redirects = 0;
                    self.refresh_soon();
                    !pause(&mut pauses, way.until).await
                }
                None => {
                    self.failed(&server, &unserved.fault);
                    true
                }
            };
            if last || redirects > REDIRECTS_MAX {
                return Err(Unserved { fault: unserved.fault, sent });
            }
        }
    }

    /// Whether a node that was asked then, and has answered, serves the slot still.
    async fn still_owns(&self, slot: u16, server: &Server, asked: Instant) -> bool {
        if clock::now() >= asked.plus(SUSPECT) {
            // The look is on the heap, as it is rare. The answer waits for no longer than another
            // request.
            drop(Box::pin(self.look_now()).await);
        }
        self.owns(slot, server)
    }

    /// A node did not answer: it may be gone for good, and its slots with another.
    fn failed(&self, server: &Arc<Server>, failure: &Failure) {
        if failure.is_lasting() {
            server.pushes.check();
            self.refresh_soon();
        }
    }
}

/// The answer where several hold the key together: who does is said elsewhere.
const TOGETHER: Value = Value::Int(2);

/// Keeps a claim's share of a key for a lease, or what is noted beside it; without one the share is
/// given up.
fn keep_share(name: Name<'_>, owner: Owner<'_>, slot: u16, lease: Option<(u64, bool)>) -> Call {
    let (lease_ms, is_share) = lease.unwrap_or((0, true));
    let mut command = KEEP_SHARE.evalsha(1);
    command.arg(name).arg(owner).arg(lease_ms).arg(u8::from(is_share));
    Call { script: &KEEP_SHARE, command, slot }
}

/// The time that an answer which is due at `end` may take.
fn left(end: Instant) -> Duration {
    end.saturating_duration_since(clock::now()).max(REQUEST_LEAST)
}

/// Waits a moment; false, and at once, if there is no time for it.
async fn pause(pauses: &mut u32, until: Instant) -> bool {
    *pauses += 1;
    let pause = REDIRECT_PAUSES.pause(*pauses, clock::random_bits());
    if clock::now().plus(pause) >= until {
        return false;
    }
    // The timer is that of whoever polls: the caller's runtime may be blocked or gone before it is
    // over.
    clock::alarm_in(pause).await;
    true
}

/// Nothing was sent: who was asked before said that it serves no such slot.
pub(super) fn nobody() -> Fault {
    let what = "no known node of the cluster serves the slot of this key";
    Fault::new(FaultKind::Transient, what).unsent()
}

/// It may be a master that was cut off: what it says does not count.
fn superseded() -> Fault {
    let what = "the slot of this key went to another node of the cluster while a node was asked";
    Fault::new(FaultKind::Transient, what)
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    /// A verb that a caller began is gone on with by the conductor when the caller's runtime is gone.
    #[test]
    fn a_pause_that_began_in_a_runtime_that_is_gone_ends_in_the_next() {
        let runtime =
            || tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let (first, second) = (runtime(), runtime());
        let mut pauses = 0;
        let mut pausing = pin!(pause(&mut pauses, clock::now() + Duration::from_secs(60)));
        first.block_on(async {
            assert!(pausing.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        });
        drop(first);
        assert!(second.block_on(pausing));
    }

    #[tokio::test]
    async fn a_pause_leaves_the_last_try_time_for_an_answer() {
        let (now, budget) = (clock::now(), Duration::from_millis(400));
        let (until, end) = (worth_waiting(now, budget), now + budget);
        let mut pauses = 0;
        while pause(&mut pauses, until).await {
            assert!(left(end) >= REQUEST_LEAST);
        }
        assert!(pauses > 1 && until + budget / 5 == end);
        assert_eq!(worth_waiting(now, REQUEST_WITHIN), now + REQUEST_WITHIN - LAST_TRY);
        assert_eq!(left(now), REQUEST_LEAST, "however late it is");
    }

    #[tokio::test(start_paused = true)]
    async fn what_nobody_could_be_asked_for_was_not_sent() {
        let cluster = Cluster::at_nobody(super::super::Target::at(1));
        let call = Call { script: &FREE, command: FREE.evalsha(0), slot: 5 };
        let unserved = cluster.call(&call).await.unwrap_err();
        assert!(unserved.sent.is_none() && unserved.fault.into_fault().is_unsent());
        let unserved = cluster.send(5, &call.command).await.unwrap_err();
        assert!(unserved.fault.into_fault().is_unsent());
    }
}
