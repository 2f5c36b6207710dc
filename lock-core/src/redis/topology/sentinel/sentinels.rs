//! The sentinels, who tell which server is the master now.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::task::AbortHandle;

use super::answer::{Master, Report};
use super::known::Known;
use super::target::Target;
use super::watch::Watcher;
use super::{ask, watch};
use crate::backend::io::Home;
use crate::backend::url::Host;
use crate::backend::{Fault, FaultKind};
use crate::ground::{Plus as _, clock, timeout};
use crate::proto::majority_of;

/// News older than this are asked for anew before anything is connected to.
const FRESH_FOR: Duration = Duration::from_secs(3);

/// A silence of all is shared for this long, and nobody is asked again: the known master need not
/// wait for sentinels that are away.
const SILENCE_SHARED: Duration = Duration::from_secs(1);

/// The time that the others are waited for after the first that has answered.
const OTHERS_WITHIN: Duration = Duration::from_millis(100);

/// The time of one master, as this client was told of it.
#[derive(Debug, Clone)]
pub(in crate::redis) struct Term {
    pub(in crate::redis) number: u64,
    master: Master,
}

/// Is told that there may be another master; false once it is gone.
type Told = Arc<dyn Fn() -> bool + Send + Sync>;

#[derive(Default)]
struct Follower {
    told: Option<Told>,
    /// The term that it was told of last.
    of: Arc<AtomicU64>,
    task: Option<AbortHandle>,
}

impl fmt::Debug for Follower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Follower").field("task", &self.task).finish_non_exhaustive()
    }
}

/// The sentinels of a master: what they said, and who it is by that.
#[derive(Debug)]
pub(in crate::redis) struct Sentinels {
    pub(super) target: Target,
    pub(in crate::redis) home: Arc<Home>,
    known: Mutex<Known>,
    pub(super) term: tokio::sync::watch::Sender<Option<Term>>,
    /// Tells the watching tasks to ask at once.
    pub(super) looks: tokio::sync::watch::Sender<()>,
    /// The follower that is told of each switch.
    follower: Mutex<Follower>,
    /// Held while all are asked anew.
    asking: tokio::sync::Mutex<()>,
}

impl Sentinels {
    pub(in crate::redis) fn new(target: Target, home: Arc<Home>) -> Arc<Self> {
        let known = Known::new(&target.sentinels, clock::now());
        Arc::new(Self {
            target,
            home,
            known: Mutex::new(known),
            term: tokio::sync::watch::Sender::new(None),
            looks: tokio::sync::watch::Sender::new(()),
            follower: Mutex::default(),
            asking: tokio::sync::Mutex::default(),
        })
    }

    pub(super) fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of the term that goes on, 0 if no master is known yet.
    pub(in crate::redis) fn number(&self) -> u64 {
        self.term.borrow().as_ref().map_or(0, |term| term.number)
    }

    /// Resolves when this term is over.
    pub(in crate::redis) async fn superseded(&self, term: u64) {
        let mut terms = self.term.subscribe();
        // The sender is our own.
        let other = |now: &Option<Term>| now.as_ref().is_some_and(|now| now.number != term);
        drop(terms.wait_for(other).await);
    }

    /// Tells `told` of the term that goes on, and of each switch to come; ends with this value.
    pub(in crate::redis) fn follow(
        self: &Arc<Self>,
        told: impl Fn() -> bool + Send + Sync + 'static,
    ) {
        let follower = Follower { told: Some(Arc::new(told)), ..Follower::default() };
        *self.follower.lock().unwrap_or_else(PoisonError::into_inner) = follower;
        self.watch();
    }

    /// Has the sentinels asked at once, in the background.
    pub(in crate::redis) fn look(&self) {
        self.looks.send_replace(());
    }

    /// A client of the master of a term.
    pub(in crate::redis) fn client(&self, term: &Term) -> Result<redis::Client, Fault> {
        self.target.server.client(&term.master.at)
    }

    /// The term that goes on. Asks if nothing was heard of late. If nobody answers then, it is the
    /// last term that is known, as for a connection that was made in it. At home only.
    pub(in crate::redis) async fn term(self: &Arc<Self>) -> Result<Term, Fault> {
        self.watch();
        if let Some(term) = self.fresh() {
            return Ok(term);
        }
        let _one_at_a_time = self.asking.lock().await;
        let asked = clock::now();
        if let Some(term) = self.fresh() {
            return Ok(term);
        }
        let answered = self.ask_all().await;
        if self.known().heard.is_none_or(|heard| heard < asked) {
            self.known().unheard = Some(clock::now());
        }
        match (&*self.term.borrow(), answered) {
            (Some(term), _) => Ok(term.clone()),
            (None, answered) => {
                Err(answered.err().unwrap_or_else(|| ask::silent(self.target.within)))
            }
        }
    }

    fn fresh(&self) -> Option<Term> {
        let (heard, unheard) = {
            let known = self.known();
            (known.heard, known.unheard)
        };
        let (now, term) = (clock::now(), self.term.borrow().clone());
        let since = |at: Instant, within| now.saturating_duration_since(at) < within;
        let is_fresh = heard.is_some_and(|at| since(at, FRESH_FOR))
            || unheard.is_some_and(|at| since(at, SILENCE_SHARED));
        term.filter(|_| is_fresh)
    }

