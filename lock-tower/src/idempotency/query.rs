//! The query of a request, in one order.

use std::borrow::Cow;

use percent_encoding::percent_decode;

/// A query whose pairs are sorted by name.
///
/// A retry repeats the bytes of the first request, but a client that builds its query from a hash
/// map may give the pairs in another order. Nothing more is made equal. Pairs of one name keep
/// their order, as a handler may read the first of them or the last. No spelling is decoded or
/// cleaned up, so two queries that differ in more are never taken for one. Names are compared
/// decoded, because the handler reads `a` and `%61` as one name too.
pub(super) fn canonical(query: &str) -> Cow<'_, str> {
    if !query.contains('&') {
        return Cow::Borrowed(query);
    }
    let mut pairs: Vec<&str> = query.split('&').collect();
    // Stable, which keeps the order of one name.
    pairs.sort_by_cached_key(|pair| name(pair));
    Cow::Owned(pairs.join("&"))
}

/// Bytes, not text: what is no UTF-8 must not become one replacement character.
fn name(pair: &str) -> Vec<u8> {
    let raw = pair.split_once('=').map_or(pair, |(name, _)| name);
    percent_decode(raw.replace('+', " ").as_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_sorted_and_pairs_of_one_name_keep_their_order() {
        for (query, expected) in [
            ("", ""),
            ("a", "a"),
            ("b=1&a=2", "a=2&b=1"),
            ("b=2&a=9&b=1", "a=9&b=2&b=1"),
            ("a=1&%61=0", "a=1&%61=0"),
            ("%61=0&a=1", "%61=0&a=1"),
            ("c+d=1&c%20d=0", "c+d=1&c%20d=0"),
            ("b&&a=", "&a=&b"),
        ] {
            assert_eq!(canonical(query), expected, "{query}");
        }
    }

    #[test]
    fn spellings_of_one_value_stay_apart() {
        assert_ne!(canonical("a=%7E"), canonical("a=~"));
        assert_ne!(canonical("a=%FF&b"), canonical("a=%FE&b"));
        assert_ne!(canonical("a"), canonical("a="));
    }

    proptest! {
        #[test]
        fn any_order_of_different_names_is_one_query(
            (order, other) in proptest::collection::btree_map("[a-d%61]{0,4}", "[a-c=]{0,3}", 1..8)
                .prop_map(|pairs| {
                    // Different raw names may be one name once they are decoded.
                    let mut seen = std::collections::BTreeSet::new();
                    pairs.into_iter().map(|(name, value)| format!("{name}={value}"))
                        .filter(|pair| seen.insert(super::name(pair))).collect::<Vec<_>>()
                })
                .prop_flat_map(|pairs| (Just(pairs.clone()), Just(pairs).prop_shuffle())),
        ) {
            let (order, other) = (order.join("&"), other.join("&"));
            prop_assert_eq!(canonical(&order), canonical(&other));
        }

        #[test]
        fn it_is_a_fixed_point_and_loses_nothing(query in "[a-c%126&=+]{0,24}") {
            let once = canonical(&query).into_owned();
            prop_assert_eq!(&canonical(&once), &once);
            let sorted = |query: &str| {
                let mut pairs: Vec<_> = query.split('&').map(str::to_owned).collect();
                pairs.sort();
                pairs
            };
            prop_assert_eq!(sorted(&query), sorted(&once));
        }
    }
}
