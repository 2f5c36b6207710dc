//! The token protocol of the quorum, explored exhaustively.
//!
//! A quorum asks N independent servers for a lock and holds it when a majority has granted. Each
//! server numbers its own grants, so the answers differ, and yet the fencing tokens of successive
//! holders must grow. No test of a running quorum can show that: the schedules that break it need
//! a message that is late in just the wrong place. Here [`stateright`] visits every state of a
//! small model instead: three members, two or three clients with a claim or two each.
//!
//! # The protocol
//!
//! 1. A client sends an *attempt* to every member, with the least token that it would take: one
//!    more than the highest it has seen. A free member makes the claim its owner, takes the token
//!    `max(last + 1, least)`, notes it as `last`, and answers it.
//! 2. With the answers of a majority, the client fixes its token: the highest of them. The members
//!    of that majority that answered less are *raised*: if the grant that they answered is still in
//!    force, `last` moves up to the token. The grant counts once a majority is known to have it.
//! 3. The holder writes to a resource that refuses a token below the highest it has seen, and
//!    withdraws. A client may also give up at any time before.
//! 4. A lease ends at a member only after the client's own hold is over, whose clock began earlier.
//!    A write may arrive long after that: its sender was stopped, or the message was slow.
//!    An operator may end one early, or a clock that jumps; then there can be two holders, and only
//!    the tokens keep them apart.
//! 5. A member that lost its data is quarantined: it answers nothing until every lease that it had
//!    granted is over. Then the highest `last` of a majority of the members, itself not counted, is
//!    read and becomes its minimum token, and it grants again, above it. The minimum token is kept
//!    with the member and read as its `last` is. (The real minimum token is that of all keys
//!    together, which is higher.)
//!
//! Messages are delayed, reordered and lost without a bound; how many are duplicated, and how many
//! members lose their data, is bounded by [`Rules`]. Each rule has a switch, and for each switch
//! there is a test which shows that the properties fail without the rule.
//!
//! The lessons of the refutations, beside that the rules are needed:
//!
//! - The owner alone is no condition for a raise. Where a lease ended early, another may have been
//!   granted in between, and a late attempt may have made the claim the owner again.
//! - The repair has to read *after* the quarantine: a grant that counts the lost lease may still be
//!   raising the others before. What was read after one loss is void after the next.
//! - A member that was repaired has to be read with its minimum token, not only with what it has
//!   reserved since.
//! - Two of three members in quarantine at once stay there: who knows what they had? (The real ones
//!   come back when all answer; that tokens grow rests on clocks then.)
//!
//! # Size
//!
//! About 990,000 states, up to 36 steps deep, for the tests that visit all; up to renaming of
//! members and clients, see [`symmetry`]. Half of them are those of three clients and a lost
//! member. The refutations stop at their finds, 18 steps away at most but for one.
//!
//! # What it leaves out
//!
//! Time, other than the order of the ends of holds, leases and quarantines; renewals; the line of
//! waiters; and whether anybody is ever granted at all: these are safety properties. The
//! `sometimes` properties keep them from holding for want of anything happening.

mod client;
mod ledger;
mod member;
mod network;
mod properties;
mod rules;
mod step;
mod symmetry;
mod system;

use stateright::{Checker, HasDiscoveries, Model};

use properties::{EXCLUSIVE, LOST_WRITE, ORDER, STALE_WRITE, UNIQUE};
use rules::{Raise, Repair, Rules, Store, WriteBack};

/// Two clients, of which one comes back for a second claim.
const AGAIN: [u8; 3] = [2, 1, 0];
/// Three clients with a claim each.
const THREE: [u8; 3] = [1, 1, 1];
/// Transaction counters of servers that have nothing to do with each other.
const UNRELATED: Store = Store::Numbers { counters: [2, 0, 1] };

/// Visits every state: all that must hold does, all that must be possible is.
fn holds(rules: Rules) {
    let checker = rules.checker().symmetry().spawn_dfs().join();
    assert!(checker.is_done());
    checker.assert_properties();
}

