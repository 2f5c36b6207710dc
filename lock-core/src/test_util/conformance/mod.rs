//! The properties that the engine relies on, one function each, which panics with what it saw when
//! its property does not hold. Each makes keys of its own, so they may run at the same time on one
//! store; only [`nothing_is_left_behind`] wants it for itself.
//!
//! - `line`: one holder, the order of the line, giving up, dying.
//! - `lease`: ending, renewing, and what is left then.
//! - `lost`: replies that never came.
//! - `tokens`: fencing.
//! - `push`: being told.
//! - `revoke`: being asked to give the key up.
//! - `force`: having the key taken away.
//! - `list`: which keys are busy, and who holds one.
//! - `modes`: sharing the key.
//! - `election`: who leads, and those who follow.
//! - `blocked`: runtimes that do not come to run anything.
//! - `drive`: the verbs as the engine uses them, for the properties.
//!
//! A hold that ran out by the clock of its holder ends a play, and says nothing of the store: such a
//! property is played anew.

mod blocked;
mod drive;
mod election;
mod force;
mod lease;
mod line;
mod list;
mod lost;
mod modes;
mod played;
mod push;
mod revoke;
mod tokens;

pub use blocked::*;
pub use election::*;
pub use force::*;
pub use lease::*;
pub use line::*;
pub use list::*;
pub use lost::*;
pub use modes::*;
#[doc(hidden)]
pub use played::played;
pub use push::*;
pub use revoke::*;
pub use tokens::*;

use super::subject::Subject;

/// Names every property to the macro `$run`, with `$args` before them.
#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_properties {
    ($run:path, $($args:tt)*) => {
        $run! { $($args)*
            one_claim_holds_a_key_at_a_time
            claims_are_granted_in_their_order_of_arrival
            a_withdrawal_hands_the_key_to_the_next_in_line
            a_claim_that_comes_late_does_not_overtake_a_hand_off
            a_waiter_that_gives_up_leaves_no_gap_in_the_line
            a_waiter_whose_process_died_is_passed_over
            a_waiter_that_hangs_is_passed_over
            withdrawing_again_changes_nothing
            a_claim_that_may_not_queue_never_joins_the_line
            a_lease_that_nobody_renews_ends_and_the_next_in_line_is_granted
            a_renewed_lease_goes_on
            a_renewal_after_the_lease_ended_is_lost
            a_holder_whose_process_died_is_followed
            an_attempt_whose_reply_was_lost_is_granted_when_it_asks_again
            a_place_in_the_line_whose_reply_was_lost_is_taken_once
            a_renewal_whose_reply_was_lost_can_be_repeated
            a_withdrawal_whose_reply_was_lost_has_freed_the_key
            an_attempt_whose_reply_was_lost_leaves_nothing_when_withdrawn
            tokens_grow_with_every_grant_of_a_key
            tokens_of_many_keys_grow_key_by_key
            a_holder_learns_that_others_wait_and_that_they_are_gone
            a_change_is_told_until_the_store_was_asked
            a_holder_is_asked_to_give_the_key_up_and_is_told
            only_the_holder_of_the_moment_is_asked_to_give_the_key_up
            a_reply_that_was_lost_does_not_take_the_request_with_it
            a_key_is_taken_from_its_holder_and_handed_to_the_next
            a_key_that_was_taken_away_with_nobody_in_line_is_free
            a_key_is_taken_from_its_holder_ahead_of_the_line
            a_key_is_taken_from_all_who_share_it
            the_busy_keys_of_all_processes_are_listed
            one_holder_is_told_as_an_inspection_shows_it
            readers_hold_a_key_together_and_a_writer_alone
            a_reader_behind_a_writer_waits_for_it
            readers_that_stand_together_are_let_in_together
            a_dead_holder_among_others_frees_its_share_at_its_lease_end
            a_downgrade_lets_readers_in_and_no_writer
            a_downgrade_before_a_writer_keeps_the_key
            a_downgrade_whose_reply_was_lost_can_be_repeated
            a_downgrade_after_the_lease_ended_is_lost
            no_more_permits_are_given_than_there_are
            another_limit_is_refused_while_permits_are_in_use
            a_permit_whose_reply_was_lost_is_given_once
            all_who_share_a_key_are_asked_and_lose_it_together
            those_who_follow_are_told_who_leads_and_who_comes_next
            a_leader_that_died_is_no_leader_at_its_lease_end
            a_holder_that_stood_for_nothing_leads_nothing
            a_term_whose_begin_was_not_told_is_shown_once_it_is_known
            a_leader_whose_key_was_taken_is_not_shown_any_more
            a_hold_goes_on_while_the_runtime_that_took_it_is_blocked
            nothing_is_left_behind
        }
    };
}

macro_rules! run_all {
    ($subject:ident $($property:ident)*) => {
        $(played(async || $property($subject).await).await;)*
    };
}

/// Runs every property, one after the other. In real time it takes some ten times
/// [`Subject::lease`].
///
/// # Panics
///
/// At the first property that does not hold.
pub async fn all(subject: &dyn Subject) {
    __conformance_properties!(run_all, subject);
}

/// Makes a `#[tokio::test]` of every property of [`conformance`](crate::test_util::conformance).
/// Its arguments are those of the attribute, in brackets, and an expression for the
/// [`Subject`](crate::test_util::Subject), made anew for each test:
///
/// ```ignore
/// lock_core::conformance_tests!([start_paused = true], InMemory::default());
/// ```
#[macro_export]
macro_rules! conformance_tests {
    ([$($runtime:tt)*], $subject:expr) => {
        $crate::__conformance_properties! { $crate::__conformance_test, [$($runtime)*] $subject; }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_test {
    ([$($runtime:tt)*] $subject:expr;) => {};
    ([$($runtime:tt)*] $subject:expr; $property:ident $($rest:ident)*) => {
        #[tokio::test($($runtime)*)]
        async fn $property() {
            use $crate::test_util::conformance;
            conformance::played(async || conformance::$property(&$subject).await).await;
        }

        $crate::__conformance_test! { [$($runtime)*] $subject; $($rest)* }
    };
}
