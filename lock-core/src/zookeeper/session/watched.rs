//! How much a session watches.
//!
//! When its link is back, the client library sets all watches anew, in requests of 128 KiB of paths
//! each. It gives all of them one number, so it cannot tell the answers of two apart, and ends the
//! link at the second, again and again until the session is over. So no session watches more than
//! fits into one. Who gets no share finds out by looking, as where the word of a watch is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The bytes of all paths that are watched, each as often as it is. An eighth of what fits is left for
/// watches that have gone here, and that the library has not taken off its list yet.
const WATCHED_BYTES_MAX: usize = (128 << 10) / 8 * 7;

/// The bytes of paths that a session watches.
#[derive(Debug, Default)]
pub(super) struct Watched(Arc<AtomicUsize>);

/// The right to watch so many bytes of paths, until it is dropped.
#[derive(Debug)]
pub(in crate::zookeeper) struct Share {
    of: Arc<AtomicUsize>,
    bytes: usize,
}

impl Watched {
    /// A share for paths of so many bytes in all, if there is one.
    pub(super) fn share(&self, bytes: usize) -> Option<Share> {
        let fits = |taken: usize| taken.checked_add(bytes).filter(|sum| *sum <= WATCHED_BYTES_MAX);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).ok()?;
        Some(Share { of: self.0.clone(), bytes })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.of.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_watched_fits_one_request_and_is_given_back() {
        let watched = Watched::default();
        let all = watched.share(WATCHED_BYTES_MAX - 10).unwrap();
        assert!(watched.share(11).is_none() && watched.share(usize::MAX).is_none());
        let rest = watched.share(10).unwrap();
        assert!(watched.share(1).is_none());
        drop(rest);
        drop(watched.share(10).unwrap());
        drop(all);
        assert!(watched.share(WATCHED_BYTES_MAX).is_some());
    }
}
