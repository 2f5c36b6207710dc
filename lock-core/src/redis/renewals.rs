//! Renewals: on a connection of their own, so that nothing an application does can hold them up,
//! and in batches, as many claims at once as have come due.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redis::Value;
use tokio::sync::{mpsc, oneshot};

use super::fault;
use super::link::{Link, REQUEST_WITHIN};
use super::names::Names;
use super::script::RENEW;
use crate::backend::Fault;

/// Claims per request at most, so that none holds the server up.
const BATCH_MAX: usize = 128;

/// One claim to renew.
#[derive(Debug)]
pub(super) struct Due {
    pub(super) names: Names,
    pub(super) owner: String,
    pub(super) lease_ms: u64,
    pub(super) fence_ms: u64,
    pub(super) fences: u32,
    /// How long the store has to answer, so that there is time for another try.
    pub(super) within: Duration,
    pub(super) reply: oneshot::Sender<Result<Value, Fault>>,
}

/// Where claims that are due are sent.
#[derive(Debug)]
pub(super) struct Renewals {
    link: Arc<Link>,
    requests: Arc<AtomicU64>,
    due: Mutex<mpsc::UnboundedSender<Due>>,
}

impl Renewals {
    /// Starts the task; it ends with this value.
    pub(super) fn start(link: Arc<Link>, requests: Arc<AtomicU64>) -> Self {
        let due = Mutex::new(task(link.clone(), requests.clone()));
        Self { link, requests, due }
    }

    /// Renews one claim with the next batch.
    pub(super) async fn renew(
        &self,
        due: Due,
        answer: oneshot::Receiver<Result<Value, Fault>>,
    ) -> Result<Value, Fault> {
        self.send(due);
        // The task may go with its runtime.
        answer.await.unwrap_or_else(|_| Err(fault::timed_out(REQUEST_WITHIN)))
    }

    /// There is another master.
    pub(super) fn follow(&self) {
        self.link.follow();
    }

    fn send(&self, due: Due) {
        let mut sender = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(mpsc::error::SendError(due)) = sender.send(due) {
            // The runtime that the client was made in is gone; this one lives.
            *sender = task(self.link.clone(), self.requests.clone());
            drop(sender.send(due));
        }
    }
}

fn task(link: Arc<Link>, requests: Arc<AtomicU64>) -> mpsc::UnboundedSender<Due> {
    let (due, mut queue) = mpsc::unbounded_channel();
    drop(tokio::spawn(async move {
        let mut batch = Vec::with_capacity(BATCH_MAX);
        // Bounded: each claim has at most one renewal under way.
        while queue.recv_many(&mut batch, BATCH_MAX).await > 0 {
            requests.fetch_add(1, Ordering::Relaxed);
            serve(&link, &mut batch).await;
        }
    }));
    due
}

async fn serve(link: &Arc<Link>, batch: &mut Vec<Due>) {
    let mut command = RENEW.evalsha(batch.len() * Names::count());
    for due in batch.iter() {
        due.names.add_to(&mut command);
    }
    for due in batch.iter() {
        command.arg(&due.owner).arg(due.lease_ms).arg(due.fences).arg(due.fence_ms);
    }
    let within = batch.iter().map(|due| due.within).min().unwrap_or(REQUEST_WITHIN);
    let mut answer = link.call(&command, within).await;
    if answer.as_ref().is_err_and(|unserved| unserved.fault.is_no_script()) {
        answer = link.call(&RENEW.eval(&command), within).await;
    }
    match answer {
        Ok(Value::Array(answers)) if answers.len() == batch.len() => {
            for (due, answer) in batch.drain(..).zip(answers) {
                // The driver may be gone with its runtime.
                drop(due.reply.send(Ok(answer)));
            }
        }
        Ok(_) => {
            for due in batch.drain(..) {
                drop(due.reply.send(Err(fault::strange("a renewal"))));
            }
        }
        Err(unserved) => {
            let fault = unserved.fault.into_fault();
            for due in batch.drain(..) {
                drop(due.reply.send(Err(fault.clone())));
            }
        }
    }
}
