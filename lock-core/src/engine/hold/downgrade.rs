//! From a writer to a reader.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::lost::Lost;
use super::view::View;
use super::watch::Watch;
use crate::error::DowngradeError;
use crate::proto::{Effects, Event, NotDowngraded};

/// Resolves when a hold shares its key; made by
/// [`LockGuard::downgrade`](crate::LockGuard::downgrade). Stays pending once the guard was
/// released.
///
/// # Cancel safety
///
/// From its first poll on the hold may be shared at any time, whether or not this is dropped. A
/// later one waits for the same.
#[derive(Debug)]
#[must_use = "futures do nothing unless awaited"]
pub struct Downgrade {
    watch: Watch,
    lost: Lost,
    is_begun: bool,
}

impl Downgrade {
    pub(super) fn new(view: View) -> Self {
        let lost = Lost::new(view.clone());
        Self { watch: Watch::new(view, Event::Downgraded), lost, is_begun: false }
    }

    fn begin(&mut self) -> Result<(), DowngradeError> {
        let View { cell, token } = &self.watch.view;
        let key = || cell.key().clone();
        if !cell.shared.capabilities.shared {
            return Err(DowngradeError::Unsupported { key: key() });
        }
        let (mut fx, begun) = (Effects::none(), cell.cohort().downgrade(*token));
        match begun {
            // A hold that was lost is told by the watch for its loss.
            Ok(()) | Err(NotDowngraded::Lost) => {}
            Err(NotDowngraded::Permit) => return Err(DowngradeError::Permit { key: key() }),
            Err(NotDowngraded::Reentered) => {
                return Err(DowngradeError::Reentered { key: key() });
            }
        }
        fx.poke = true;
        cell.settle(fx);
        self.is_begun = true;
        Ok(())
    }
}

impl Future for Downgrade {
    type Output = Result<(), DowngradeError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if !this.is_begun {
            this.begin()?;
        }
        // A loss that has come meanwhile counts, whatever was answered before it.
        if let Poll::Ready(lost) = Pin::new(&mut this.lost).poll(cx) {
            return Poll::Ready(Err(lost.into()));
        }
        let is_shared = this
            .watch
            .poll(cx, |cohort, token, _, _| cohort.is_shared(token).filter(|is_shared| *is_shared));
        is_shared.map(|_| Ok(()))
    }
}
