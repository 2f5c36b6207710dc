//! A script's call, from the node that is believed to serve its slot to the one that does.

use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::{Cmd, Value};

use super::Cluster;
use super::redirect::{Redirect, is_ask};
use super::server::{Lane, REQUEST_LEAST, Server};
use super::slots;
use crate::backend::{Fault, FaultKind};
use crate::engine::clock;
use crate::options::Replicas;
use crate::proto::REDIRECT_PAUSES;
use crate::redis::names::{Names, Owner};
use crate::redis::renewals::{Renew, Renewed};
use crate::redis::request::{Failure, REQUEST_WITHIN, Unserved};
use crate::redis::script::{FREE, KEEP, Script};

/// Redirections of one call. A cluster that is at one with itself needs one, or two in a migration.
const REDIRECTS_MAX: u32 = 5;

/// A node that took longer may have hung and been succeeded meanwhile: before its answer counts, the
/// others are asked. Shorter than any node timeout by which a cluster can be run.
const SUSPECT: Duration = Duration::from_millis(500);

/// How long a release waits for the keys of its lock to be in one place again.
const RELEASE_UNSTABLE: Duration = Duration::from_millis(100);

/// A call that waits for the cluster leaves the last try so much of its time, or a fifth if that is
/// less: a node that is well answers within it, and one that does not counts as broken.
const LAST_TRY: Duration = Duration::from_millis(200);

/// Until when it is worth waiting, of a call that has `budget` from now on.
fn worth_waiting(now: Instant, budget: Duration) -> Instant {
    now + budget - LAST_TRY.min(budget / 5)
}

/// One call on its way.
struct Call<'a> {
    slot: u16,
    script: &'a Script,
    command: &'a Cmd,
    lane: Lane,
    /// Until when it is worth waiting for the cluster.
    until: Instant,
    /// Until when it is worth waiting for keys that are on their way.
    unstable_until: Instant,
    /// When the last answer is due.
    end: Instant,
    /// Whether it goes where the slot is on its way to.
    follows_ask: bool,
}

impl<'a> Call<'a> {
    fn new(script: &'a Script, command: &'a Cmd, lane: Lane, budget: Duration) -> Self {
        let (now, slot) = (clock::now(), slots::slot_of_call(command));
        let until = worth_waiting(now, budget);
        let (unstable_until, end, follows_ask) = (until, now + budget, true);
        Self { slot, script, command, lane, until, unstable_until, end, follows_ask }
    }
}

impl Cluster {
    /// Calls a script of the slot of its first key, within the time of a request.
    pub(in crate::redis) async fn call(
        &self,
        script: &Script,
        command: &Cmd,
    ) -> Result<Value, Unserved> {
        self.follow(Call::new(script, command, Lane::Main, REQUEST_WITHIN)).await
    }

    /// The same, and waits for its replication; both answers in an array.
    pub(in crate::redis) async fn call_and_wait(
        &self,
        script: &Script,
        command: &Cmd,
        replicas: Replicas,
    ) -> Result<Value, Unserved> {
        self.follow(Call::new(script, command, Lane::Waiting(replicas), REQUEST_WITHIN)).await
    }

    /// Withdraws a claim. While the keys of its lock are in two places, or where their slot is on
    /// its way to, it only gives up the lock itself: who waits finds that at its next recheck.
    /// Nobody can listen there yet, so a hand-off would take all who wait for dead.
    pub(in crate::redis) async fn withdraw(
        &self,
        script: &Script,
        command: &Cmd,
        names: &Names,
        owner: Owner<'_>,
        held: bool,
    ) -> Result<Value, Unserved> {
        let mut call = Call::new(script, command, Lane::Main, REQUEST_WITHIN);
        call.unstable_until = clock::now() + RELEASE_UNSTABLE;
        call.follows_ask = false;
        let (until, end) = (call.until, call.end);
        let unserved = match self.follow(call).await {
            Err(unserved) if unserved.fault.is_try_again() || is_ask(&unserved.fault) => unserved,
            answer => return answer,
        };
        let mut free = FREE.evalsha(1);
        free.arg(names.lock()).arg(owner);
        let later = |script, command| {
            let call = Call::new(script, command, Lane::Main, REQUEST_WITHIN);
            self.follow(Call { until, unstable_until: until, end, ..call })
        };
        match later(&FREE, &free).await? {
            // Its place in the line must go too.
            Value::Int(0) if !held && is_ask(&unserved.fault) => later(script, command).await,
            // And is out of reach.
            Value::Int(0) if !held => Err(unserved),
            answer => Ok(answer),
        }
    }

