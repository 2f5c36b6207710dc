//! One execution, whatever comes at once.

use std::collections::HashSet;

use tests::wait::eventually;

use super::client::Order;
use super::shop::Shop;

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_duplicates_over_four_processes_are_one_execution_and_one_response() {
    let shop = Shop::open();
    let mut processes = Vec::new();
    for _ in 0..4 {
        processes.push(shop.process(&[]).await);
    }
    let order = || Order::new("k").gate("all");
    let all: Vec<_> = (0..100).map(|n| order().spawn(&processes[n % 4])).collect();
    shop.has_begun(1).await;
    shop.open_gate("all");
    let (mut bodies, mut first) = (HashSet::new(), 0);
    for one in all {
        let answer = one.await.expect("an answer");
        answer.assert_sold();
        first += usize::from(!answer.is_replayed());
        bodies.insert(answer.body);
    }
    assert_eq!((shop.runs(), bodies.len(), first), (1, 1, 1));
    assert_eq!(shop.ended(), ["sold"]);
    let (mut executed, mut replayed) = (0, 0);
    for process in &mut processes {
        executed += process.count("executed").await;
        replayed += process.count("replayed").await;
        assert_eq!(process.count("busy").await, 0, "nothing is left behind");
    }
    assert_eq!((executed, replayed), (1, 99));
    // Beside the record only the fence of its lock. One who has left the line may give back what it
    // was handed meanwhile.
    eventually("nothing else is left", || shop.redis.keys().len() == 2).await;
}

#[tokio::test]
async fn a_record_outlives_the_process_that_wrote_it() {
    let shop = Shop::open();
    let mut one = shop.process(&[]).await;
    let first = Order::new("k").send(&one).await;
    one.worker().kill();
    let other = shop.process(&[]).await;
    let again = Order::new("k").send(&other).await;
    assert!(again.is_replayed());
    assert_eq!((again.status, &again.body), (first.status, &first.body));
    Order::new("k")
        .body("two of them")
        .send(&other)
        .await
        .assert_problem(422, "idempotency_key_reused");
    assert_eq!(shop.runs(), 1);
}

#[tokio::test]
async fn a_duplicate_of_another_process_is_refused_at_once_where_that_was_chosen() {
    let shop = Shop::open();
    let (one, other) = (shop.process(&[]).await, shop.process(&["--reject"]).await);
    let first = Order::new("k").gate("first").spawn(&one);
    shop.has_begun(1).await;
    let refused = Order::new("k").send(&other).await;
    assert!(refused.assert_problem(409, "idempotency_in_flight").retry_after().is_some());
    shop.open_gate("first");
    let first = first.await.expect("an answer");
    assert_eq!(Order::new("k").send(&other).await.body, first.assert_sold().body);
}
