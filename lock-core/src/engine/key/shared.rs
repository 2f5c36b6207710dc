//! State that all keys of one client share.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use super::closed::Closed;
use crate::backend::{Capabilities, DynBackend, Fault, FaultKind};
use crate::engine::conduct::{Conductor, Kept};
use crate::ground::clock::{self, Alarm};
use crate::ground::{Plus as _, background, foreign};
use crate::key::{Key, KeyError};
use crate::options::{Background, LockOptions};

/// Questions who holds a key that a client has under way at most.
const RIVALS_MAX: usize = 8;

/// State that the handles, guards and keys `K` of one client share.
pub(crate) struct SharedBy<K> {
    pub(crate) backend: Arc<dyn DynBackend>,
    pub(crate) capabilities: Capabilities,
    pub(crate) defaults: LockOptions,
    pub(crate) waiters_per_key_max: usize,
    /// The word of claims about who asks.
    pub(crate) label: Option<&'static str>,
    pub(in crate::engine) conductor: Arc<Conductor<K>>,
    pub(super) closed: AtomicBool,
    /// The last handle of the client was dropped.
    pub(super) forsaken: AtomicBool,
    /// Poked once, after `closed` was set. A flag of its own is what every acquire reads.
    pub(super) closing: Arc<Notify>,
    /// Questions who holds a key may be under way, see [`rival_turn`](Self::rival_turn).
    rivals: Arc<Semaphore>,
    /// Withdrawals under way in the background.
    leaving: AtomicUsize,
    /// Poked when a key or a background withdrawal is done.
    quiet: Notify,
}

impl<K: Kept> SharedBy<K> {
    pub(crate) fn new(
        backend: Arc<dyn DynBackend>,
        defaults: LockOptions,
        waiters_per_key_max: usize,
        background: Option<Background>,
        label: Option<&'static str>,
    ) -> Self {
        let capabilities = backend.capabilities();
        let usual = if capabilities.in_process { Background::Runtime } else { Background::Thread };
        Self {
            conductor: Arc::new(Conductor::new(background.unwrap_or(usual))),
            capabilities,
            backend,
            defaults,
            waiters_per_key_max,
            label,
            closed: AtomicBool::new(false),
            forsaken: AtomicBool::new(false),
            closing: Arc::default(),
            rivals: Arc::new(Semaphore::new(RIVALS_MAX)),
            leaving: AtomicUsize::new(0),
            quiet: Notify::new(),
        }
    }

    /// A key that the store has room for.
    pub(crate) fn checked(&self, key: Result<Key, KeyError>) -> Result<Key, KeyError> {
        key.and_then(|key| self.capabilities.check_key(&key).map(|()| key))
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// The runtime that whoever polls without one is lent, for timers and connections: the
    /// conductor's. `None` where there is one here.
    pub(in crate::engine) fn lent_runtime(&self) -> Result<Option<Handle>, Fault> {
        if background::is_here() || clock::runtime().is_some() {
            return Ok(None);
        }
        self.conductor.runtime(true).map(Some).ok_or_else(|| {
            let what =
                "there is no runtime with timers here, and no thread for one could be started";
            Fault::new(FaultKind::Transient, what)
        })
    }

    /// A timer for whoever polls it; none where there is no runtime for one.
    pub(in crate::engine) fn sleep_until(self: &Arc<Self>, at: Instant) -> Option<TimerBy<K>> {
        self.lent_runtime().ok()?;
        Some(TimerBy { shared: self.clone(), alarm: Box::pin(clock::alarm(at)) })
    }

    /// A turn to ask who holds a key. Waits for many keys may end at once, and are not to fill the
    /// store's connections with questions before they withdraw.
    pub(super) fn rival_turn(&self) -> Option<OwnedSemaphorePermit> {
        self.rivals.clone().try_acquire_owned().ok()
    }

    /// A key is idle again.
    pub(super) fn is_quieter(&self) {
        foreign::call(|| self.quiet.notify_waiters());
    }

    /// Something leaves the store in the background, as long as this is there.
    pub(in crate::engine) fn leave(self: &Arc<Self>) -> Leaving<K> {
        self.leaving.fetch_add(1, Ordering::AcqRel);
        Leaving(self.clone())
    }

    pub(in crate::engine) fn is_forsaken(&self) -> bool {
        self.forsaken.load(Ordering::Acquire)
    }

    /// Resolves when it is closed.
    pub(crate) fn closed(&self) -> Closed {
        // It has what is poked from here on, so a `close` meanwhile is seen by the one or the
        // other.
        let told = self.closing.clone().notified_owned();
        Closed::new((!self.is_closed()).then_some(told))
    }

    /// Waits until no key is busy and no withdrawal is under way, at most `within`.
    pub(crate) async fn quiet(self: &Arc<Self>, within: Duration) -> bool {
        let wait = async {
            loop {
                let mut poked = std::pin::pin!(self.quiet.notified());
                poked.as_mut().enable();
                if self.conductor.registry.is_empty() && self.leaving.load(Ordering::Acquire) == 0 {
                    return;
                }
                poked.await;
            }
        };
        let Some(timer) = self.sleep_until(clock::now().plus(within)) else { return false };
        tokio::select! {
            biased;
            () = wait => {
                self.conductor.has_no_keys();
                true
            }
            () = timer => false,
        }
    }
}

/// Counts itself out even if its runtime drops it.
pub(in crate::engine) struct Leaving<K>(Arc<SharedBy<K>>);

impl<K> Drop for Leaving<K> {
    fn drop(&mut self) {
        self.0.leaving.fetch_sub(1, Ordering::AcqRel);
        foreign::call(|| self.0.quiet.notify_waiters());
    }
}

/// A timer that is due in whatever runtime it is polled, also where the one of an earlier poll is
/// blocked or gone, and on another executor.
pub(in crate::engine) struct TimerBy<K> {
    shared: Arc<SharedBy<K>>,
    alarm: Pin<Box<Alarm>>,
}

impl<K: Kept> Future for TimerBy<K> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        // Where there is none any more, nobody would wake whoever waits.
        let Ok(lent) = this.shared.lent_runtime() else { return Poll::Ready(()) };
        let _timers = lent.as_ref().map(Handle::enter);
        this.alarm.as_mut().poll(cx)
    }
}

impl<K> fmt::Debug for TimerBy<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Timer").field(&self.alarm).finish()
    }
}

impl<K> fmt::Debug for SharedBy<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the keys: there may be many, and they are nobody's who only prints a client.
        f.debug_struct("Shared")
            .field("backend", &self.backend)
            .field("capabilities", &self.capabilities)
            .field("defaults", &self.defaults)
            .field("is_closed", &self.closed)
            .finish_non_exhaustive()
    }
}
