//! Whether others have to be told of what was written.
//!
//! A claim learns of most changes from its own answers. News to it is what somebody else did: that
//! it holds the key now, or no more, that the key is wanted, and who leads. So nothing is said of
//! most changes, which is worth a look at the entry: in PostgreSQL each word to others waits for a
//! lock of the whole server.

use std::time::Duration;

use super::row::{Entry, leader};
use crate::backend::ClaimId;

/// Whether some claim has to be told, other than those who `know`.
pub(super) fn is_news(before: &Entry, after: &Entry, knows: impl Fn(ClaimId) -> bool) -> bool {
    if leader(before, Duration::ZERO) != leader(after, Duration::ZERO) {
        // Followers are not written down.
        return true;
    }
    let is_newly_wanted = after.is_wanted() && !before.is_wanted();
    let is_told = after.granted().iter().any(|owner| {
        let claim = owner.place.claim;
        let held = before.granted().iter().find(|other| other.place.claim == claim);
        let is_news = match held {
            None => true,
            Some(held) => {
                is_newly_wanted
                    || owner.revoke_requested && !held.revoke_requested
                    || owner.tried && !held.tried
            }
        };
        is_news && !knows(claim)
    });
    let holds = |claim| after.granted().iter().any(|owner| owner.place.claim == claim);
    let is_ended = before.granted().iter().any(|owner| {
        let claim = owner.place.claim;
        !holds(claim) && !knows(claim)
    });
    // Nobody holds the key, so whoever waits may have it.
    let is_free = after.granted().is_empty() && after.line().any(|place| !knows(place.claim));
    is_told || is_ended || is_free
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::backend::Mode;
    use crate::backend::register::{Place, Turn, reserve};
    use crate::sql::row::With;

    const LEASE: Duration = Duration::from_secs(9);

    fn id(bits: u128) -> ClaimId {
        ClaimId::from_bits(bits)
    }

    fn place(bits: u128, value: Option<&str>) -> Place<With> {
        let with = With { about: "".into(), value: value.map(Into::into) };
        let (mode, due) = (Mode::Exclusive, None);
        Place { claim: id(bits), mode, lease: LEASE, tokens_max: 1, due, with }
    }

    /// Whether there is news for others when this claim asks for something.
    fn said(entry: &mut Entry, asks: u128, ask: impl FnOnce(&mut Entry, &Turn<'_, With>)) -> bool {
        let (before, ticks) = (entry.clone(), Cell::new(0));
        let mint = |last, count| {
            ticks.set(ticks.get() + 1);
            reserve(last, ticks.get(), count)
        };
        ask(entry, &Turn { now: Duration::ZERO, mint: &mint, wake: &|_| {}, may_grant: true });
        is_news(&before, entry, |claim| claim == id(asks))
    }

    fn joins(bits: u128) -> impl FnOnce(&mut Entry, &Turn<'_, With>) {
        move |entry, turn| {
            let _ = entry.attempt(place(bits, None), true, turn);
        }
    }

    #[test]
    fn what_a_claim_is_answered_is_no_news() {
        let mut entry = Entry::default();
        assert!(!said(&mut entry, 1, joins(1)), "it was granted");
        assert!(said(&mut entry, 2, joins(2)), "the holder learns that it is wanted");
        assert!(!said(&mut entry, 3, joins(3)), "it knows that already");
        assert!(!said(&mut entry, 3, |entry, turn| {
            let _ = entry.withdraw(id(3), turn);
        }));
        assert!(!said(&mut entry, 1, |entry, turn| {
            let _ = entry.renew(id(1), LEASE, true, turn);
        }));
        assert!(
            said(&mut entry, 1, |entry, turn| {
                let _ = entry.withdraw(id(1), turn);
            }),
            "a hand-off"
        );
        assert!(!said(&mut entry, 2, |entry, turn| {
            let _ = entry.withdraw(id(2), turn);
        }));
    }

    #[test]
    fn what_is_done_to_a_holder_is_news_once() {
        let mut entry = Entry::default();
        said(&mut entry, 1, joins(1));
        let revoke = |entry: &mut Entry, turn: &Turn<'_, With>| {
            entry.request_revoke(turn);
        };
        assert!(said(&mut entry, 0, revoke));
        assert!(!said(&mut entry, 0, revoke));
        assert!(said(&mut entry, 0, |entry, turn| {
            entry.force_release(turn);
        }));
    }

    #[test]
    fn whoever_follows_hears_of_each_leader() {
        let mut entry = Entry::default();
        let stands = |entry: &mut Entry, turn: &Turn<'_, With>| {
            let _ = entry.attempt(place(1, Some("a")), true, turn);
        };
        assert!(said(&mut entry, 1, stands));
        assert!(!said(&mut entry, 1, |entry, turn| {
            let _ = entry.renew(id(1), LEASE, true, turn);
        }));
        assert!(said(&mut entry, 1, |entry, turn| {
            let _ = entry.withdraw(id(1), turn);
        }));
    }
}
