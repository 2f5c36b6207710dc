//! A view of several holds, and the first loss among them.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::slice;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use super::super::hold::{LockHandle, Lost};
use crate::error::LostError;
use crate::key::{IntoKey, Key};
use crate::token::FencingToken;

/// A view of several holds that were taken together: it tells the keys, the tokens and whether all
/// holds are still good, and cannot release them. It does not keep the locks either.
#[derive(Clone)]
pub struct MultiLockHandle {
    /// In the order of the keys.
    each: Arc<Vec<LockHandle>>,
}

impl MultiLockHandle {
    /// A handle of nothing yet.
    pub(super) fn with_capacity(keys: usize) -> Self {
        Self { each: Arc::new(Vec::with_capacity(keys)) }
    }

    /// Adds the hold of the next key.
    pub(super) fn push(&mut self, handle: LockHandle) {
        Arc::make_mut(&mut self.each).push(handle);
    }

    /// The keys, in the order in which they were taken: that of the bytes of their encoded form.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &Key> {
        self.iter().map(LockHandle::key)
    }

    /// The fencing token of one key; `None` for a key that is none of those locked. Send it with
    /// every write to what that key protects: each key counts for itself.
    #[must_use]
    pub fn token(&self, key: impl IntoKey) -> Option<FencingToken> {
        let key = key.into_key().ok()?;
        let at = self.each.binary_search_by(|handle| handle.key().cmp(&key)).ok()?;
        Some(self.each[at].token())
    }

    /// The fencing tokens, in the order of the keys.
    pub fn tokens(&self) -> impl ExactSizeIterator<Item = FencingToken> {
        self.iter().map(LockHandle::token)
    }

    /// The holds one by one, in the order of the keys. A hold by itself knows nothing of the
    /// others: ask this handle whether all are good.
    pub fn iter(&self) -> slice::Iter<'_, LockHandle> {
        self.each.iter()
    }

    /// Whether all holds are still good by this process's own clock; false after their release.
    /// Reads the clock each time.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.iter().all(LockHandle::is_held)
    }

    /// How long all holds are good without a further renewal: the least that one of them has, see
    /// [`LockHandle::lease_left`]. Zero once one is over.
    #[must_use]
    pub fn lease_left(&self) -> Duration {
        self.iter().map(LockHandle::lease_left).min().unwrap_or_default()
    }

    /// Resolves when one of the holds is over without a release, and says which.
    pub fn lost(&self) -> MultiLost {
        MultiLost::new(self.iter().map(LockHandle::lost))
    }

    /// Why a hold is over; `None` while all are good, and after their release.
    #[must_use]
    pub fn why_lost(&self) -> Option<LostError> {
        self.iter().find_map(LockHandle::why_lost)
    }
}

impl<'a> IntoIterator for &'a MultiLockHandle {
    type Item = &'a LockHandle;
    type IntoIter = slice::Iter<'a, LockHandle>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Debug for MultiLockHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MultiLockHandle ")?;
        f.debug_map().entries(self.keys().zip(self.tokens())).finish()
    }
}

/// Resolves when the first of several holds is over without a release, and says which; stays
/// pending once they were released. It reads the clock each time it is polled, see [`Lost`].
///
/// # Cancel safety
///
/// Nothing is lost by dropping it; a later one resolves at once.
#[derive(Debug, Clone)]
#[must_use = "futures do nothing unless awaited"]
pub struct MultiLost {
    each: Vec<Lost>,
}

impl MultiLost {
    pub(crate) fn new(each: impl Iterator<Item = Lost>) -> Self {
        Self { each: each.collect() }
    }
}

impl Future for MultiLost {
    type Output = LostError;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<LostError> {
        for lost in &mut self.each {
            if let Poll::Ready(error) = Pin::new(lost).poll(cx) {
                return Poll::Ready(error);
            }
        }
        Poll::Pending
    }
}
