//! The decision at arrival: join the line, or be refused at once.
//!
//! [`Arrivals::arrive`] is the single point where a request that has a key and no lock yet is let
//! in, by two caps. Admission by an estimated wait comes after it, from lock-core's own line,
//! which knows of all waiters of the process and not of this layer's alone.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lock_core::Key;

use crate::answer::{Cause, Refusal};

/// Above this capacity an empty map gives its memory back.
const CAPACITY_KEPT: usize = 1_024;

/// How many may wait.
#[derive(Debug, Clone, Copy)]
pub(super) struct Caps {
    pub(super) per_key: usize,
    pub(super) total: usize,
}

/// Who waits: shared by all services of a layer and its clones.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    waiters: Mutex<Waiters>,
}

#[derive(Debug, Default)]
struct Waiters {
    total: usize,
    per_key: HashMap<Key, usize>,
}

/// Why nobody more is let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Full {
    PerKey,
    Total,
}

/// A place among the waiters, given up when dropped: at the grant, on failure, or when the client
/// goes away.
#[derive(Debug)]
pub(super) struct Place {
    arrivals: Arc<Arrivals>,
    key: Key,
}

impl Arrivals {
    /// Lets a request in, or refuses it without any wait.
    pub(super) fn arrive(self: &Arc<Self>, key: &Key, caps: Caps) -> Result<Place, Full> {
        let mut waiters = self.waiters();
        let ahead = waiters.per_key.get(key).copied().unwrap_or(0);
        if ahead >= caps.per_key {
            return Err(Full::PerKey);
        }
        if waiters.total >= caps.total {
            return Err(Full::Total);
        }
        waiters.total += 1;
        waiters.per_key.insert(key.clone(), ahead + 1);
        drop(waiters);
        Ok(Place { arrivals: Arc::clone(self), key: key.clone() })
    }

    fn waiters(&self) -> MutexGuard<'_, Waiters> {
        // Nothing in here panics halfway through a change.
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut waiters = self.arrivals.waiters();
        waiters.total -= 1;
        if let Entry::Occupied(mut count) = waiters.per_key.entry(self.key.clone()) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
        if waiters.per_key.is_empty() && waiters.per_key.capacity() > CAPACITY_KEPT {
            waiters.per_key.shrink_to_fit();
        }
    }
}

impl Full {
    pub(super) fn refusal(self, key: &Key) -> Refusal<'_> {
        let cause = match self {
            Self::PerKey => Cause::WaitersPerKey,
            Self::Total => Cause::Waiters,
        };
        Refusal { key: Some(key), ..Refusal::of_cap(cause) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> Key {
        Key::new(text).unwrap()
    }

    #[test]
    fn a_cap_refuses_the_one_too_many_and_no_other_key() {
        let arrivals = Arc::new(Arrivals::default());
        let caps = Caps { per_key: 2, total: 3 };
        let _first = arrivals.arrive(&key("a"), caps).unwrap();
        let second = arrivals.arrive(&key("a"), caps).unwrap();
        assert_eq!(arrivals.arrive(&key("a"), caps).unwrap_err(), Full::PerKey);
        let _other = arrivals.arrive(&key("b"), caps).unwrap();
        assert_eq!(arrivals.arrive(&key("c"), caps).unwrap_err(), Full::Total);
        drop(second);
        assert!(arrivals.arrive(&key("a"), caps).is_ok());
    }

    #[test]
    fn nothing_is_left_in_the_map_when_the_last_has_gone() {
        let arrivals = Arc::new(Arrivals::default());
        let caps = Caps { per_key: usize::MAX, total: usize::MAX };
        let places: Vec<_> =
            (0..5_000).map(|n| arrivals.arrive(&key(&n.to_string()), caps).unwrap()).collect();
        drop(places);
        let waiters = arrivals.waiters();
        assert_eq!((waiters.total, waiters.per_key.len()), (0, 0));
        assert!(waiters.per_key.capacity() <= CAPACITY_KEPT);
    }
}
