use lock_core::backend::ZooKeeper;
use lock_core::test_util::{AnyBackend, BoxFuture, Subject, conformance};
use std::time::Duration;
#[derive(Debug)]
struct On;
impl Subject for On {
    fn open(&self) -> BoxFuture<'_, AnyBackend> {
        Box::pin(async {
            AnyBackend::new(
                ZooKeeper::connect("zookeeper://127.0.0.1:21810/conf").await.expect("server"),
            )
        })
    }
    fn slack(&self) -> Duration {
        Duration::from_secs(10)
    }
}
macro_rules! each { ($s:expr, $($p:ident)*) => { $( let t = std::time::Instant::now(); eprint!("{} ... ", stringify!($p)); conformance::$p($s).await; eprintln!("{:?}", t.elapsed()); )* } }
#[tokio::main]
async fn main() {
    let only = std::env::args().nth(1);
    let _ = only;
    each!(&On, one_claim_holds_a_key_at_a_time
            claims_are_granted_in_their_order_of_arrival
            a_withdrawal_hands_the_key_to_the_next_in_line
            a_claim_that_comes_late_does_not_overtake_a_hand_off
            a_waiter_that_gives_up_leaves_no_gap_in_the_line
            a_waiter_whose_process_died_is_passed_over
            a_waiter_that_hangs_is_passed_over
            withdrawing_again_changes_nothing
            without_patience_a_claim_never_joins_the_line
            a_lease_that_nobody_renews_ends_and_the_next_in_line_is_granted
            a_renewed_lease_goes_on
            a_renewal_after_the_lease_ended_is_lost
            a_holder_whose_process_died_is_followed
            an_attempt_whose_reply_was_lost_is_given_the_same_tokens_when_it_asks_again
            a_place_in_the_line_whose_reply_was_lost_is_taken_once
            a_renewal_whose_reply_was_lost_can_be_repeated
            a_withdrawal_whose_reply_was_lost_has_freed_the_key
            an_attempt_whose_reply_was_lost_leaves_nothing_when_withdrawn
            tokens_grow_with_every_grant_of_a_key
            tokens_of_many_keys_grow_key_by_key
            a_holder_learns_that_others_wait_and_that_they_are_gone
            a_change_is_told_until_the_store_was_asked
            nothing_is_left_behind);
}
