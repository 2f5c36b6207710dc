//! Learning who serves what.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use redis::{Cmd, FromRedisValue as _};

use super::Cluster;
use super::State;
use super::layout::{self, Addr, Master};
use crate::backend::{Fault, FaultKind};
use crate::ground::{Plus as _, clock, timeout};
use crate::redis::wire::fault;
use crate::redis::wire::request::REQUEST_WITHIN;

/// The time between two looks, whatever happens.
const BETWEEN: Duration = Duration::from_millis(100);

/// A client in use looks as often as this, or up to half as often again.
const EVERY: Duration = Duration::from_secs(4);

/// Nodes that are asked at the same time: one of them may be cut off, and not know.
const ASKED_AT_ONCE: usize = 3;

/// The time that the others are waited for after the first that answers.
const OTHERS_WITHIN: Duration = Duration::from_millis(100);

/// A node that takes longer is not waited for.
pub(super) const NODE_WITHIN: Duration = Duration::from_secs(1);

/// Marks the end of a look, however it ends.
struct Looking(Arc<Cluster>);

impl Drop for Looking {
    fn drop(&mut self) {
        self.0.looking.store(false, Ordering::Release);
    }
}

impl Cluster {
    /// Looks if the last look was long ago.
    pub(super) fn keep_fresh(&self) {
        let due = self.look_at.lock().unwrap_or_else(PoisonError::into_inner).1;
        if due.is_none_or(|due| clock::now() >= due) {
            self.refresh_soon();
        }
    }

    /// Looks in the background, now or a moment later. One look at a time.
    pub(super) fn refresh_soon(&self) {
        let Some(this) = self.this.upgrade() else { return };
        if self.looking.swap(true, Ordering::AcqRel) {
            return;
        }
        let looking = Looking(this);
        drop(self.home.spawn(async move {
            let last = looking.0.look_at.lock().unwrap_or_else(PoisonError::into_inner).0;
            if let Some(last) = last {
                clock::alarm(last.plus(BETWEEN)).await;
            }
            drop(timeout::within(REQUEST_WITHIN * 2, looking.0.look()).await);
            looking.0.check_pushes();
            let now = clock::now();
            let jitter = EVERY.mul_f64(f64::from(clock::random_bits()) / f64::from(u32::MAX) / 2.0);
            *looking.0.look_at.lock().unwrap_or_else(PoisonError::into_inner) =
                (Some(now), Some(now.plus(EVERY).plus(jitter)));
        }));
    }

    /// Sees whether the connections for pushes still carry something. Nothing else is sent there,
    /// so one that was dropped on the way without a word would be taken for a quiet one.
    fn check_pushes(&self) {
        for server in self.state().servers.values() {
            server.pushes.check();
        }
    }

    /// Looks now, whatever becomes of the caller. Those who ask while a look is under way share the
    /// next one, which begins after they asked: what is answered right after a stall would otherwise
    /// have the nodes asked as often as there are answers.
    pub(super) async fn look_now(&self) -> Result<(), Fault> {
        let Some(this) = self.this.upgrade() else { return Ok(()) };
        let asked = clock::now();
        let looking = self.home.run(REQUEST_WITHIN, async move { this.look_since(asked).await });
        looking.await.unwrap_or_else(|_| Err(fault::timed_out(REQUEST_WITHIN)))
    }

    /// The outcome of a look that began then or later.
    async fn look_since(&self, asked: Instant) -> Result<(), Fault> {
        let mut looked = self.looked.lock().await;
        if let Some((began, came)) = &*looked
            && *began >= asked
        {
            return came.clone();
        }
        let began = clock::now();
        let came = self.look().await;
        *looked = Some((began, came.clone()));
        came
    }

    /// Asks the masters, and if none answers the nodes of the URL.
    async fn look(&self) -> Result<(), Fault> {
        let mut masters = self.state().table.masters().to_vec();
        let mut seeds = self.seeds.clone();
        seeds.retain(|seed| !masters.contains(seed));
        for nodes in [&mut masters, &mut seeds] {
            for last in (1..nodes.len()).rev() {
                nodes.swap(last, clock::random_bits() as usize % (last + 1));
            }
        }
        masters.append(&mut seeds);
        let mut why = Fault::new(FaultKind::Transient, "no node of the cluster answered in time");
        for nodes in masters.chunks(ASKED_AT_ONCE) {
            let mut answers: FuturesUnordered<_> =
                nodes.iter().map(|addr| self.ask(addr.clone())).collect();
            let (mut all, mut until) = (Vec::new(), clock::now().plus(REQUEST_WITHIN));
            while let Ok(Some(answer)) = timeout::by(until, answers.next()).await {
                match answer {
                    Ok(told) => {
                        self.learn(&told);
                        if all.is_empty() {
                            until = clock::now().plus(OTHERS_WITHIN);
                        }
                        all.push(told);
                    }
                    // A refusal for good tells more than a node that is away.
                    Err(fault) if why.is_transient() => why = fault,
                    Err(_) => {}
                }
            }
            if !all.is_empty() {
                drop(answers);
                self.bury(&all).await;
                return Ok(());
            }
        }
        Err(why)
    }

