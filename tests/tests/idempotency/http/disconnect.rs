//! A client that closes its connection while its order is placed.

use tests::wait::eventually;

use super::client::Order;
use super::shop::Shop;

#[tokio::test(flavor = "multi_thread")]
async fn the_order_of_a_client_that_goes_away_is_placed_and_waits_for_its_retry() {
    let shop = Shop::open();
    let (mut one, other) = (shop.process(&[]).await, shop.process(&[]).await);
    let gone = Order::new("k").gate("first").spawn(&one);
    shop.has_begun(1).await;
    gone.abort();
    one.has_no_client().await;
    let retry = Order::new("k").gate("first").spawn(&other);
    shop.open_gate("first");
    assert!(retry.await.expect("an answer").assert_sold().is_replayed());
    assert_eq!((shop.runs(), shop.ended()), (1, vec!["sold".to_owned()]));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_order_of_a_client_that_goes_away_is_dropped_where_that_was_chosen() {
    let shop = Shop::open();
    let mut one = shop.process(&["--abort-on-disconnect"]).await;
    let other = shop.process(&["--reject"]).await;
    let gone = Order::new("k").gate("never").spawn(&one);
    shop.has_begun(1).await;
    gone.abort();
    let keys = || shop.redis.keys().into_iter().map(|key| key.name);
    let record = keys().find(|name| name.starts_with("idem:")).expect("it runs");
    // The mark of an abort is all that is left.
    let state = || shop.redis.command::<String>(&["GETRANGE", &record, "5", "5"]);
    eventually("the record is taken back", || state() == "a").await;
    // The record is taken back before its lock is free: a duplicate is refused while that is held.
    eventually("its lock is free", || !keys().any(|name| name.starts_with("lock:{"))).await;
    assert_eq!(one.count("aborted").await, 1);
    Order::new("k").send(&other).await.assert_sold();
    assert_eq!((shop.runs(), shop.ended().len()), (2, 1));
}
