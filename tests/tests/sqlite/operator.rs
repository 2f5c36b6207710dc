//! The view that an operator sees at a SQL prompt, and the pool that is brought along.

use lock_core::LockClient;
use lock_core::sql::SqliteConfig;
use sqlx::Row;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};

use crate::support::*;

async fn status(place: &Place) -> Vec<(String, String, i64, i64, String)> {
    let mut connection = place.connection().await;
    let query = "SELECT name, status, token, waiting, about FROM lock_status ORDER BY name";
    let rows = sqlx::query(query).fetch_all(&mut connection).await.expect("the view");
    rows.iter().map(|row| (row.get(0), row.get(1), row.get(2), row.get(3), row.get(4))).collect()
}

/// The view tells who holds what, under which token, and how many wait.
#[tokio::test]
async fn a_view_shows_the_locks_to_people() {
    let place = Place::new();
    let (locks, other) = (place.client().await, place.client().await);
    let named = once().with_name("POST /buy");
    let guard = locks.lock("held").options(named).await.expect("a free key");
    locks.lock("free").await.expect("a free key").release().await.expect("a release");
    let waiting = tokio::spawn(async move { other.lock("held").await.map(drop) });
    tests::wait::eventually("one waits", || {
        let inspected = futures_executor::block_on(locks.inspect("held"));
        inspected.is_ok_and(|seen| seen.waiters.len() == 1)
    })
    .await;
    let seen = status(&place).await;
    let about = format!("pid={} name=POST /buy", std::process::id());
    assert_eq!(seen.len(), 2);
    assert_eq!((&*seen[0].0, &*seen[0].1, seen[0].3), ("free", "free", 0));
    assert_eq!((&*seen[1].0, &*seen[1].1, seen[1].3), ("held", "held", 1));
    assert!(seen[1].2 >= i64::from(guard.token()), "{seen:?}");
    assert!(seen[1].4.starts_with("host=") && seen[1].4.ends_with(&about), "{seen:?}");
    let inspected = locks.inspect("held").await.expect("an answer");
    let holder = inspected.holder().and_then(|holder| holder.about.clone());
    assert!(holder.is_some_and(|told| told.ends_with(&about)), "{inspected:?}");
    guard.release().await.expect("a release");
    waiting.await.expect("no panic").expect("a grant");
}

/// F17 (V4): the options of a pool are used, and none of its connections: one that is exhausted holds up
/// nothing.
#[tokio::test]
async fn a_pool_of_the_services_own_gives_its_options_alone() {
    let place = Place::new();
    let options = SqliteConnectOptions::new().filename(place.path()).create_if_missing(true);
    let pool = SqlitePoolOptions::new().max_connections(1).connect_with(options);
    let pool = pool.await.expect("a pool");
    let all = pool.acquire().await.expect("its one connection");
    let config = SqliteConfig::of_pool(&pool);
    config.migrate().await.expect("the tables");
    let locks = LockClient::with_backend(config.connect().await.expect("a store"));
    let guard = locks.lock("k").await.expect("a free key");
    assert_eq!(status(&place).await.len(), 1);
    guard.release().await.expect("a release");
    drop(all);
}

/// A database in this process is a store of its own, with nothing to make before.
#[tokio::test]
async fn a_database_in_memory_is_made_by_itself_and_shared_by_nobody() {
    let (one, two) =
        (connect("sqlite::memory:", ms(9_000)).await, connect("sqlite::memory:", ms(9_000)).await);
    let (first, second) = (one.lock("k").await, two.lock("k").await);
    first.expect("a free key").release().await.expect("a release");
    second.expect("another database").release().await.expect("a release");
}
