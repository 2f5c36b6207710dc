//! Following an election.

use std::future::{Future, pending, ready};
use std::pin::Pin;
use std::time::Duration;

use super::{Fault, FaultKind};
use crate::view::Leader;

/// A boxed future that may be sent to another thread.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The answer to one who follows an election.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Following {
    /// The leader; `None` while nobody leads.
    pub leader: Option<Leader>,
    /// Ask again after this time at the latest, even if nothing was pushed.
    pub recheck: Duration,
}

/// One who follows an election; opened by [`Backend::follow`](super::Backend::follow). It stands in
/// no line. One that is dropped ends by itself.
pub trait Follower: Send + 'static {
    /// The leader now. From then on [`changed`](Self::changed) resolves when another may lead, where
    /// pushes are promised.
    fn leader(&mut self) -> BoxFuture<'_, Result<Following, Fault>>;

    /// Resolves when it is time to ask again. Cancel safe, level-triggered (it goes on resolving
    /// until `leader` was asked), may be spurious. A store that pushes nothing leaves the default.
    fn changed(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(pending())
    }

    /// Has the store push no more, where that is not so by dropping it.
    fn leave(&mut self) -> BoxFuture<'_, Result<(), Fault>> {
        Box::pin(ready(Ok(())))
    }
}

/// One at a store without elections.
#[derive(Debug)]
pub(super) struct NoElections;

impl Follower for NoElections {
    fn leader(&mut self) -> BoxFuture<'_, Result<Following, Fault>> {
        let refused = Fault::new(FaultKind::Refused, "this store has no elections");
        Box::pin(ready(Err(refused)))
    }
}
