//! Keys that were given back because others wait.
//!
//! There is no line, and whoever asks first has a free key. The next claim of the same process is sent
//! right behind the release, and others hear of it no sooner than it arrives. So they would wait for as
//! long as this process wants the key.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::ground::{Plus as _, lock};
use crate::key::Key;

/// The time that others have to hear of the release and to ask. They are about as far away as this
/// process, so it is twice the time of its own request, and at least and at most so long.
const OTHERS_FIRST: Duration = Duration::from_millis(5);
const OTHERS_FIRST_MAX: Duration = Duration::from_millis(100);

/// The keys that others may have first, each with the end of that.
#[derive(Debug, Default)]
pub(super) struct GivenBack(Mutex<HashMap<Key, Instant>>);

impl GivenBack {
    /// The key is about to be given back, or was by a request that took so long.
    pub(super) fn note(&self, key: &Key, now: Instant, took: Duration) {
        let mut keys = lock(&self.0);
        keys.retain(|_, until| now < *until);
        keys.insert(key.clone(), now.plus((took * 2).clamp(OTHERS_FIRST, OTHERS_FIRST_MAX)));
    }

    /// How long a claim that waits leaves the key to others.
    pub(super) fn left(&self, key: &Key, now: Instant) -> Option<Duration> {
        let until = *lock(&self.0).get(key)?;
        until.checked_duration_since(now).filter(|left| !left.is_zero())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ground::clock;

    #[test]
    fn others_have_a_key_first_for_a_while_and_nothing_is_kept_of_it() {
        let (keys, now) = (GivenBack::default(), clock::now());
        let [one, other] = ["one", "other"].map(|key| Key::new(key).unwrap());
        assert_eq!(keys.left(&one, now), None);
        keys.note(&one, now, Duration::ZERO);
        assert_eq!(keys.left(&one, now), Some(OTHERS_FIRST));
        assert_eq!(keys.left(&other, now), None);
        let later = now + OTHERS_FIRST;
        assert_eq!(keys.left(&one, later), None);
        keys.note(&other, later, OTHERS_FIRST * 3);
        assert_eq!(lock(&keys.0).len(), 1);
        assert_eq!(keys.left(&other, later), Some(OTHERS_FIRST * 6));
        keys.note(&other, later, Duration::from_secs(1));
        assert_eq!(keys.left(&other, later), Some(OTHERS_FIRST_MAX));
    }
}
