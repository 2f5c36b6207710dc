//! The store is out of reach: before a request, in the middle of one, and for good.

use std::time::Duration;

use tests::proxy::Proxy;
use tests::stalls::Stopwatch;

use super::client::Order;
use super::shop::Shop;

/// The store is given 2 s, and a busy machine some more.
const IN_TIME: Duration = Duration::from_secs(6);

#[tokio::test(flavor = "multi_thread")]
async fn while_the_store_is_down_nothing_runs_and_clients_are_told_to_come_back() {
    let shop = Shop::open();
    let proxy = Proxy::start(shop.redis.addr());
    let process = shop.process_at(&proxy.url(), &[]).await;
    for fault in [Proxy::refuse, Proxy::black_hole] {
        fault(&proxy);
        let asked = Stopwatch::start();
        let refused = Order::new("k").send(&process).await;
        let retry_after = refused.assert_problem(503, "idempotency_unavailable").retry_after();
        assert!((1..=2).contains(&retry_after.expect("a Retry-After")), "{refused:?}");
        assert!(asked.own() < IN_TIME, "{:?}", asked.elapsed());
        assert_eq!(shop.runs(), 0);
        proxy.resume();
    }
    Order::new("another").send(&process).await.assert_sold();
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_store_is_down_orders_run_unprotected_where_that_was_chosen() {
    let shop = Shop::open();
    let proxy = Proxy::start(shop.redis.addr());
    let process = shop.process_at(&proxy.url(), &["--fail-open"]).await;
    proxy.refuse();
    for run in 1..=2 {
        let sold = Order::new("k").send(&process).await;
        assert!(sold.assert_sold().text().ends_with("under None"), "no token: {}", sold.text());
        assert_eq!(shop.runs(), run);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_whose_record_cannot_be_written_is_answered_and_is_not_placed_again() {
    let shop = Shop::open();
    let proxy = Proxy::start(shop.redis.addr());
    let cut_off = shop.process_at(&proxy.url(), &[]).await;
    let first = Order::new("k").gate("first").spawn(&cut_off);
    shop.has_begun(1).await;
    proxy.refuse();
    shop.open_gate("first");
    let first = first.await.expect("an answer");
    assert!(!first.assert_sold().is_replayed());
    // The write is tried on under the lock, and here when the store is back.
    proxy.resume();
    let again = Order::new("k").send(&cut_off).await;
    assert_eq!((again.is_replayed(), &again.body), (true, &first.body));
    let other = shop.process(&[]).await;
    assert_eq!(Order::new("k").send(&other).await.body, first.body);
    assert_eq!(shop.runs(), 1);
}
