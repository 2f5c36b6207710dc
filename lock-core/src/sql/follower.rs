//! One who follows an election in a database.

use std::sync::Arc;
use std::time::Duration;

use super::changes::{Ear, Hearing, Why};
use super::dialect::Dialect;
use super::row::leader;
use super::store::{Budget, REQUEST, Store};
use crate::backend::{BoxFuture, ClaimId, Fault, Follower, Following};
use crate::key::Key;
use crate::view::Leader;

/// One who follows the election on a key in a database.
#[derive(Debug)]
pub(super) struct LeaseFollower<D> {
    store: Arc<Store<D>>,
    key: Key,
    id: ClaimId,
    lease: Duration,
    /// The row that the last answer was made of, and the leader by it.
    seen: Option<i64>,
    told: Option<Leader>,
    ear: Option<Ear>,
    /// A change was told, and nothing was asked since.
    heard: bool,
}

impl<D: Dialect> LeaseFollower<D> {
    pub(super) fn new(store: Arc<Store<D>>, key: &Key, lease: Duration) -> Self {
        let (key, id) = (key.clone(), ClaimId::random());
        Self { store, key, id, lease, seen: None, told: None, ear: None, heard: false }
    }

    /// Has changes of the row told from now on. It `reads` the row if there may have been some
    /// since the last answer.
    fn listen(&mut self, reads: bool) -> &mut Ear {
        let Self { store, key, id, ear, .. } = self;
        ear.get_or_insert_with(|| store.changes.listen(key, *id, Why::Follows, reads))
    }
}

impl<D: Dialect> Follower for LeaseFollower<D> {
    fn leader(&mut self) -> BoxFuture<'_, Result<Following, Fault>> {
        Box::pin(async {
            self.heard = false;
            // From before the request on, where others say what they write.
            if self.store.changes.hearing() == Hearing::Told {
                self.listen(false);
            }
            let (key, lease) = (self.key.clone(), self.lease);
            let follow =
                |store: Arc<Store<D>>, by| async move { store.follow(key, lease, by).await };
            let (answer, seen) = self.store.ask(Budget::of(REQUEST), follow).await?;
            (self.seen, self.told) = (seen, answer.leader.clone());
            Ok(answer)
        })
    }

    fn changed(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            while !self.heard {
                let seen = self.seen;
                let sight = self.listen(true).other_than(seen).await;
                let row = sight.as_ref().map(|sight| &sight.row);
                // The next request tells what is odd about a row.
                let leads = row.and_then(|row| row.entry().ok());
                match (row, leads.map(|entry| leader(&entry, Duration::ZERO))) {
                    (Some(row), Some(leads)) if leads == self.told => self.seen = Some(row.version),
                    _ => self.heard = true,
                }
            }
        })
    }
}
