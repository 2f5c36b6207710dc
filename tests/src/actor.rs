//! A caller of locks that writes down what it does.

use std::sync::Arc;
use std::time::Duration;

use lock_core::error::{DowngradeError, ReleaseError};
use lock_core::{AcquireError, LockClient, LockGuard};
use tokio::sync::OnceCell;

use crate::history::{Fun, Process, Recorder};
use crate::resource::FencedRegister;
use crate::stalls::Stopwatch;
use crate::wait::within;

/// A caller in this process that writes down what it does.
#[derive(Debug, Clone)]
pub struct Actor {
    /// The client that it calls.
    pub locks: LockClient,
    name: String,
    process: Process,
    url: String,
    /// Connected at the first write.
    register: Arc<OnceCell<FencedRegister>>,
}

impl Actor {
    /// A caller of `locks` that is called `name` in the history of `recorder`, and writes to the
    /// register at the Redis `url`.
    #[must_use]
    pub fn new(recorder: &Recorder, name: &str, locks: &LockClient, url: String) -> Self {
        let process = recorder.process(name);
        let (locks, name) = (locks.clone(), name.to_owned());
        Actor { locks, name, process, url, register: Arc::default() }
    }

    /// Waits for `key`; also how long that took, less what the machine took of it.
    ///
    /// # Errors
    ///
    /// As the acquire itself.
    ///
    /// # Panics
    ///
    /// If `wait` is too long for 64 bits of milliseconds.
    pub async fn acquire(
        &self,
        key: &str,
        wait: Duration,
    ) -> (Result<LockGuard, AcquireError>, Duration) {
        let budget = u64::try_from(wait.as_millis()).expect("a short wait");
        let call = self.process.invoke(Fun::Acquire, key).budget_ms(budget).begin();
        let start = Stopwatch::start();
        let answer = self.locks.lock(key).wait(wait).await;
        match &answer {
            Ok(guard) => call.granted(self.locks.defaults().mode, guard),
            Err(error) if error.is_unavailable() => call.info(),
            Err(_) => call.fail(),
        }
        (answer, start.own())
    }

    /// Takes `key` if nobody holds it.
    ///
    /// # Errors
    ///
    /// As the acquire itself.
    pub async fn try_acquire(&self, key: &str) -> Result<Option<LockGuard>, AcquireError> {
        let call = self.process.invoke(Fun::Acquire, key).begin();
        let answer = self.locks.lock(key).try_acquire().await;
        match &answer {
            Ok(Some(guard)) => call.granted(self.locks.defaults().mode, guard),
            Ok(None) => call.fail(),
            Err(_) => call.info(),
        }
        answer
    }

    /// Gives the lock up.
    ///
    /// # Errors
    ///
    /// As the release itself.
    pub async fn release(&self, guard: LockGuard) -> Result<(), ReleaseError> {
        let (key, token) = (guard.key().to_string(), guard.token().get());
        let call = self.process.invoke(Fun::Release, &key).token(token).begin();
        let answer = guard.release().await;
        match &answer {
            Ok(()) => call.ok(None),
            Err(ReleaseError::NotHeld { .. }) => call.fail(),
            Err(_) => call.info(),
        }
        answer
    }

    /// Lets readers in.
    ///
    /// # Errors
    ///
    /// As the downgrade itself.
    pub async fn downgrade(&self, guard: &LockGuard) -> Result<(), DowngradeError> {
        self.process.downgrades(guard.key().as_str(), guard.token().get());
        guard.downgrade().await
    }

    /// A fenced write under the guard's token; whether it was accepted.
    ///
    /// # Panics
    ///
    /// If the register cannot be reached.
    pub async fn write(&self, guard: &LockGuard) -> bool {
        let (key, token) = (guard.key().to_string(), guard.token().get());
        let call = self.process.invoke(Fun::Write, &key).token(token).begin();
        let connect = FencedRegister::connect(&self.url);
        let register = self.register.get_or_try_init(|| connect).await.expect("the register");
        let accepted = register.write(&key, token, &self.name).await.expect("the register");
        if accepted {
            call.ok(None)
        } else {
            call.fail()
        }
        accepted
    }

    /// Waits for the loss, and writes down that it was told.
    ///
    /// # Panics
    ///
    /// After [`PATIENCE`](crate::wait::PATIENCE).
    pub async fn lost(&self, guard: &LockGuard) -> lock_core::error::LostError {
        let error = within("the loss", guard.lost()).await;
        self.process.lost(guard.key().as_str(), guard.token().get());
        error
    }
}
