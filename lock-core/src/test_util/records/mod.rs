//! For authors of record stores: does a store keep what the idempotency engine relies on?
//!
//! One function per property, which panics with what it saw when the property does not hold. Each
//! makes ids of its own, so they may run at the same time on one store; only
//! [`nothing_is_left_behind`] wants it for itself.
//!
//! ```
//! use std::sync::Arc;
//!
//! use lock_core::idempotency::{MemoryRecords, RecordStore};
//! use lock_core::test_util::BoxFuture;
//! use lock_core::test_util::records::{self, RecordSubject};
//!
//! #[derive(Debug, Default)]
//! struct InMemory(MemoryRecords);
//!
//! impl RecordSubject for InMemory {
//!     fn open(&self) -> BoxFuture<'_, Arc<dyn RecordStore>> {
//!         let store: Arc<dyn RecordStore> = Arc::new(self.0.clone());
//!         Box::pin(async { store })
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! records::all(&InMemory::default()).await;
//! # }
//! ```
//!
//! [`record_conformance_tests!`](crate::record_conformance_tests) makes one test per property
//! instead. [`ScriptedRecords`] makes any store slow, silent or forgetful on command, to test what
//! stands above it.
//!
//! - `claims`: who may run. `outcomes`: completing and aborting. `life`: when a record ends.
//! - `damage`: values that are no records. `drive`: the verbs, for the properties.
//! - `subject`: the record store that the suite is run on. `scripted`: one that does as it is told.

mod claims;
mod damage;
mod drive;
mod life;
mod outcomes;
mod scripted;
mod subject;

pub use claims::*;
pub use damage::*;
pub use life::*;
pub use outcomes::*;
pub use scripted::{RecordCall, RecordScript, RecordVerb, ScriptedRecords};
pub use subject::RecordSubject;

/// Names every property to the macro `$run`, with `$args` before them.
#[doc(hidden)]
#[macro_export]
macro_rules! __record_conformance_properties {
    ($run:path, $($args:tt)*) => {
        $run! { $($args)*
            an_absent_record_is_claimed_and_then_in_flight_for_all
            of_a_hundred_claims_at_once_one_wins
            of_a_hundred_claims_at_once_that_may_take_over_the_greatest_token_stays
            a_claim_whose_reply_was_lost_is_answered_the_same_when_it_asks_again
            an_execution_without_an_outcome_is_taken_over_or_refused_as_the_claim_says
            a_claim_under_a_smaller_token_finds_the_execution_in_flight
            another_fingerprint_is_a_mismatch_and_leaves_the_record_alone
            records_of_two_ids_do_not_touch_one_another
            an_age_is_the_time_since_the_claim
            a_completed_record_gives_its_payload_back_byte_for_byte
            an_outcome_without_payload_has_nothing_to_replay_and_nothing_runs_again
            a_completion_whose_reply_was_lost_is_answered_the_same_when_it_asks_again
            the_first_outcome_of_an_execution_stays
            a_completion_after_another_took_over_is_stale_and_dropped
            a_completion_without_a_claim_writes_nothing
            an_abort_makes_room_for_a_new_claim
            an_abort_whose_reply_was_lost_is_answered_the_same_when_it_asks_again
            an_abort_leaves_what_is_not_its_own_in_flight_alone
            an_abort_after_a_takeover_puts_back_what_it_took_over_from
            a_claim_that_arrives_after_its_abort_is_not_taken
            of_a_completion_and_a_takeover_at_once_one_wins
            a_record_in_flight_ends_with_its_life
            a_completed_record_ends_with_its_life
            claiming_again_extends_the_life_and_looking_does_not
            a_completion_begins_a_life_of_its_own
            what_an_abort_puts_back_ends_with_its_own_life
            what_is_no_record_is_a_fault_and_is_left_as_it_was
            nothing_is_left_behind
        }
    };
}

macro_rules! run_all {
    ($subject:ident $($property:ident)*) => { $($property($subject).await;)* };
}

/// Runs every property, one after the other. In real time it takes some five times
/// [`RecordSubject::ttl`].
///
/// # Panics
///
/// At the first property that does not hold.
pub async fn all(subject: &dyn RecordSubject) {
    __record_conformance_properties!(run_all, subject);
}

/// Makes a `#[tokio::test]` of every property of [`records`](crate::test_util::records). Its
/// arguments are those of the attribute, in brackets, and an expression for the
/// [`RecordSubject`](crate::test_util::records::RecordSubject), made anew for each test:
///
/// ```ignore
/// lock_core::record_conformance_tests!([start_paused = true], InMemory::default());
/// ```
#[macro_export]
macro_rules! record_conformance_tests {
    ([$($runtime:tt)*], $subject:expr) => {
        $crate::__record_conformance_properties! {
            $crate::__record_conformance_test, [$($runtime)*] $subject;
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __record_conformance_test {
    ([$($runtime:tt)*] $subject:expr;) => {};
    ([$($runtime:tt)*] $subject:expr; $property:ident $($rest:ident)*) => {
        #[tokio::test($($runtime)*)]
        async fn $property() {
            $crate::test_util::records::$property(&$subject).await;
        }

        $crate::__record_conformance_test! { [$($runtime)*] $subject; $($rest)* }
    };
}