    /// Renews one claim with the next batch of the node that serves it. While the keys of its lock
    /// are in two places, it keeps the lock itself, without further tokens.
    pub(in crate::redis) async fn renew(&self, mut renew: Renew) -> Result<Renewed, Fault> {
        let (slot, now) = (renew.slot, clock::now());
        let (until, end) = (worth_waiting(now, renew.within), now + renew.within);
        let (mut redirects, mut pauses) = (0, 0);
        self.keep_fresh();
        loop {
            let Some(server) = self.owner(slot) else { return Err(nobody()) };
            // What is left for a node behind a redirection, not the whole again.
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
        let owner = Owner { claim: renew.claim, session: self.session(), of_quorum: false };
        let mut command = KEEP.evalsha(1);
        command.arg(renew.names.lock()).arg(owner).arg(renew.lease_ms);
        let call = Call::new(&KEEP, &command, Lane::Renewals, left(end));
        let answer = self.follow(call).await.map_err(|unserved| unserved.fault);
        answer.and_then(|answer| Renewed::read_kept(&answer)).map_err(Failure::into_fault)
    }

    async fn follow(&self, call: Call<'_>) -> Result<Value, Unserved> {
        let (mut asked, mut redirects, mut pauses) = (None, 0, 0);
        self.keep_fresh();
        loop {
            let (server, asking) = match asked.take() {
                Some(addr) => (self.server(addr), true),
                None => (self.owner(call.slot), false),
            };
            let Some(server) = server else {
                self.refresh_soon();
                if pause(&mut pauses, call.until).await {
                    continue;
                }
                return Err(Unserved { fault: Failure::Other(nobody()), sent: None });
            };
            self.count();
            let within = left(call.end);
            let sent = clock::now();
            let answer = server.call(call.lane, call.script, call.command, asking, within).await;
            let unserved = match answer {
                Ok(answer) if asking || self.still_owns(call.slot, &server, sent).await => {
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
                    self.moved(call.slot, &server, to);
                    // Two nodes that name each other are about to agree.
                    redirects > 2 && !pause(&mut pauses, call.until).await
                }
                // Who waits for replicas waits for the end of the move, too.
                Some(Redirect::Ask(_)) if matches!(call.lane, Lane::Waiting(_)) => {
                    !pause(&mut pauses, call.unstable_until).await
                }
                Some(Redirect::Ask(_)) if !call.follows_ask => true,
                Some(Redirect::Ask(to)) => {
                    redirects += 1;
                    asked = Some(self.known(to));
                    false
                }
                Some(Redirect::TryAgain) => {
                    redirects = 0;
                    !pause(&mut pauses, call.unstable_until).await
                }
                Some(Redirect::Down) => {
                    redirects = 0;
                    self.refresh_soon();
                    !pause(&mut pauses, call.until).await
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
        if clock::now() >= asked + SUSPECT {
            // On the heap, as it is rare. The answer waits for no longer than another request.
            drop(tokio::time::timeout(REQUEST_WITHIN, Box::pin(self.look())).await);
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

/// How long an answer that is due at `end` may take.
fn left(end: Instant) -> Duration {
    end.saturating_duration_since(clock::now()).max(REQUEST_LEAST)
}

/// Waits a moment; false, and at once, if there is no time for it.
async fn pause(pauses: &mut u32, until: Instant) -> bool {
    *pauses += 1;
    let pause = REDIRECT_PAUSES.pause(*pauses, clock::random_bits());
    if clock::now() + pause >= until {
        return false;
    }
    tokio::time::sleep(pause).await;
    true
}

fn nobody() -> Fault {
    Fault::new(FaultKind::Transient, "no known node of the cluster serves the slot of this key")
}

/// It may be a master that was cut off: what it says does not count.
fn superseded() -> Fault {
    let what = "the slot of this key went to another node of the cluster while a node was asked";
    Fault::new(FaultKind::Transient, what)
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
