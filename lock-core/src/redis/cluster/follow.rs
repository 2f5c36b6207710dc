//! A script's call, from the node that is believed to serve its slot to the one that does.

use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::{Cmd, Value};

use super::Cluster;
use super::redirect::Redirect;
use super::server::{Lane, Server};
use super::slots;
use crate::backend::{Fault, FaultKind};
use crate::engine::clock;
use crate::options::Replicas;
use crate::proto::REDIRECT_PAUSES;
use crate::redis::link::{Failure, REQUEST_WITHIN, Unserved};
use crate::redis::renewals::Renew;
use crate::redis::script::{FREE, KEEP, Script};

/// Redirections of one call. A cluster that is at one with itself needs one, or two in a migration.
const REDIRECTS_MAX: u32 = 5;

/// How long a release waits for the keys of its lock to be in one place again.
const RELEASE_UNSTABLE: Duration = Duration::from_millis(100);

/// One call on its way.
struct Call<'a> {
    slot: u16,
    script: &'a Script,
    command: &'a Cmd,
    lane: Lane,
    until: Instant,
    /// Until when it is worth waiting for keys that are on their way.
    unstable_until: Instant,
}

impl Cluster {
    /// Calls a script of the slot of its first key, within the time of a request.
    pub(in crate::redis) async fn call(
        &self,
        script: &Script,
        command: &Cmd,
    ) -> Result<Value, Unserved> {
        let until = clock::now() + REQUEST_WITHIN;
        let slot = slots::slot_of_call(command);
        let lane = Lane::Main;
        self.follow(Call { slot, script, command, lane, until, unstable_until: until }).await
    }

    /// The same, and waits for its replication; both answers in an array.
    pub(in crate::redis) async fn call_and_wait(
        &self,
        script: &Script,
        command: &Cmd,
        replicas: Replicas,
    ) -> Result<Value, Unserved> {
        let until = clock::now() + REQUEST_WITHIN;
        let slot = slots::slot_of_call(command);
        let lane = Lane::Waiting(replicas);
        self.follow(Call { slot, script, command, lane, until, unstable_until: until }).await
    }

    /// Withdraws a claim. While the keys of its lock are in two places, it only gives up the lock
    /// itself: who waits finds that at its next recheck.
    pub(in crate::redis) async fn withdraw(
        &self,
        script: &Script,
        command: &Cmd,
        lock: &str,
        owner: &str,
        held: bool,
    ) -> Result<Value, Unserved> {
        let now = clock::now();
        let until = now + REQUEST_WITHIN;
        let slot = slots::slot_of_call(command);
        let (lane, unstable_until) = (Lane::Main, now + RELEASE_UNSTABLE);
        let unserved =
            match self.follow(Call { slot, script, command, lane, until, unstable_until }).await {
                Err(unserved) if unserved.fault.is_try_again() => unserved,
                answer => return answer,
            };
        let mut command = FREE.evalsha(1);
        command.arg(lock).arg(owner);
        let call = Call { slot, script: &FREE, command: &command, lane, until, unstable_until };
        match self.follow(call).await? {
            // Its place in the line is out of reach, and must go too.
            Value::Int(0) if !held => Err(unserved),
            answer => Ok(answer),
        }
    }

    /// Renews one claim with the next batch of the node that serves it. While the keys of its lock
    /// are in two places, it keeps the lock itself, without further tokens.
    pub(in crate::redis) async fn renew(&self, renew: Renew) -> Result<Value, Fault> {
        let slot = slots::slot_of(renew.names.lock().as_bytes());
        let until = clock::now() + renew.within;
        let (mut redirects, mut pauses) = (0, 0);
        self.keep_fresh();
        loop {
            let Some(server) = self.owner(slot) else { return Err(nobody()) };
            let failure = match server.renewals.renew(renew.clone()).await {
                Ok(answer) if self.owns(slot, &server) => return Ok(answer),
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
                    return self.keep(slot, &renew, until).await;
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

    async fn keep(&self, slot: u16, renew: &Renew, until: Instant) -> Result<Value, Fault> {
        let mut command = KEEP.evalsha(1);
        command.arg(renew.names.lock()).arg(&renew.owner).arg(renew.lease_ms);
        let (script, command, lane) = (&*KEEP, &command, Lane::Renewals);
        let call = Call { slot, script, command, lane, until, unstable_until: until };
        self.follow(call).await.map_err(|unserved| unserved.fault.into_fault())
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
            let left = call.until.saturating_duration_since(clock::now());
            let answer = server.call(call.lane, call.script, call.command, asking, left).await;
            let unserved = match answer {
                Ok(answer) if asking || self.owns(call.slot, &server) => return Ok(answer),
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

    /// A node did not answer: it may be gone for good, and its slots with another.
    fn failed(&self, server: &Arc<Server>, failure: &Failure) {
        if failure.is_lasting() {
            server.pushes.check();
            self.refresh_soon();
        }
    }
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
