//! Following the master that sentinels name.
//!
//! A client asks all sentinels and takes the master of the greatest epoch (`answer`). From then on
//! it has a connection to each (`watch`), listens to their messages and asks them every second.
//! The time of one master is a [`Term`], with a number of its own in this client. Each connection
//! to a server carries the number of the term that it was made in: when the term is over, what it
//! still answers does not count.
//!
//! What this cannot do is told by nobody: a client that is cut off from all sentinels together
//! with the old master goes on to use it. For that there is `min-replicas-to-write`, by which a
//! master that is left alone refuses.

mod answer;
mod ask;
mod url;
mod watch;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::task::AbortHandle;

use self::answer::{Address, Master, Poll, Report, SENTINELS_MAX};
pub(super) use self::url::Target;
use crate::backend::{Fault, FaultKind};
use crate::engine::clock;

/// What was heard longer ago than this is asked for before anything is connected to.
const FRESH_FOR: Duration = Duration::from_secs(3);

/// How long those that have not answered yet are waited for after the first that has.
const OTHERS_WITHIN: Duration = Duration::from_millis(100);

/// A sentinel that only others named, and that does not answer, is forgotten after this.
const SILENT_FOR: Duration = Duration::from_secs(60);

/// The time of one master, as this client was told of it.
#[derive(Debug, Clone)]
pub(super) struct Term {
    pub(super) number: u64,
    master: Master,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Sentinels {
    target: Target,
    known: Mutex<Known>,
    term: tokio::sync::watch::Sender<Option<Term>>,
    /// Tells the watching tasks to ask at once.
    looks: tokio::sync::watch::Sender<()>,
    /// Held while all are asked anew.
    asking: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Known {
    watched: Vec<Watched>,
    poll: Poll,
    heard: Option<Instant>,
}

#[derive(Debug)]
struct Watched {
    at: Address,
    /// The sentinel's own name, once it is known: it may have several addresses.
    id: Option<String>,
    /// Whether the URL names it.
    is_named: bool,
    heard: Instant,
    task: Option<AbortHandle>,
}

impl Sentinels {
    pub(super) fn new(target: Target) -> Arc<Self> {
        let now = clock::now();
        let watched = target.sentinels.iter().map(|at| Watched {
            at: at.clone(),
            id: None,
            is_named: true,
            heard: now,
            task: None,
        });
        let known = Known { watched: watched.collect(), ..Known::default() };
        Arc::new(Self {
            target,
            known: Mutex::new(known),
            term: tokio::sync::watch::Sender::new(None),
            looks: tokio::sync::watch::Sender::new(()),
            asking: tokio::sync::Mutex::new(()),
        })
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of the term that goes on, 0 if no master is known yet.
    pub(super) fn number(&self) -> u64 {
        self.term.borrow().as_ref().map_or(0, |term| term.number)
    }

    pub(super) fn is_current(&self, term: u64) -> bool {
        self.number() == term
    }

    /// Resolves when this term is over.
    pub(super) async fn superseded(&self, term: u64) {
        let mut terms = self.term.subscribe();
        // The sender is our own.
        let other = |now: &Option<Term>| now.as_ref().is_some_and(|now| now.number != term);
        drop(terms.wait_for(other).await);
    }

    /// Tells of each term to come; ends with this value.
    pub(super) fn terms(&self) -> tokio::sync::watch::Receiver<Option<Term>> {
        self.term.subscribe()
    }

    /// Has the sentinels asked at once, in the background.
    pub(super) fn look(&self) {
        self.looks.send_replace(());
    }

    /// A client of the master of a term.
    pub(super) fn client(&self, term: &Term) -> Result<redis::Client, Fault> {
        self.target.server(&term.master.at).map_err(super::fault::fault)
    }

    /// The term that goes on. Asks if nothing was heard of late; if nobody answers then, it is the
    /// last one that is known, as for a connection that was made in it.
    pub(super) async fn term(self: &Arc<Self>) -> Result<Term, Fault> {
        if let Some(term) = self.fresh() {
            return Ok(term);
        }
        let _one_at_a_time = self.asking.lock().await;
        if let Some(term) = self.fresh() {
            return Ok(term);
        }
        self.watch();
        let answered = self.ask_all().await;
        match (&*self.term.borrow(), answered) {
            (Some(term), _) => Ok(term.clone()),
            (None, Err(fault)) => Err(fault),
            (None, Ok(())) => Err(self.unknown()),
        }
    }

    fn fresh(&self) -> Option<Term> {
        let heard = self.known().heard?;
        let is_fresh = clock::now().saturating_duration_since(heard) < FRESH_FOR;
        is_fresh.then(|| self.term.borrow().clone()).flatten()
    }

    /// Asks all until a majority has answered, or nobody else does.
    async fn ask_all(self: &Arc<Self>) -> Result<(), Fault> {
        let all: Vec<_> = self.known().watched.iter().map(|one| one.at.clone()).collect();
        let majority = all.len() / 2 + 1;
        let mut asked: FuturesUnordered<_> = all
            .into_iter()
            .map(|at| async move { (ask::once(&self.target, &at).await, at) })
            .collect();
        let mut answered = 0;
        let mut why = None;
        let mut until = clock::now() + 2 * ask::ANSWER_WITHIN;
        while answered < majority {
            match tokio::time::timeout_at(until.into(), asked.next()).await {
                Ok(Some((Ok(report), at))) => {
                    let first = answered == 0;
                    answered += 1;
                    match report {
                        Some(report) => self.learn(&at, report),
                        None => why = why.or_else(|| Some(self.unknown())),
                    }
                    if first {
                        until = clock::now() + OTHERS_WITHIN;
                    }
                }
                Ok(Some((Err(fault), _))) => {
                    // What can't pass by itself says most.
                    let says_more = why.as_ref().is_none_or(Fault::is_transient);
                    why = if says_more { Some(fault) } else { why };
                }
                Ok(None) | Err(_) => break,
            }
        }
        why.filter(|_| self.number() == 0).map_or(Ok(()), Err)
    }

    fn unknown(&self) -> Fault {
        let what = format!("the sentinels know of no master named `{}`", self.target.master);
        Fault::new(FaultKind::Refused, what)
    }

    /// Starts the watching tasks that do not run: at first, and when the runtime that they were
    /// started in is gone.
    fn watch(self: &Arc<Self>) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let mut known = self.known();
        for one in &mut known.watched {
            if one.task.as_ref().is_none_or(AbortHandle::is_finished) {
                one.task = Some(watch::start(self, one.at.clone(), &runtime));
            }
        }
    }

    /// A sentinel has answered.
    fn learn(self: &Arc<Self>, at: &Address, report: Report) {
        let now = clock::now();
        let mut known = self.known();
        known.heard = Some(now);
        known.heard_from(at, report.id, now);
        for (other, id) in report.others {
            known.told_of(other, id, now);
        }
        known.poll.note(at, report.master, now);
        let elected = self.term.borrow().as_ref().map(|term| term.master.clone());
        let sentinels = known.watched.len();
        let other = known.poll.elect(elected.as_ref(), sentinels, now);
        if let Some(master) = other {
            if let Some(elected) = elected {
                tracing::info!(master = %master.at, before = %elected.at, "redis has another master");
            }
            // Under the mutex, so that terms come in the order in which they were elected.
            self.term.send_modify(|term| {
                let number = term.as_ref().map_or(1, |term| term.number + 1);
                *term = Some(Term { number, master });
            });
        }
        drop(known);
        self.watch();
    }

    /// Whether the watching task of a sentinel is to end.
    fn gives_up(&self, at: &Address) -> bool {
        let now = clock::now();
        let mut known = self.known();
        let lasting = known.watched.iter().any(|one| {
            let is_silent = now.saturating_duration_since(one.heard) >= SILENT_FOR;
            one.at == *at && (one.is_named || !is_silent)
        });
        if !lasting {
            known.watched.retain(|one| one.at != *at);
            known.poll.forget(at);
        }
        !lasting
    }
}

impl Known {
    /// A sentinel has answered. If it goes by another address as well, that of the URL stays.
    fn heard_from(&mut self, at: &Address, id: Option<String>, now: Instant) {
        let Some(one) = self.watched.iter_mut().find(|one| one.at == *at) else { return };
        one.heard = now;
        if one.id == id || id.is_none() {
            return;
        }
        one.id = id.clone();
        self.drop_doubles(id.as_deref());
    }

    fn drop_doubles(&mut self, id: Option<&str>) {
        let is_same = |one: &Watched| one.id.is_some() && one.id.as_deref() == id;
        if !self.watched.iter().any(|one| is_same(one) && one.is_named) {
            return;
        }
        let poll = &mut self.poll;
        self.watched.retain(|one| {
            let is_double = is_same(one) && !one.is_named;
            if is_double {
                poll.forget(&one.at);
                one.task.iter().for_each(AbortHandle::abort);
            }
            !is_double
        });
    }

    /// A sentinel was told of by another.
    fn told_of(&mut self, at: Address, id: String, now: Instant) {
        let is_known = |one: &Watched| one.at == at || one.id.as_deref() == Some(&id);
        if self.watched.len() < SENTINELS_MAX && !self.watched.iter().any(is_known) {
            self.watched.push(Watched {
                at,
                id: Some(id),
                is_named: false,
                heard: now,
                task: None,
            });
        }
    }
}

/// The client that asked is gone.
fn gone() -> Fault {
    Fault::new(FaultKind::Transient, "the connection to a sentinel is not wanted any more")
}
