//! Pushes between processes, and what becomes of them.

use std::time::Duration;

use lock_core::sql::PostgresConfig;
use lock_core::{LockClient, LockOptions};
use sqlx::Row;
use sqlx::postgres::PgPoolOptions;
use tests::wait::{eventually, within};

use crate::support::*;

async fn waits(place: &Place, n: i32) {
    let query = format!("SELECT waiting FROM {}_status WHERE name = 'k'", place.table);
    eventually("it waits", || {
        place.server.sql(&*query).first().is_some_and(|row| row.get::<i32, _>(0) == n)
    })
    .await;
}

/// So many connections that listen on the channel of this table.
fn listeners(place: &Place) -> usize {
    let query = format!(
        "SELECT pid FROM pg_stat_activity WHERE query = 'LISTEN \"{}_change\"'",
        place.table
    );
    place.server.sql(query).len()
}

/// F25 (V5): all sessions of the store are ended by an administrator. Its holds stay, and a waiter is
/// told of its turn again, long before anything would end by itself.
#[tokio::test]
async fn sessions_that_an_administrator_ends_come_back() {
    let place = Place::alone();
    let (one, two) = (place.client().await, place.client().await);
    eventually("both listen", || listeners(&place) == 2).await;
    let guard = one.lock("k").await.expect("a free key");
    let waiting = tokio::spawn(async move { two.lock("k").await });
    waits(&place, 1).await;
    let ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                 WHERE application_name = 'lock-core'";
    assert!(place.server.sql(ended).len() >= 4);
    eventually("both listen again", || listeners(&place) == 2).await;
    assert!(guard.is_held());
    within("a release", guard.release()).await.expect("a release");
    let next = within("a hand-off", waiting).await.expect("no panic").expect("a grant");
    next.release().await.expect("a release");
}

/// V8: a key that nobody else wants is taken and given back without a word: in PostgreSQL each word
/// waits for a lock of the whole server.
#[tokio::test]
async fn nothing_is_said_of_a_key_that_nobody_waits_for() {
    let place = Place::new();
    let locks = place.client().await;
    let mut stranger = sqlx::postgres::PgListener::connect_with(
        &PgPoolOptions::new()
            .max_connections(1)
            .connect_with(place.server.options())
            .await
            .unwrap(),
    )
    .await
    .expect("a connection");
    eventually("it listens", || listeners(&place) == 1).await;
    stranger.listen(&format!("{}_change", place.table)).await.expect("a channel");
    for _ in 0..20 {
        let guard = locks.lock("k").await.expect("a free key");
        assert!(locks.lock("k").try_acquire().await.expect("an answer").is_none());
        guard.release().await.expect("a release");
    }
    place.server.sql(format!("SELECT pg_notify('{}_change', 'the-end')", place.table));
    loop {
        let word = within("a word", stranger.recv()).await.expect("a word");
        // A store hears itself when it begins. What is said of a key has who says it before it.
        assert!(!word.payload().contains(' '), "{word:?}");
        if word.payload() == "the-end" {
            break;
        }
    }
}

/// F17 (V4): the options of a pool are used, and none of its connections: one that is exhausted holds
/// up nothing. Also with `durability=async`.
#[tokio::test]
async fn a_pool_of_the_services_own_gives_its_options_alone() {
    let place = Place::new();
    let pool = PgPoolOptions::new().max_connections(1).connect_with(place.server.options()).await;
    let pool = pool.expect("a pool");
    let all = pool.acquire().await.expect("its one connection");
    let table = lock_core::sql::TableName::new(&place.table).expect("a name");
    let config = PostgresConfig::of_pool(&pool)
        .table(table)
        .durability(lock_core::sql::Durability::Async)
        .connections(1);
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
