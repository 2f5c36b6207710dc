//! How many requests may wait with their bodies in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts the requests of a layer and its clones that have not begun to run.
#[derive(Debug, Default)]
pub(super) struct Places {
    taken: AtomicUsize,
}

/// One place, given back when dropped.
#[derive(Debug)]
pub(super) struct Place {
    places: Arc<Places>,
}

impl Places {
    /// Takes a place, if fewer than `max` are taken.
    pub(super) fn take(self: &Arc<Self>, max: usize) -> Option<Place> {
        let more = |taken: usize| (taken < max).then_some(taken + 1);
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(Place { places: Arc::clone(self) })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_too_many_is_refused_until_a_place_is_free_again() {
        let places = Arc::new(Places::default());
        let (first, _second) = (places.take(2).unwrap(), places.take(2).unwrap());
        assert!(places.take(2).is_none());
        drop(first);
        assert!(places.take(2).is_some());
    }
}
