//! The life of a session: until when it surely lives, whether it is over, and which claims have a
//! key in it.

use std::time::Instant;

use tokio::sync::watch;

use super::clock::SessionClock;
use crate::backend::leases::Leases;
use crate::ground::clock;

#[derive(Debug)]
pub(super) struct Liveness {
    clock: watch::Sender<SessionClock>,
    is_over: watch::Sender<bool>,
    /// The claims that have, or may have, a key in this session.
    pub(super) leases: Leases,
}

impl Liveness {
    pub(super) fn new(clock: SessionClock) -> Self {
        let leases = Leases::new(clock.beat_at());
        Self { clock: watch::Sender::new(clock), is_over: watch::Sender::new(false), leases }
    }

    pub(super) fn clock(&self) -> SessionClock {
        *self.clock.borrow()
    }

    /// A keepalive that was sent at `sent` is proved.
    pub(super) fn proved(&self, sent: Instant) {
        self.clock.send_modify(|clock| clock.proved(sent));
    }

    /// Waits until the session is confirmed; `false` if it ends.
    pub(super) async fn confirmed(&self) -> bool {
        let (mut clock, mut is_over) = (self.clock.subscribe(), self.is_over.subscribe());
        let good = |clock: &SessionClock| clock.is_confirmed(clock::now());
        tokio::select! {
            biased;
            _ = is_over.wait_for(|over| *over) => false,
            confirmed = clock.wait_for(good) => confirmed.is_ok(),
        }
    }

    pub(super) fn is_over(&self) -> bool {
        *self.is_over.borrow()
    }

    /// The session is over: nothing that was held in it is held any more. `false` if it was over
    /// before.
    pub(super) fn end(&self) -> bool {
        let is_news = !self.is_over.send_replace(true);
        if is_news {
            self.leases.poke();
        }
        is_news
    }
}
