//! The properties that must always hold, and those that must be possible at all.

use stateright::Property;

use crate::client::{ClaimId, Client, Phase};
use crate::member::{MAJORITY, Set};
use crate::network::Message;
use crate::rules::Rules;
use crate::system::System;

/// Two clients never hold the lock at once. Needs leases that last.
pub(crate) const EXCLUSIVE: &str = "one holder at a time";
/// Every grant has a higher token than the one before. Needs leases that last.
pub(crate) const ORDER: &str = "tokens grow in the order of the grants";
/// A grant has a higher token than those that counted before it was asked for.
pub(crate) const REAL_TIME: &str = "tokens grow in real time";
/// No two grants have the same token.
pub(crate) const UNIQUE: &str = "no token is granted twice";
/// No write of an earlier grant is accepted after one of a later grant.
pub(crate) const STALE_WRITE: &str = "no stale write is accepted";
/// The resource refuses no write of who holds the lock.
pub(crate) const LOST_WRITE: &str = "no write of the holder is refused";

/// The properties that the model with `rules` is about.
pub(crate) fn all(rules: &Rules) -> Vec<Property<Rules>> {
    let mut all = vec![
        Property::always(UNIQUE, |_, state: &System| !state.ledger.broken.twice),
        Property::sometimes("a grant", |_, state: &System| state.ledger.grants > 0),
        Property::sometimes("a hand-over", |_, state: &System| state.ledger.grants > 1),
        Property::sometimes("a raise is needed", |_, state: &System| {
            granting(state).next().is_some()
        }),
    ];
    if rules.leases_last() {
        all.extend([
            Property::always(EXCLUSIVE, |_, state: &System| holders(state) <= 1),
            Property::always(ORDER, |_, state: &System| !state.ledger.broken.order),
        ]);
    } else {
        all.extend([
            Property::always(REAL_TIME, |_, state: &System| !state.ledger.broken.real_time),
            Property::sometimes("two holders", |_, state: &System| holders(state) > 1),
        ]);
    }
    if rules.writes {
        all.extend([
            Property::always(STALE_WRITE, |_, state: &System| !state.ledger.broken.stale_write),
            Property::always(LOST_WRITE, |_, state: &System| !state.ledger.broken.lost_write),
            Property::sometimes("a stale write is refused", |_, state: &System| {
                stale_writes(state)
            }),
        ]);
    }
    if rules.losses > 0 {
        all.push(Property::sometimes(
            "a returned member takes part in a grant",
            |_, state: &System| {
                granting(state).any(|(claim, majority)| {
                    let members = state.members.iter().enumerate();
                    members
                        .filter(|(at, _)| majority & (1 << at) != 0)
                        .any(|(_, member)| member.returned && member.owner == Some(claim))
                })
            },
        ));
    }
    all
}

fn holders(state: &System) -> usize {
    state.clients.iter().filter_map(Client::holds).count()
}

/// The claims that one acknowledged raise makes grants, each with the majority that it has then.
fn granting(state: &System) -> impl Iterator<Item = (ClaimId, Set)> + '_ {
    state.network.iter().filter_map(|message| {
        let Message::Raised { claim, member } = *message else { return None };
        match state.clients[usize::from(claim.client)].phase {
            Phase::Raising { reached, .. } if reached & (1 << member) == 0 => {
                let majority = reached | (1 << member);
                (majority.count_ones() == MAJORITY).then_some((claim, majority))
            }
            _ => None,
        }
    })
}

fn stale_writes(state: &System) -> bool {
    state.network.iter().any(|message| match message {
        Message::Write { claim, token, .. } => {
            !state.is_open(*claim) && state.ledger.refuses(*token)
        }
        _ => false,
    })
}
