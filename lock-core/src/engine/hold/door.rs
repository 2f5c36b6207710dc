//! The way back into a hold, for what is called under it.

use std::sync::{Arc, OnceLock, Weak};
use std::time::Instant;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::lost::Lost;
use super::view::View;
use crate::backend::Mode;
use crate::engine::key::Shared;
use crate::engine::observe::OpenSpan;
use crate::error::{AcquireError, NotReplicatedError};
use crate::key::Key;
use crate::options::LockOptions;
use crate::rejection::Rejection;
use crate::token::FencingToken;

/// The way back into a hold.
#[derive(Debug, Clone)]
pub(in crate::engine) struct Door {
    pub(super) view: View,
    turn: Arc<Semaphore>,
    pub(super) span: OpenSpan,
    /// Where the guard behind it has itself re-entered the hold.
    inside: Option<Weak<Inside>>,
}

/// The turn of a guard that re-entered a hold, and of all those that it was called under. As long
/// as this is there, nobody else is let in beside any of those guards, whether or not they are
/// still there.
#[derive(Debug)]
pub(in crate::engine) struct Inside {
    _turn: OwnedSemaphorePermit,
    _outer: Option<Arc<Inside>>,
}

/// The turn of one guard; made when something is called under it.
#[derive(Debug, Default)]
pub(in crate::engine) struct Turnstile(OnceLock<Arc<Semaphore>>);

impl Door {
    pub(super) fn new(
        view: View,
        turn: &Turnstile,
        span: &OpenSpan,
        inside: Option<&Arc<Inside>>,
    ) -> Self {
        let turn = turn.0.get_or_init(|| Arc::new(Semaphore::new(1))).clone();
        let inside = inside.map(Arc::downgrade);
        Self { view, turn, span: span.clone(), inside }
    }

    pub(in crate::engine) fn turn(&self) -> Arc<Semaphore> {
        self.turn.clone()
    }

    pub(in crate::engine) fn key(&self) -> &Key {
        self.view.key()
    }

    pub(in crate::engine) fn token(&self) -> FencingToken {
        self.view.token()
    }

    /// Why one who asks for this cannot re-enter the hold, and need not wait for it to end.
    pub(super) fn refusal(&self, asked: &LockOptions) -> Option<AcquireError> {
        let View { cell, token } = &self.view;
        let (key, cohort) = (cell.key(), cell.cohort());
        match (cohort.mode_of(*token)?, asked.mode) {
            (Mode::Permit { of: in_use }, Mode::Permit { of: given }) if in_use != given => {
                return Some(Rejection::OtherLimit { key: key.clone(), given, in_use }.into());
            }
            (held, asked) if !held.covers(asked) => {
                return Some(Rejection::Upgrade { key: key.clone(), held, asked }.into());
            }
            _ => {}
        }
        let not_replicated = cohort.lacks(*token, asked.replicas?)?;
        let key = key.clone();
        Some(NotReplicatedError { key, not_replicated, is_reentry: true }.into())
    }

    /// Resolves when the hold is lost.
    pub(in crate::engine) fn lost(&self) -> Lost {
        Lost::new(self.view.clone())
    }

    pub(super) fn is_closed(&self) -> bool {
        self.turn.is_closed()
    }

    /// Whether it is that of a good hold on this key, whose guard is still there.
    pub(super) fn leads_to(&self, shared: &Arc<Shared>, key: &Key, now: Instant) -> bool {
        let View { cell, token } = &self.view;
        // A key of another client of the same name is another lock.
        let is_it = cell.key() == key && Arc::ptr_eq(&cell.shared, shared);
        is_it && !self.is_closed() && cell.cohort().held_until(*token, now).is_some()
    }

    /// Re-enters the hold, if that is still good for this mode and the guard behind this door is
    /// still there; `permit` is of its turn.
    pub(super) fn enter(
        &self,
        permit: OwnedSemaphorePermit,
        asked: Mode,
        now: Instant,
    ) -> Option<Arc<Inside>> {
        let outer = match &self.inside {
            Some(inside) => Some(inside.upgrade()?),
            None => None,
        };
        let View { cell, token } = &self.view;
        let inside = Arc::new(Inside { _turn: permit, _outer: outer });
        let is_in = cell.cohort().reenter(*token, asked, now);
        // Its turn wakes who is next, so the mutex is not held over its end.
        is_in.then_some(inside)
    }
}

impl Turnstile {
    /// A call under the guard that runs on has no way back any more.
    pub(in crate::engine) fn close(&self) {
        if let Some(turn) = self.0.get() {
            turn.close();
        }
    }
}
