//! The connections of a store, and those of others.

use std::time::Duration;

use lock_core::sql::MysqlConfig;
use lock_core::{LockClient, LockOptions};
use sqlx::Row;
use sqlx::mysql::MySqlPoolOptions;
use tests::wait::{eventually, within};

use crate::support::*;

/// F25 (V5): all sessions of the store are ended by an administrator. Its holds stay, and a waiter is
/// served.
#[tokio::test]
async fn sessions_that_an_administrator_ends_come_back() {
    let place = Place::alone();
    let (one, two) = (place.client().await, place.client().await);
    let guard = one.lock("k").await.expect("a free key");
    let waiting = tokio::spawn(async move { two.lock("k").await });
    waits(&place, 1).await;
    let all = "SELECT CONCAT('KILL ', id) FROM information_schema.processlist \
               WHERE id <> CONNECTION_ID() AND user = 'owner'";
    let ended = place.server.sql(all);
    assert!(ended.len() >= 2);
    for statement in ended {
        // One may have ended by itself since.
        drop(place.server.try_sql(statement.get::<String, _>(0)));
    }
    assert!(guard.is_held());
    within("a release", guard.release()).await.expect("a release");
    let next = within("a hand-off", waiting).await.expect("no panic").expect("a grant");
    next.release().await.expect("a release");
}

/// F17 (V4): the options of a pool are used, and none of its connections: one that is exhausted holds
/// up nothing.
#[tokio::test]
async fn a_pool_of_the_services_own_gives_its_options_alone() {
    let place = Place::new();
    let pool =
        MySqlPoolOptions::new().max_connections(1).connect_with(place.server.options()).await;
    let pool = pool.expect("a pool");
    let all = pool.acquire().await.expect("its one connection");
    let table = lock_core::sql::TableName::new(&place.table).expect("a name");
    let config = MysqlConfig::of_pool(&pool).table(table).connections(1);
    config.migrate().await.expect("the tables");
    let locks = LockClient::with_backend(config.connect().await.expect("a store"));
    let tasks: Vec<_> = (0..8)
        .map(|n| {
            let locks = locks.clone();
            let options = LockOptions::new().with_wait(Duration::from_secs(9));
            tokio::spawn(async move { locks.lock(format!("{n}")).options(options).await })
        })
        .collect();
    for task in tasks {
        let guard = task.await.expect("no panic").expect("a free key");
        guard.release().await.expect("a release");
    }
    drop(all);
}

/// V3, V5: keys that differ in case, in an accent or in spaces at their end are different keys, and a
/// process that waits for many at once is served of each.
#[tokio::test]
async fn keys_that_look_alike_to_a_collation_are_different() {
    let place = Place::new();
    let (one, two) = (place.client().await, place.client().await);
    let keys = ["k", "K", "k ", "ḱ", "it's \\ a 'key'"];
    let mut guards = Vec::new();
    for key in keys {
        guards.push(one.lock(key).await.expect("a free key"));
    }
    let waiting: Vec<_> = keys.map(|key| tokio::spawn(two.lock(key).acquire())).into();
    for key in keys {
        eventually("it waits", || {
            let seen = futures_executor::block_on(one.inspect(key));
            seen.is_ok_and(|seen| seen.waiters.len() == 1)
        })
        .await;
    }
    for guard in guards {
        guard.release().await.expect("a release");
    }
    for task in waiting {
        let guard = within("a hand-off", task).await.expect("no panic").expect("a grant");
        guard.release().await.expect("a release");
    }
    idle(&two).await;
}

async fn waits(place: &Place, n: i64) {
    let query =
        format!("SELECT CAST(waiting AS SIGNED) FROM {}_status WHERE name = 'k'", place.table);
    eventually("it waits", || {
        place.server.sql(&*query).first().is_some_and(|row| row.get::<i64, _>(0) == n)
    })
    .await;
}
