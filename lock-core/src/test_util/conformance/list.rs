//! Listing the busy keys, and who holds one.

use std::collections::BTreeSet;
use std::time::Duration;

use super::drive::{Case, eventually};
use crate::backend::{Backend, Capabilities, FaultKind, Mode};
use crate::ground::clock;
use crate::key::Key;
use crate::test_util::subject::Subject;
use crate::view::Holder;

/// Where [`Capabilities::listing`](crate::backend::Capabilities) does not hold, trying is refused and
/// nothing else is checked. In whatever mode a key is held. A name that only begins like the prefix is not below it, and a
/// character that means something in a pattern or a statement means itself.
pub async fn the_busy_keys_of_all_processes_are_listed(subject: &dyn Subject) {
    let case = Case::new(subject, "listing");
    let one = case.process().await;
    if !one.capabilities().listing {
        let fault = one.backend.list(None, 9).await.expect_err("a list is not promised");
        assert_eq!(fault.kind(), FaultKind::Refused);
        return;
    }
    // To open one may take longer than a lease lasts.
    let two = case.process().await;
    let named = |name: &str| {
        let key = Key::from_encoded(format!("{}:{name}", case.key));
        two.at(key.expect("a short key"))
    };
    let within = named(r"a*[b]?\_'").key;
    let listed = async |max| one.backend.list(Some(&within), max).await.expect("a list");
    let keys = async || listed(9).await.keys.into_iter().collect::<BTreeSet<_>>();
    assert_eq!(keys().await, BTreeSet::new());

    let (shared, permits) = (one.capabilities().shared, one.capabilities().permits);
    let modes =
        [(true, Mode::Exclusive), (shared, Mode::Shared), (permits, Mode::Permit { of: 2 })];
    let modes = modes.into_iter().filter(|(is_served, _)| *is_served);
    let mut held = Vec::new();
    for (number, (_, mode)) in modes.enumerate() {
        let place = named(&format!(r"a*[b]?\_':{number}"));
        let mut asker = place.claim_in(mode, "a holder");
        asker.takes().await;
        held.push((place.key, asker));
    }
    let mut others = Vec::new();
    for name in [r"a*[b]?\_'", r"a*[b]?\_'x:1", r"a*[b]?\_';1", r"ab[b]?\_':1", r"a*b?\x':1"] {
        let mut asker = named(name).claim_in(Mode::Exclusive, "another");
        asker.takes().await;
        others.push(asker);
    }
    let expected = || held.iter().map(|(key, _)| key.clone()).collect::<BTreeSet<_>>();
    assert_eq!(keys().await, expected());
    assert!(listed(held.len()).await.is_whole);
    let some = listed(held.len() - 1).await;
    assert!(some.keys.len() == held.len() - 1 && !some.is_whole, "{some:?}");
    assert!(one.backend.list(None, 100_000).await.expect("a list").keys.contains(&held[0].0));

    for asker in &mut others {
        asker.releases().await;
    }
    while let Some((_, mut asker)) = held.pop() {
        asker.releases().await;
        let expected: BTreeSet<_> = held.iter().map(|(key, _)| key.clone()).collect();
        eventually("a key that is free leaves the list", case.soon(), async || {
            keys().await == expected
        })
        .await;
    }
}

/// With others in line, and in each mode that the store has.
pub async fn one_holder_is_told_as_an_inspection_shows_it(subject: &dyn Subject) {
    let case = Case::new(subject, "one holder");
    let (one, two) = (case.process().await, case.process().await);
    let Capabilities { shared, permits, .. } = one.capabilities();
    let (alone, one_of_one) = (Mode::Exclusive, Mode::Permit { of: 1 });
    let modes =
        [(true, alone, alone), (shared, Mode::Shared, alone), (permits, one_of_one, one_of_one)];
    for (_, held, wanted) in modes.into_iter().filter(|(is_served, ..)| *is_served) {
        assert_eq!(two.holder().await, None);
        let (mut holder, began) = (one.claim_in(held, "the holder"), clock::now());
        holder.takes().await;
        let mut waiter = two.claim_in(wanted, "a waiter");
        waiter.is_blocked().await;
        let told = two.holder().await.expect("it is held");
        let held_at_most = clock::now() - began + Duration::from_millis(100);
        assert!(told.held_for.is_none_or(|time| time <= held_at_most), "{told:?}");
        let seen = two.inspect().await.holders;
        let shown = |holder: &Holder| {
            (holder.claim.clone(), holder.mode, holder.token, holder.about.clone())
        };
        assert_eq!(seen.iter().map(shown).collect::<Vec<_>>(), [shown(&told)]);
        waiter.withdrawal().await;
        holder.releases().await;
        case.is_free(&one).await;
    }
}
