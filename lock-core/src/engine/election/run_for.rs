//! The future that waits to lead.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::runtime::Handle;

use super::super::ask::{Acquire, Plan};
use super::super::key::Shared;
use super::Term;
use crate::backend::Fault;
use crate::error::{AcquireError, UnavailableError};
use crate::ground::{FAULT_PAUSES, clock, clock::Alarm};
use crate::key::{Key, KeyError};
use crate::options::LockOptions;
use crate::rejection::Rejection;

/// Waits to lead; made by [`Election::run_for`](crate::Election::run_for).
///
/// # Cancel safety
///
/// Dropping it leaves the line. A term that had begun meanwhile is given up.
#[derive(Debug)]
#[must_use = "futures do nothing unless awaited"]
pub struct RunFor {
    acquire: Acquire,
    /// Makes the next one, at the end of the longest wait that there is.
    again: Candidate,
    refused: Option<Rejection>,
    /// Before the next one, after the store has failed so often.
    pause: Option<Pin<Box<Alarm>>>,
    failures: u32,
}

/// A candidate in an election.
#[derive(Debug)]
struct Candidate {
    shared: Arc<Shared>,
    key: Result<Key, KeyError>,
    options: LockOptions,
    value: Arc<str>,
}

impl Candidate {
    fn acquire(&self) -> Acquire {
        let plan = Plan::new(self.shared.clone(), self.options);
        Acquire::new(plan, self.key.clone()).publishing(self.value.clone())
    }

    fn unavailable(&self, fault: Fault) -> AcquireError {
        match &self.key {
            Ok(key) => UnavailableError::new(key.clone(), fault).into(),
            Err(error) => error.clone().into(),
        }
    }
}

impl RunFor {
    pub(crate) fn new(
        shared: Arc<Shared>,
        key: Result<Key, KeyError>,
        options: LockOptions,
        value: Arc<str>,
        refused: Option<Rejection>,
    ) -> Self {
        let again = Candidate { shared, key, options, value };
        Self { acquire: again.acquire(), again, refused, pause: None, failures: 0 }
    }
}

impl Future for RunFor {
    type Output = Result<Term, AcquireError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if let Some(refused) = this.refused.take() {
            return Poll::Ready(Err(refused.into()));
        }
        loop {
            if let Some(pause) = &mut this.pause {
                let lent = match this.again.shared.lent_runtime() {
                    Ok(lent) => lent,
                    Err(fault) => return Poll::Ready(Err(this.again.unavailable(fault))),
                };
                let _entered = lent.as_ref().map(Handle::enter);
                ready!(pause.as_mut().poll(cx));
                this.pause = None;
            }
            match ready!(Pin::new(&mut this.acquire).poll(cx)) {
                Ok(guard) => return Poll::Ready(Ok(Term::new(guard, this.again.value.clone()))),
                Err(error) if this.again.options.wait.is_zero() || !error.is_retryable() => {
                    return Poll::Ready(Err(error));
                }
                Err(error) => {
                    this.failures = if error.is_timeout() { 0 } else { this.failures + 1 };
                    this.acquire = this.again.acquire();
                    if !error.is_timeout() {
                        let pause = FAULT_PAUSES.pause(this.failures, clock::random_bits());
                        this.pause = Some(Box::pin(clock::alarm_in(pause)));
                    }
                }
            }
        }
    }
}