    /// Forgets owners of slots that two answers or more do not know as such, and that do not answer
    /// themselves. This is for a cluster that was made anew, which begins with early epochs. An
    /// owner that lives is believed rather than those that may have been cut off with a master that
    /// it succeeded.
    pub(super) async fn bury(&self, told: &[Vec<Master>]) {
        if told.len() < 2 {
            return;
        }
        let unnamed = self.state().table.unnamed(told);
        let asked = unnamed.into_iter().map(async |addr| (self.ask(addr.clone()).await, addr));
        let mut asked: FuturesUnordered<_> = asked.collect();
        while let Some((answer, addr)) = asked.next().await {
            match answer {
                Ok(its) => self.learn(&its),
                Err(fault) if !fault.is_transient() => {}
                Err(_) => {
                    // Whoever is forgotten has no slots, so what is learnt next has no owner before
                    // it: these are to be told here that they have another one.
                    let slots = self.needed_at(&addr);
                    self.state().table.forget(&addr);
                    told.iter().for_each(|told| self.learn(told));
                    self.state().moved = Some(clock::now());
                    self.stir(&slots);
                }
            }
        }
    }

    async fn ask(&self, addr: Addr) -> Result<Vec<Master>, Fault> {
        let Some(server) = self.server(addr.clone()) else { return Err(fault::strange("nothing")) };
        let mut command = Cmd::new();
        command.arg("CLUSTER").arg("NODES");
        self.session.count();
        let asking = timeout::within(NODE_WITHIN, server.send(&command, REQUEST_WITHIN));
        let answer = asking.await.map_err(|_| fault::timed_out(NODE_WITHIN))?;
        let answer = answer.map_err(|unserved| not_a_cluster(unserved.fault.into_fault()))?;
        let text = String::from_redis_value(answer).unwrap_or_default();
        layout::parse(&text, &addr, self.access.tls)
            .ok_or_else(|| fault::strange("what its nodes are"))
    }

    pub(super) fn learn(&self, told: &[Master]) {
        let mut slots: Vec<_> = self.needed().keys().copied().collect();
        let mut state = self.state();
        let State { table, moved, servers } = &mut *state;
        let owners: Vec<_> = slots.iter().map(|slot| table.owner(*slot).cloned()).collect();
        if table.learn(told) {
            *moved = Some(clock::now());
        }
        // Others were asked on the way, or are masters no more: their connections go.
        servers.retain(|addr, _| table.masters().contains(addr));
        let mut owners = owners.iter();
        slots.retain(|slot| {
            let last = owners.next().and_then(Option::as_ref);
            last.is_some() && last != table.owner(*slot)
        });
        drop(state);
        self.stir(&slots);
        self.listen_everywhere();
    }
}

/// The fault of a server that is no node of a cluster, in words that help.
fn not_a_cluster(fault: Fault) -> Fault {
    if !fault.to_string().contains("cluster support disabled") {
        return fault;
    }
    Fault::new(FaultKind::Refused, "the server is not a node of a cluster: use `redis://`")
}

#[cfg(test)]
mod tests {
    use std::future::Future as _;
    use std::pin::pin;
    use std::sync::Mutex;
    use std::sync::atomic::AtomicUsize;
    use std::task::{Context, Waker};

    use futures_util::future::join_all;

    use super::super::Target;
    use super::*;
    use crate::redis::wire::fake;

    /// This is so right after a stall. All that was under way is answered at once, and none of it
    /// counts before a look that begins behind its answer.
    #[tokio::test]
    async fn those_who_look_at_the_same_time_share_a_look_that_begins_behind_them() {
        let (looks, own) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(0)));
        // No answer is given while this is held.
        let answers = Arc::new(Mutex::new(()));
        let (counted, port, answered) = (looks.clone(), own.clone(), answers.clone());
        let port_now = fake::start(move |words| match words {
            ["CLUSTER", "NODES"] => {
                counted.fetch_add(1, Ordering::SeqCst);
                drop(answered.lock());
                let nodes = format!(
                    "a 127.0.0.1:{}@1 master - 0 0 1 connected 0-16383",
                    port.lock().unwrap()
                );
                Some(fake::text(&nodes))
            }
            _ => Some("+OK\r\n".into()),
        });
        *own.lock().unwrap() = port_now;
        let cluster = Cluster::at_nobody(Target::at(port_now));
        cluster.look_now().await.unwrap();
        assert_eq!(looks.swap(0, Ordering::SeqCst), 1);
        let mut all = pin!(join_all((0..64).map(|_| cluster.look_now())));
        {
            let _unanswered = answers.lock().unwrap();
            assert!(all.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
        for answer in all.await {
            answer.unwrap();
        }
        // The first was under way when the others came.
        let shared = looks.swap(0, Ordering::SeqCst);
        assert!((1..=2).contains(&shared), "{shared} looks");
        cluster.look_now().await.unwrap();
        assert_eq!(looks.load(Ordering::SeqCst), 1, "what was before does not count");
    }
}
