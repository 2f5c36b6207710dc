//! A replica that lags takes the place of its primary.

use lock_core::sql::DatabaseError;
use tests::proxy::Proxy;
use tests::wait::{eventually, within};

use crate::support::*;

/// F08 (V2, V3, V8): what the replica had not heard of is lost: another one is granted that key, under a
/// greater token, and the first is told at its next renewal. What it had heard of stays. Until it is
/// promoted, it is refused as what it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_to_a_replica_that_lags_loses_the_last_grants_and_takes_no_token_back() {
    let mut primary = Server::start_primary();
    let link = Proxy::opaque(primary.addr());
    let mut replica = primary.replica_over(link.addr().port());
    let url = primary.url();
    let (one, two) = (connect(&url, ms(9_000)).await, connect(&url, ms(9_000)).await);
    let kept = one.lock("kept").await.expect("a free key");
    let heard = "SELECT 1 FROM lock_status WHERE name = 'kept' AND status = 'held'";
    eventually("the replica hears of it", || {
        replica.try_sql(heard).is_ok_and(|rows| !rows.is_empty())
    })
    .await;
    link.black_hole();
    let lost = one.lock("lost").await.expect("a free key");
    primary.kill();
    replica.move_to(primary.port());
    let error = refused(&url).await;
    assert!(matches!(error, DatabaseError::ReadOnlyServer { .. }), "{error}");
    assert!(error.to_string().contains("a replica"), "{error}");
    assert!(kept.is_held() && lost.is_held(), "nobody has taken them");
    replica.promote();
    let next = within("a grant", two.lock("lost").acquire()).await.expect("a grant");
    assert!(next.token() > lost.token());
    assert!(two.lock("kept").try_acquire().await.expect("an answer").is_none());
    within("word of the loss", lost.lost()).await;
    assert!(!lost.is_held() && kept.is_held() && next.is_held());
    kept.release().await.expect("a release");
    next.release().await.expect("a release");
}