    /// Asks all until a majority has named a master, or nobody else does. While none is known, the
    /// first answer alone does not do: a sentinel that is near and cut off names a former one.
    async fn ask_all(self: &Arc<Self>) -> Result<(), Fault> {
        let all: Vec<_> = self.known().watched.iter().map(|one| one.at.clone()).collect();
        let (count, majority) = (all.len(), majority_of(all.len()));
        let mut asked: FuturesUnordered<_> = all
            .into_iter()
            .map(|at| async move { (ask::once(&self.target, &at).await, at) })
            .collect();
        let (mut named, mut ignorant, mut why) = (0, 0, None);
        let (start, knew) = (clock::now(), self.number() != 0);
        // A master that is known is to be connected to in the same time.
        let mut until = start.plus(if knew { 1 } else { 2 } * self.target.within);
        while named < majority {
            match timeout::by(until, asked.next()).await {
                Ok(Some((Ok(Some(report)), at))) => {
                    self.learn(&at, report);
                    named += 1;
                    until = match knew {
                        true => until.min(clock::now().plus(OTHERS_WITHIN)),
                        // So is the one that is named now.
                        false => start.plus(self.target.within),
                    };
                }
                // It is new, or a switch came in between. Another may know.
                Ok(Some((Ok(None), _))) => ignorant += 1,
                Ok(Some((Err(fault), _))) => {
                    // A fault that can't pass by itself says most.
                    let says_more = why.as_ref().is_none_or(Fault::is_transient);
                    why = if says_more { Some(fault) } else { why };
                }
                Ok(None) | Err(_) => break,
            }
        }
        if self.number() != 0 {
            return Ok(());
        }
        match why {
            Some(fault) if !fault.is_transient() || ignorant == 0 => Err(fault),
            _ if ignorant == 0 => Err(ask::silent(self.target.within)),
            _ => Err(self.unknown_to(ignorant, count)),
        }
    }

    /// So many of `count` sentinels know of no such master. Those that are silent may.
    fn unknown_to(&self, ignorant: usize, count: usize) -> Fault {
        let (kind, who) = match ignorant < count {
            true => (FaultKind::Transient, "the sentinels that answer"),
            false => (FaultKind::Refused, "the sentinels"),
        };
        Fault::new(kind, format!("{who} know of no master named `{}`", self.target.master))
    }

    /// Starts the watching tasks that do not run.
    fn watch(self: &Arc<Self>) {
        let runs = |task: &Option<AbortHandle>| task.as_ref().is_some_and(|it| !it.is_finished());
        let mut known = self.known();
        for one in known.watched.iter_mut().filter(|one| !runs(&one.task)) {
            let (at, client, looks) =
                (one.at.clone(), self.term.subscribe(), self.looks.subscribe());
            one.task = Some(watch::start(&self.home, self, at, client, looks));
        }
        drop(known);
        let mut follower = self.follower.lock().unwrap_or_else(PoisonError::into_inner);
        if !runs(&follower.task)
            && let Some(told) = follower.told.clone()
        {
            let telling = tell(told, follower.of.clone(), self.term.subscribe());
            follower.task = Some(self.home.spawn(telling).abort_handle());
        }
    }
}

impl Watcher for Sentinels {
    fn target(&self) -> &Target {
        &self.target
    }

    fn learn(self: &Arc<Self>, at: &Host, report: Report) {
        let now = clock::now();
        let mut known = self.known();
        known.heard = Some(now);
        known.heard_from(at, report.id, now);
        for (other, id) in report.others {
            known.told_of(other, id, now);
        }
        let voter = known.voter(at).clone();
        known.poll.note(&voter, report.master, now);
        let before = known.elected.clone();
        let sentinels = known.voters(now);
        let elected = known.poll.elect(before.as_ref(), sentinels, now);
        if let Some(master) = &elected {
            known.terms += 1;
            known.elected = Some(master.clone());
        }
        let number = known.terms;
        drop(known);
        // Without the mutex: a waker or a subscriber may do anything.
        if let Some(master) = elected {
            if let Some(before) = before {
                tracing::info!(master = %master.at, before = %before.at, "redis has another master");
            }
            self.term.send_if_modified(|term| {
                // Masters are told in the order in which they were elected.
                let is_later = term.as_ref().is_none_or(|term| term.number < number);
                if is_later {
                    *term = Some(Term { number, master });
                }
                is_later
            });
        }
        self.watch();
    }

    fn gives_up(&self, at: &Host) -> bool {
        self.known().forget_silent(at, clock::now())
    }
}

async fn tell(
    told: Told,
    of: Arc<AtomicU64>,
    mut terms: tokio::sync::watch::Receiver<Option<Term>>,
) {
    loop {
        // The follower is told at first, too: there may have been a switch since the last one to
        // tell was gone.
        let term = terms.borrow_and_update().as_ref().map_or(0, |term| term.number);
        if of.swap(term, Ordering::AcqRel) != term && !told() {
            return;
        }
        if terms.changed().await.is_err() {
            return;
        }
    }
}
