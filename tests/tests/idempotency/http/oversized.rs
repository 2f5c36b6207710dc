//! A response that is too long for its record.

use super::client::Order;
use super::shop::Shop;

#[tokio::test]
async fn an_oversized_response_is_given_in_full_and_never_runs_twice() {
    let shop = Shop::open();
    let (one, other) = (shop.process(&[]).await, shop.process(&[]).await);
    let first = Order::new("k").bytes(1024 * 1024).send(&one).await;
    assert_eq!(first.assert_sold().body.len(), 1024 * 1024);
    for process in [&one, &other] {
        let again = Order::new("k").bytes(1024 * 1024).send(process).await;
        again.assert_problem(409, "idempotency_response_not_stored");
    }
    assert_eq!(shop.runs(), 1);
}

#[tokio::test]
async fn a_response_at_the_bound_is_stored() {
    let shop = Shop::open();
    let (one, other) = (shop.process(&[]).await, shop.process(&[]).await);
    let first = Order::new("k").bytes(65_536).send(&one).await;
    let again = Order::new("k").bytes(65_536).send(&other).await;
    assert_eq!((again.is_replayed(), &again.body), (true, &first.assert_sold().body));
}
