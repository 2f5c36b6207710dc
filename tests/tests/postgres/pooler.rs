//! A pooler in transaction mode between the locks and their server.

use lock_core::sql::DatabaseError;
use lock_core::{LockClient, LockGuard};
use tests::postgres::PgBouncer;
use tests::wait::{eventually, within};

use crate::support::*;

async fn hands_over(from: LockGuard, locks: &LockClient, to: &LockClient) -> LockGuard {
    let waiting = tokio::spawn(to.lock("k").acquire());
    eventually("it waits", || {
        let seen = futures_executor::block_on(locks.inspect("k"));
        seen.is_ok_and(|seen| seen.waiters.len() == 1)
    })
    .await;
    from.release().await.expect("a release");
    within("a hand-off", waiting).await.expect("no panic").expect("a grant")
}

/// F25 (V5): no word arrives there and nothing can be prepared, so waiters look; also beside clients
/// that come to the server itself.
#[tokio::test]
async fn a_pooler_in_transaction_mode_is_served_without_pushes() {
    let place = Place::new();
    let pooler = PgBouncer::start(&place.server);
    let url = format!("{}?table={}&create=true", pooler.url(), place.table);
    let (one, two) = (connect(&url, ms(30_000)).await, connect(&url, ms(30_000)).await);
    let direct = place.client().await;
    let mut guard = one.lock("k").await.expect("a free key");
    for (locks, to) in [(&one, &two), (&two, &direct), (&direct, &one)] {
        let token = guard.token();
        guard = hands_over(guard, locks, to).await;
        assert!(guard.token() > token);
    }
    guard.release().await.expect("a release");
    // Many at once, over fewer connections at the server than there are statements.
    let tasks: Vec<_> = (0..40)
        .map(|n| {
            let locks = if n % 2 == 0 { one.clone() } else { two.clone() };
            tokio::spawn(async move {
                let guard = locks.lock(format!("it's {}", n / 2)).await.expect("a grant");
                guard.release().await.expect("a release");
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("no panic");
    }
    let error = refused(&format!("{url}&durability=async")).await;
    assert!(matches!(error, DatabaseError::Option { .. }), "{error}");
}
