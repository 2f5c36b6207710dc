//! Keys that are locked together.

use crate::key::{IntoKey, Key, KeyError};
use crate::limits::KEYS_MAX;
use crate::rejection::Rejection;

/// Keys locked together: 1 to [`KEYS_MAX`] (64), sorted by the bytes of their encoded form,
/// each once; or why there are none, which the acquire reports.
#[derive(Debug, Clone)]
pub struct KeySet(pub(super) Result<Vec<Key>, Rejection>);

impl KeySet {
    /// Takes whatever `keys` iterates over. The first that is no key is the error of the set.
    #[must_use]
    pub fn collect<I>(keys: I) -> Self
    where
        I: IntoIterator,
        I::Item: IntoKey,
    {
        let keys: Result<Vec<_>, KeyError> = keys.into_iter().map(IntoKey::into_key).collect();
        Self(keys.map_err(Rejection::from).and_then(checked))
    }
}

fn checked(mut keys: Vec<Key>) -> Result<Vec<Key>, Rejection> {
    keys.sort_unstable();
    keys.dedup();
    match keys.len() {
        1..=KEYS_MAX => Ok(keys),
        given => Err(Rejection::KeyCount { given, max: KEYS_MAX }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(set: KeySet) -> Vec<String> {
        set.0.unwrap().iter().map(Key::to_string).collect()
    }

    #[test]
    fn a_set_is_sorted_and_has_each_key_once() {
        assert_eq!(texts(KeySet::collect(["b", "a", "b"])), ["a", "b"]);
        assert_eq!(texts(KeySet::collect(vec!["z".to_owned(), "y".to_owned()])), ["y", "z"]);
        // Two spellings of one key are one key; the order is that of what is stored.
        assert_eq!(
            texts(KeySet::collect(["é", "Z", "%", "a:b", "a"]))[..3],
            ["%25", "%C3%A9", "Z"]
        );
        assert_eq!(
            texts(KeySet::collect([Key::new("a{b}"), Key::from_encoded("a%7Bb%7D")])).len(),
            1
        );
    }

    #[test]
    fn none_and_too_many_are_refused_and_repetitions_do_not_count() {
        let keys = |n: usize| KeySet::collect((0..n).map(|i| format!("k{i}")));
        for n in [0, KEYS_MAX + 1, 10_000] {
            assert_eq!(keys(n).0, Err(Rejection::KeyCount { given: n, max: KEYS_MAX }));
        }
        assert_eq!(keys(KEYS_MAX).0.map(|keys| keys.len()), Ok(KEYS_MAX));
        assert_eq!(texts(KeySet::collect(["k"; 1_000])), ["k"]);
    }

    #[test]
    fn the_first_that_is_no_key_is_the_error() {
        let long = "k".repeat(600);
        let set = KeySet::collect(["a", &long, ""]).0.unwrap_err().to_string();
        assert!(set.contains("`kkk") && set.contains("600 bytes"), "{set}");
        assert_eq!(KeySet::collect(["a", ""]).0, Err(KeyError::Empty.into()));
    }
}
