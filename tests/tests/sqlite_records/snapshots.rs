//! Transactions of SQLite that have read before others wrote.

use tests::executions::{replay, run};

use crate::payments::{paid, pay};
use crate::support::Shop;

/// A second transaction that has read before the first wrote is told to begin anew, and may.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_that_others_came_before_may_be_done_again_under_the_same_execution() {
    let shop = Shop::new().await;
    let once = shop.process().await;
    let mut execution = run(&once, "k").await;
    let mut tx = shop.begin().await;
    let read = sqlx::query_scalar::<_, i64>("SELECT count(*) FROM payments").fetch_one(&mut *tx);
    assert_eq!(read.await.expect("a table"), 0);
    let mut other = shop.begin().await;
    pay(&mut other).await;
    other.commit().await.expect("a commit");
    let error = execution.complete_in(&mut tx, paid()).await.expect_err("what it read is old");
    assert!(error.is_retryable(), "{error:?}");
    drop(tx);
    let mut tx = shop.begin().await;
    pay(&mut tx).await;
    execution.commit(tx, paid()).await.expect("a commit");
    assert_eq!((shop.payments().await, replay(&once, "k").await), (2, paid()));
}
