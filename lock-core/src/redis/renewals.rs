//! Renewals: on a connection of their own, so that nothing an application does can hold them up,
//! and in batches, as many claims at once as have come due.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redis::{Cmd, Pipeline, Value};
use tokio::sync::{mpsc, oneshot};

use super::link::{Failure, Link, REQUEST_WITHIN};
use super::names::Names;
use super::script::RENEW;
use super::{cluster, fault};

/// Claims per request at most, so that none holds the server up.
const BATCH_MAX: usize = 128;

/// One claim to renew.
#[derive(Debug, Clone)]
pub(super) struct Renew {
    pub(super) names: Names,
    pub(super) owner: String,
    pub(super) lease_ms: u64,
    pub(super) fence_ms: u64,
    pub(super) fences: u32,
    /// How long the store has to answer, so that there is time for another try.
    pub(super) within: Duration,
}

#[derive(Debug)]
struct Due {
    renew: Renew,
    reply: oneshot::Sender<Result<Value, Failure>>,
}

/// What one call may renew.
#[derive(Debug, Clone, Copy)]
pub(super) enum Shape {
    /// Any claims together.
    Whole,
    /// The claims of one slot.
    BySlot,
}

/// Where claims that are due are sent.
#[derive(Debug)]
pub(super) struct Renewals {
    link: Arc<Link>,
    requests: Arc<AtomicU64>,
    shape: Shape,
    due: Mutex<mpsc::UnboundedSender<Due>>,
}

impl Renewals {
    /// Starts the task; it ends with this value.
    pub(super) fn start(link: Arc<Link>, requests: Arc<AtomicU64>, shape: Shape) -> Self {
        let due = Mutex::new(task(link.clone(), requests.clone(), shape));
        Self { link, requests, shape, due }
    }

    pub(super) fn link(&self) -> &Arc<Link> {
        &self.link
    }

    /// Renews one claim with the next batch.
    pub(super) async fn renew(&self, renew: Renew) -> Result<Value, Failure> {
        let (reply, answer) = oneshot::channel();
        self.send(Due { renew, reply });
        // The task may go with its runtime.
        answer.await.unwrap_or_else(|_| Err(Failure::Other(fault::timed_out(REQUEST_WITHIN))))
    }

    /// There is another master.
    pub(super) fn follow(&self) {
        self.link.follow();
    }

    fn send(&self, due: Due) {
        let mut sender = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(mpsc::error::SendError(due)) = sender.send(due) {
            // The runtime that the client was made in is gone; this one lives.
            *sender = task(self.link.clone(), self.requests.clone(), self.shape);
            drop(sender.send(due));
        }
    }
}

fn task(link: Arc<Link>, requests: Arc<AtomicU64>, shape: Shape) -> mpsc::UnboundedSender<Due> {
    let (due, mut queue) = mpsc::unbounded_channel();
    drop(tokio::spawn(async move {
        let mut batch = Vec::with_capacity(BATCH_MAX);
        // Bounded: each claim has at most one renewal under way.
        while queue.recv_many(&mut batch, BATCH_MAX).await > 0 {
            requests.fetch_add(1, Ordering::Relaxed);
            match shape {
                Shape::Whole => serve(&link, &mut batch).await,
                Shape::BySlot => serve_by_slot(&link, &mut batch).await,
            }
        }
    }));
    due
}

fn within(batch: &[Due]) -> Duration {
    batch.iter().map(|due| due.renew.within).min().unwrap_or(REQUEST_WITHIN)
}

fn command(batch: &[Due]) -> Cmd {
    let mut command = RENEW.evalsha(batch.len() * Names::count());
    for due in batch {
        due.renew.names.add_to(&mut command);
    }
    for Due { renew, .. } in batch {
        command.arg(&renew.owner).arg(renew.lease_ms).arg(renew.fences).arg(renew.fence_ms);
    }
    command
}

async fn serve(link: &Arc<Link>, batch: &mut Vec<Due>) {
    let (command, within) = (command(batch), within(batch));
    let mut answer = link.call(&command, within).await;
    if answer.as_ref().is_err_and(|unserved| unserved.fault.is_no_script()) {
        answer = link.call(&RENEW.eval(&command), within).await;
    }
    tell(batch.drain(..), answer.map_err(|unserved| unserved.fault));
}

/// One call per slot, all sent together.
async fn serve_by_slot(link: &Arc<Link>, batch: &mut Vec<Due>) {
    let within = within(batch);
    let slot = |due: &Due| cluster::slot_of(due.renew.names.lock().as_bytes());
    batch.sort_by_cached_key(slot);
    let sizes: Vec<_> = batch.chunk_by(|a, b| slot(a) == slot(b)).map(<[Due]>::len).collect();
    let mut calls = Pipeline::new();
    let mut commands = Vec::with_capacity(sizes.len());
    for claims in batch.chunk_by(|a, b| slot(a) == slot(b)) {
        commands.push(command(claims));
        calls.add_command(command(claims));
    }
    let mut answers = link.call_each(&calls, within).await.map_err(|unserved| unserved.fault);
    let no_script = |answer: &Value| {
        let failure = answer.clone().extract_error().err().map(Failure::Server);
        failure.is_some_and(|failure| failure.is_no_script())
    };
    if answers.as_ref().is_ok_and(|answers| answers.iter().any(no_script)) {
        // A renewal that is made twice is no harm.
        calls.clear();
        for command in &commands {
            calls.add_command(RENEW.eval(command));
        }
        answers = link.call_each(&calls, within).await.map_err(|unserved| unserved.fault);
    }
    let mut answers = answers.map(Vec::into_iter);
    for size in sizes {
        let answer = match &mut answers {
            Ok(answers) => match answers.next() {
                Some(answer) => answer.extract_error().map_err(Failure::Server),
                None => Err(Failure::Other(fault::strange("a renewal"))),
            },
            Err(failure) => Err(failure.clone()),
        };
        tell(batch.drain(..size), answer);
    }
}

fn tell(batch: impl ExactSizeIterator<Item = Due>, answer: Result<Value, Failure>) {
    // A driver may be gone with its runtime.
    match answer {
        Ok(Value::Array(answers)) if answers.len() == batch.len() => {
            for (due, answer) in batch.zip(answers) {
                drop(due.reply.send(Ok(answer)));
            }
        }
        Ok(_) => {
            for due in batch {
                drop(due.reply.send(Err(Failure::Other(fault::strange("a renewal")))));
            }
        }
        Err(failure) => {
            for due in batch {
                drop(due.reply.send(Err(failure.clone())));
            }
        }
    }
}