/// Visits states until each of `properties` is found to fail.
fn refuted(rules: Rules, properties: &[&'static str]) {
    let all = HasDiscoveries::AllOf(properties.iter().copied().collect());
    let checker = rules.checker().symmetry().finish_when(all).spawn_dfs().join();
    for property in properties {
        checker.assert_any_discovery(property);
    }
}

#[test]
fn tokens_grow_and_stale_writes_are_refused() {
    holds(Rules { claims: THREE, writes: true, ..Rules::default() });
}

#[test]
fn a_client_that_comes_back_changes_nothing() {
    holds(Rules { claims: AGAIN, ..Rules::default() });
}

#[test]
fn a_message_that_arrives_twice_changes_nothing() {
    holds(Rules { duplicates: 1, writes: true, ..Rules::default() });
}

#[test]
fn a_member_that_lost_its_data_comes_back_after_quarantine_and_repair() {
    holds(Rules { claims: THREE, losses: 1, ..Rules::default() });
}

#[test]
fn one_member_after_another_may_lose_its_data() {
    holds(Rules { losses: 2, ..Rules::default() });
}

#[test]
fn a_store_that_numbers_by_itself_needs_every_token_written_back() {
    holds(Rules { store: UNRELATED, write_back: WriteBack::Always, ..Rules::default() });
}

#[test]
fn tokens_stay_unique_and_grow_in_real_time_when_a_lease_ends_early() {
    holds(Rules { claims: THREE, early_ends: 1, ..Rules::default() });
}

#[test]
fn a_claim_that_is_granted_again_at_a_member_does_not_count_its_old_grant() {
    holds(Rules { early_ends: 1, duplicates: 1, ..Rules::default() });
}

#[test]
fn where_the_grant_moves_last_a_raise_may_ask_whether_it_is_beyond() {
    let raise = Raise::IfNotBeyond;
    holds(Rules { early_ends: 1, duplicates: 1, raise, ..Rules::default() });
}

#[test]
fn the_maximum_without_write_back_is_refuted() {
    let write_back = WriteBack::Never;
    let rules = Rules { claims: THREE, write_back, writes: true, ..Rules::default() };
    refuted(rules, &[ORDER, UNIQUE, STALE_WRITE]);
}

#[test]
fn no_write_back_on_a_store_that_numbers_by_itself_is_refuted() {
    let rules = Rules { store: UNRELATED, write_back: WriteBack::Never, ..Rules::default() };
    refuted(rules, &[ORDER, UNIQUE]);
}

#[test]
fn write_back_only_where_behind_on_a_store_that_numbers_by_itself_is_refuted() {
    let rules = Rules { claims: THREE, store: UNRELATED, ..Rules::default() };
    refuted(rules, &[ORDER, UNIQUE]);
}

#[test]
fn a_loss_without_quarantine_is_refuted() {
    let rules = Rules { losses: 1, quarantine: false, writes: true, ..Rules::default() };
    refuted(rules, &[EXCLUSIVE, ORDER, UNIQUE, STALE_WRITE, LOST_WRITE]);
}

#[test]
fn a_return_without_repair_is_refuted() {
    let rules = Rules { losses: 1, repair: Repair::None, writes: true, ..Rules::default() };
    refuted(rules, &[ORDER, UNIQUE, STALE_WRITE]);
}

/// A grant that counts the lost lease may still be raising the others.
#[test]
fn a_repair_that_reads_before_the_quarantine_is_over_is_refuted() {
    let rules = Rules { losses: 1, repair: Repair::Early, ..Rules::default() };
    refuted(rules, &[ORDER, UNIQUE]);
}

/// The majority that granted may have been the member itself and the one that is not read.
#[test]
fn a_repair_that_counts_the_empty_member_is_refuted() {
    let rules = Rules { losses: 1, repair: Repair::CountingItself, ..Rules::default() };
    refuted(rules, &[ORDER, UNIQUE]);
}

/// A repairer is stopped between its reads and its write, and the member is lost again meanwhile.
#[test]
fn a_repair_with_what_was_read_after_an_earlier_loss_is_refuted() {
    let rules = Rules { losses: 2, repair: Repair::Lingering, ..Rules::default() };
    refuted(rules, &[ORDER, UNIQUE]);
}

/// The token that counted at the second member is known to the first only as its minimum.
#[test]
fn a_repair_that_does_not_count_the_minimum_of_another_is_refuted() {
    let rules = Rules { losses: 2, repair: Repair::WithoutFloors, ..Rules::default() };
    refuted(rules, &[ORDER, UNIQUE]);
}

/// An operator releases by force at one member, and the raise arrives when another owns it.
#[test]
fn a_raise_that_does_not_ask_for_the_owner_is_refuted() {
    let rules = Rules { early_ends: 1, raise: Raise::Anyway, ..Rules::default() };
    refuted(rules, &[UNIQUE]);
}

/// The same, but the claim is the owner again, by an attempt that arrived late.
#[test]
fn a_raise_that_asks_for_the_owner_only_is_refuted() {
    let rules = Rules { early_ends: 1, duplicates: 1, raise: Raise::IfOwner, ..Rules::default() };
    refuted(rules, &[UNIQUE]);
}
