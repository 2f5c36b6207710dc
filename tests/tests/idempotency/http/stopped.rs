//! A process that stands still, or dies, in the middle of a handler.

use super::client::Order;
use super::shop::Shop;

const LEASE: [&str; 2] = ["--lease-ms", "1000"];

#[tokio::test(flavor = "multi_thread")]
async fn a_winner_stopped_past_its_lease_is_overtaken_and_its_late_completion_is_refused() {
    let shop = Shop::open();
    let mut winner = shop.process(&[&LEASE[..], &["--report-lost"]].concat()).await;
    let mut other = shop.process(&LEASE).await;
    let stopped = Order::new("k").gate("both").spawn(&winner);
    shop.has_begun(1).await;
    winner.worker().freeze();
    shop.open_gate("both");
    // Waits for the lease of the one that is stopped, and runs under a higher token.
    let second = Order::new("k").gate("both").send(&other).await;
    assert!(!second.assert_sold().is_replayed());
    winner.worker().thaw();
    // Its own response is not sent: it is not what all others are given.
    let late = stopped.await.expect("an answer");
    assert!(late.assert_problem(503, "idempotency_lost").retry_after().is_some());
    assert_eq!(winner.count("stale_completions").await, 1);
    assert_eq!((other.count("unknown").await, other.count("stale_completions").await), (1, 0));
    assert_eq!(shop.ended(), ["sold", "refused by the fence"]);
    for process in [&winner, &other] {
        let again = Order::new("k").send(process).await;
        assert_eq!((again.is_replayed(), &again.body), (true, &second.body));
    }
    assert_eq!(shop.runs(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_winner_stopped_past_its_lease_is_cut_off_at_its_next_step() {
    let shop = Shop::open();
    let (mut winner, other) = (shop.process(&LEASE).await, shop.process(&LEASE).await);
    let stopped = Order::new("k").gate("never").spawn(&winner);
    shop.has_begun(1).await;
    winner.worker().freeze();
    let second = Order::new("k").send(&other).await;
    second.assert_sold();
    winner.worker().thaw();
    stopped.await.expect("an answer").assert_problem(503, "idempotency_lost");
    assert_eq!(shop.ended(), ["sold"], "the first never came to its end");
    assert_eq!(Order::new("k").send(&winner).await.body, second.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_process_may_have_done_is_not_run_again_where_that_was_chosen() {
    let shop = Shop::open();
    let options = [&LEASE[..], &["--refuse-unknown"]].concat();
    let (mut dead, other) = (shop.process(&LEASE).await, shop.process(&options).await);
    let lost = Order::new("k").gate("never").spawn(&dead);
    shop.has_begun(1).await;
    dead.worker().kill();
    lost.abort();
    for _ in 0..2 {
        let refused = Order::new("k").send(&other).await;
        assert_eq!(refused.assert_problem(409, "idempotency_outcome_unknown").retry_after(), None);
    }
    assert_eq!(shop.runs(), 1);
    // Another service of the same records may choose otherwise.
    let bold = shop.process(&LEASE).await;
    Order::new("k").send(&bold).await.assert_sold();
    assert_eq!(shop.runs(), 2);
}
