//! Renewals: on a connection of their own, so that nothing an application does can hold them up,
//! and in batches, as many claims at once as have come due.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use redis::Value;
use tokio::sync::{mpsc, oneshot};

use super::fault;
use super::link::Link;
use super::names::Names;
use super::script::RENEW;
use crate::backend::Fault;

/// Claims per request at most, so that none holds the server up.
const BATCH_MAX: usize = 128;

/// One claim to renew.
#[derive(Debug)]
pub(super) struct Due {
    pub(super) names: Names,
    pub(super) owner: Arc<str>,
    pub(super) lease_ms: u64,
    pub(super) fences: u32,
    pub(super) reply: oneshot::Sender<Result<Value, Fault>>,
}

/// Where claims that are due are sent.
#[derive(Debug)]
pub(super) struct Renewals {
    due: mpsc::UnboundedSender<Due>,
}

impl Renewals {
    /// Starts the task; it ends with this value.
    pub(super) fn start(link: Arc<Link>, requests: Arc<AtomicU64>) -> Self {
        let (due, mut queue) = mpsc::unbounded_channel();
        drop(tokio::spawn(async move {
            let mut batch = Vec::with_capacity(BATCH_MAX);
            // Bounded: each claim has at most one renewal under way.
            while queue.recv_many(&mut batch, BATCH_MAX).await > 0 {
                requests.fetch_add(1, Ordering::Relaxed);
                serve(&link, &mut batch).await;
            }
        }));
        Self { due }
    }

    /// Renews one claim with the next batch.
    pub(super) async fn renew(
        &self,
        due: Due,
        answer: oneshot::Receiver<Result<Value, Fault>>,
    ) -> Result<Value, Fault> {
        if self.due.send(due).is_err() {
            return Err(fault::timed_out());
        }
        answer.await.unwrap_or_else(|_| Err(fault::timed_out()))
    }
}

async fn serve(link: &Link, batch: &mut Vec<Due>) {
    let mut command = RENEW.evalsha(batch.len() * Names::count());
    for due in batch.iter() {
        due.names.add_to(&mut command);
    }
    for due in batch.iter() {
        command.arg(&*due.owner).arg(due.lease_ms).arg(due.fences);
    }
    let mut answer = link.call(&command).await;
    if answer.as_ref().is_err_and(|unserved| unserved.fault.is_no_script()) {
        answer = link.call(&RENEW.eval(&command)).await;
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
