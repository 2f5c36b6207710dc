//! A hold on a key: what a guard does with it.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::door::{Door, Inside, Turnstile};
use super::handle::LockHandle;
use super::release::Releasing;
use super::view::View;
use crate::backend::{Fault, FaultKind, Mode};
use crate::engine::key::{KeyCell, RELEASE_WITHIN};
use crate::engine::observe::{self, OpenSpan};
use crate::error::{ReleaseError, UnavailableError};
use crate::ground::{clock, foreign};
use crate::proto::{Effects, ReleaseAnswer};

/// A hold on a key; dropping it gives the lock up in the background.
#[derive(Debug)]
pub(crate) struct Hold {
    handle: LockHandle,
    armed: bool,
    span: OpenSpan,
    /// The one call under this guard that has re-entered its hold.
    turnstile: Turnstile,
    /// Where it re-entered the hold of a guard that it was called under. Given up after the hold,
    /// so that the next of its siblings finds this one gone.
    inside: Option<Arc<Inside>>,
}

impl Hold {
    pub(in crate::engine) fn new(cell: Arc<KeyCell>, token: u64) -> Self {
        let span = observe::hold(cell.key(), token);
        let handle = LockHandle { view: View { cell, token } };
        Self { handle, armed: true, span, turnstile: Turnstile::default(), inside: None }
    }

    /// A further guard of the hold behind this door, if that [can be entered](Door::enter).
    pub(in crate::engine) fn entered(
        door: &Door,
        permit: OwnedSemaphorePermit,
        asked: Mode,
        now: Instant,
    ) -> Option<Self> {
        let inside = Some(door.enter(permit, asked, now)?);
        let (handle, span) = (LockHandle { view: door.view.clone() }, door.span.clone());
        Some(Self { handle, armed: true, span, turnstile: Turnstile::default(), inside })
    }

    /// The way back into this hold, for what is called under it.
    pub(in crate::engine) fn door(&self) -> Door {
        Door::new(self.handle.view.clone(), &self.turnstile, &self.span, self.inside.as_ref())
    }

    pub(in crate::engine) fn handle(&self) -> &LockHandle {
        &self.handle
    }

    /// Gives the lock up, and waits for the answer.
    pub(crate) async fn release(mut self) -> Result<(), ReleaseError> {
        let (mut fx, mut later) = (Effects::none(), None);
        let reply = || {
            let (reply, answer) = oneshot::channel();
            later = Some(answer);
            Some(reply)
        };
        // From here on the drop has nothing left to do: the release is on its way.
        self.armed = false;
        // It wakes those who wait for a turn: a panic of theirs would keep the key.
        foreign::call(|| self.turnstile.close());
        let View { cell, token } = &self.handle.view;
        let now = clock::now();
        let at_once = cell.cohort().release(*token, reply, now, &mut fx);
        observe::gave_up(&self.span, &fx.changes);
        cell.apply(fx);
        foreign::call(|| drop(self.inside.take()));
        let answer = match (at_once, later) {
            (Some(answer), _) => {
                cell.nudge();
                Some(answer)
            }
            (None, Some(later)) => Releasing::new(cell, *token, now, later).await,
            (None, None) => Some(ReleaseAnswer::NotHeld),
        };
        let unknown = |fault| {
            Err(ReleaseError::Unavailable(UnavailableError::new(cell.key().clone(), fault)))
        };
        match answer {
            None => unknown(Fault::new(
                FaultKind::Transient,
                format!("the store did not answer within {RELEASE_WITHIN:?}"),
            )),
            Some(ReleaseAnswer::Released) => Ok(()),
            Some(ReleaseAnswer::Unknown(fault)) => unknown(fault),
            Some(ReleaseAnswer::NotHeld) => Err(ReleaseError::NotHeld {
                key: self.handle.key().clone(),
                token: self.handle.token(),
            }),
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if self.armed {
            foreign::call(|| self.turnstile.close());
            let View { cell, token } = &self.handle.view;
            let mut fx = Effects::none();
            cell.cohort().release(*token, || None, clock::now(), &mut fx);
            observe::gave_up(&self.span, &fx.changes);
            cell.settle(fx);
        }
    }
}

#[cfg(all(test, target_pointer_width = "64"))]
mod tests {
    use super::*;

    #[test]
    fn a_hundred_thousand_held_keys_are_small() {
        // A held key has a cell, a guard, and about 400 bytes of its claim and of tables.
        let (cell, guard) = (size_of::<KeyCell>(), size_of::<Hold>());
        assert!(cell <= 568 && guard <= 56, "{cell} and {guard} bytes");
    }
}
