//! Who is told that the row of a key is another.
//!
//! A change that this process makes is told at once. For those of others a task of the store looks
//! at the database's mark, now and then, while somebody listens. The pauses have jitter, so that no
//! two processes stay in step. Whoever begins to listen has the row read, so that nothing is missed
//! between its last answer and that.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Notify, watch};

use super::row::Row;
use crate::ground::{clock, lock};
use crate::key::Key;

/// Between two looks while somebody waits for a key, and while those who listen hold or follow.
const LOOK_WAITING: Duration = Duration::from_millis(2);
const LOOK_HOLDING: Duration = Duration::from_millis(20);

/// A row as it was last seen.
#[derive(Debug, Clone)]
enum Last {
    /// Nobody has looked yet.
    Unseen,
    Row(Arc<Row>),
    /// It was there, and is not there any more.
    Gone,
}

/// Who listens.
#[derive(Debug, Default)]
pub(super) struct Changes {
    keys: Mutex<HashMap<Key, watch::Sender<Last>>>,
    /// Keys that somebody has begun to listen to, and nobody has looked at since.
    new: Mutex<Vec<Key>>,
    /// Those of them who wait for a key.
    waiting: Mutex<usize>,
    /// Somebody has begun to listen, or the store is gone.
    begun: Arc<Notify>,
}

impl Changes {
    /// Has the changes of a key told from now on.
    pub(super) fn listen(self: &Arc<Self>, key: &Key, waits: bool) -> Ear {
        let mut keys = lock(&self.keys);
        let row = match keys.get(key) {
            Some(sender) => sender.subscribe(),
            None => {
                let (sender, row) = watch::channel(Last::Unseen);
                keys.insert(key.clone(), sender);
                row
            }
        };
        if waits {
            *lock(&self.waiting) += 1;
        }
        lock(&self.new).push(key.clone());
        self.begun.notify_one();
        Ear { key: key.clone(), row, waits, changes: self.clone() }
    }

    /// Tells a row, unless a later one was told.
    pub(super) fn tell(&self, key: &Key, row: Row) {
        let keys = lock(&self.keys);
        let Some(sender) = keys.get(key) else { return };
        sender.send_if_modified(|last| {
            let is_news = match last {
                Last::Row(last) => last.version < row.version,
                Last::Unseen | Last::Gone => true,
            };
            if is_news {
                *last = Last::Row(Arc::new(row));
            }
            is_news
        });
    }

    /// Tells that the row of a key was deleted.
    pub(super) fn tell_gone(&self, key: &Key) {
        let keys = lock(&self.keys);
        let Some(sender) = keys.get(key) else { return };
        sender.send_if_modified(|last| {
            let is_news = matches!(last, Last::Row(_));
            if is_news {
                *last = Last::Gone;
            }
            is_news
        });
    }

    /// The keys that somebody listens to.
    pub(super) fn keys(&self) -> Vec<Key> {
        lock(&self.keys).keys().cloned().collect()
    }

    /// Those of them that somebody has begun to listen to since this was asked last.
    pub(super) fn new_keys(&self) -> Vec<Key> {
        std::mem::take(&mut *lock(&self.new))
    }

    /// How long to wait with the next look; `None` while nobody listens.
    pub(super) fn pause(&self) -> Option<Duration> {
        let all = lock(&self.keys).len();
        let base = match *lock(&self.waiting) {
            0 if all == 0 => return None,
            0 => LOOK_HOLDING,
            _ => LOOK_WAITING,
        };
        let share = f64::from(clock::random_bits()) / f64::from(u32::MAX);
        Some(base.mul_f64(0.5 + share))
    }

    /// Resolves when somebody begins to listen, or the store is gone.
    pub(super) fn begun(&self) -> Arc<Notify> {
        self.begun.clone()
    }

    fn forget(&self, ear: &Ear) {
        let mut keys = lock(&self.keys);
        // This one is still counted.
        if keys.get(&ear.key).is_some_and(|sender| sender.receiver_count() <= 1) {
            keys.remove(&ear.key);
            if keys.is_empty() {
                keys.shrink_to(64);
            }
        }
        if ear.waits {
            *lock(&self.waiting) -= 1;
        }
    }
}

/// One who listens to a key.
#[derive(Debug)]
pub(super) struct Ear {
    key: Key,
    row: watch::Receiver<Last>,
    waits: bool,
    changes: Arc<Changes>,
}

impl Ear {
    /// Whether it listens as one who waits.
    pub(super) fn waits(&self) -> bool {
        self.waits
    }

    /// The first row that is not of the version `seen`, or `None` where that row was deleted. Cancel
    /// safe. Level-triggered, but for a row that was deleted: that is told once.
    pub(super) async fn other_than(&mut self, seen: Option<i64>) -> Option<Arc<Row>> {
        loop {
            let is_new = self.row.has_changed().unwrap_or(false);
            let last = self.row.borrow_and_update().clone();
            match last {
                Last::Row(row) if seen.is_none_or(|seen| seen < row.version) => return Some(row),
                Last::Gone if is_new && seen.is_some() => return None,
                _ => {}
            }
            if self.row.changed().await.is_err() {
                // The sender lives for as long as its ears.
                std::future::pending::<()>().await;
            }
            self.row.mark_changed();
        }
    }
}

impl Drop for Ear {
    fn drop(&mut self) {
        let changes = self.changes.clone();
        changes.forget(self);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;
    use crate::sql::row::Entry;

    fn row(version: i64) -> Row {
        Row { version, ..Row::of(&Entry::default(), None, Duration::ZERO) }
    }

    #[tokio::test]
    async fn a_row_is_told_until_it_was_seen_and_an_older_one_never() {
        let (changes, key) = (Arc::new(Changes::default()), Key::new("k").unwrap());
        let mut ear = changes.listen(&key, true);
        changes.tell(&key, row(7));
        changes.tell(&key, row(6));
        changes.tell(&Key::new("other").unwrap(), row(9));
        for _ in 0..2 {
            assert_eq!(ear.other_than(Some(6)).await.unwrap().version, 7);
        }
        assert_eq!(ear.other_than(None).await.unwrap().version, 7);
        assert!(ear.other_than(Some(7)).now_or_never().is_none());
        changes.tell_gone(&key);
        assert!(ear.other_than(Some(7)).await.is_none());
        assert!(ear.other_than(Some(7)).now_or_never().is_none());
        changes.tell(&key, row(3));
        assert_eq!(ear.other_than(None).await.unwrap().version, 3);
    }

    #[test]
    fn nothing_is_looked_at_while_nobody_listens() {
        let (changes, key) = (Arc::new(Changes::default()), Key::new("k").unwrap());
        assert_eq!(changes.pause(), None);
        let (one, two) = (changes.listen(&key, false), changes.listen(&key, true));
        assert!(changes.pause().unwrap() <= LOOK_WAITING * 2);
        drop(two);
        assert!(changes.pause().unwrap() >= LOOK_HOLDING / 2);
        drop(one);
        assert_eq!((changes.pause(), changes.keys()), (None, vec![]));
    }
}
