//! Requests that the server carries out when nobody waits for them any more, and many at once.

use std::time::Duration;

use sqlx::{AssertSqlSafe, Row};
use tests::proxy::{Action, Match, Proxy};
use tests::wait::{eventually, within};

use crate::support::*;

/// F14 (V6): a statement that takes a key hangs on its way, is given up and withdrawn, and arrives then.
/// It takes nothing.
#[tokio::test]
async fn a_grant_that_is_asked_for_late_is_none() {
    // A server of its own, as it is counted what the server does.
    let place = Place::alone();
    // The row is there, or it is made.
    for key in ["new", "used"] {
        let proxy = Proxy::mysql(place.server.addr());
        let url = format!(
            "{}?table={}&create=true&connections=1",
            place.server.url_over("owner", proxy.addr()),
            place.table
        );
        let locks = connect(&url, ms(30_000)).await;
        // Its statements are prepared from then on.
        for key in ["other", "used"] {
            locks.lock(key).await.expect("a free key").release().await.expect("a release");
        }
        let taking = Match::verb("EXECUTE").containing(key).containing("pid=");
        let trap = proxy.trap(taking, Action::HoldRequest);
        let error = locks.lock(key).options(once()).try_acquire().await.expect_err("it hangs");
        assert!(trap.has_sprung(), "{error:?}");
        // It is withdrawn: over another connection, as this one is silent.
        eventually("it is withdrawn", || locks.stats().keys == 0).await;
        let taken = "SELECT CAST(variable_value AS SIGNED) FROM information_schema.global_status \
                     WHERE variable_name = 'Com_insert_select'";
        let carried_out = || place.server.sql(taken)[0].get::<i64, _>(0);
        let before = carried_out();
        trap.release();
        eventually("the server has carried it out", || carried_out() > before).await;
        let held = format!("SELECT 1 FROM {}_status WHERE status = 'held'", place.table);
        assert!(place.server.sql(held).is_empty(), "{key} is held by nobody who knows");
        let next = within("a free key", place.client().await.lock(key).acquire()).await;
        next.expect("a free key").release().await.expect("a release");
    }
}

/// F14 (V6): a statement that takes a key begins in time, waits for its row and is given up meanwhile. It
/// takes nothing when the row is to be had.
#[tokio::test]
async fn a_grant_that_waits_for_its_row_past_its_time_is_none() {
    let place = Place::new();
    let proxy = Proxy::mysql(place.server.addr());
    let url = format!(
        "{}?table={}&create=true&connections=1",
        place.server.url_over("owner", proxy.addr()),
        place.table
    );
    let locks = connect(&url, ms(30_000)).await;
    locks.lock("k").await.expect("a free key").release().await.expect("a release");
    let mut stranger = place.stranger().await;
    let row = format!("BEGIN; SELECT 1 FROM {} WHERE name = 'k' FOR UPDATE", place.table);
    sqlx::raw_sql(AssertSqlSafe(row)).execute(&mut stranger).await.expect("a row");
    let taking = Match::verb("EXECUTE").containing("pid=");
    let trap = proxy.trap(taking, Action::HoldRequest);
    let trying = tokio::spawn({
        let locks = locks.clone();
        async move { locks.lock("k").options(once().with_wait(ms(9_000))).try_acquire().await }
    });
    trap.sprung().await;
    // A request has 2 s, and a wait for a row 1 s: so late it outlasts the request. On a machine that
    // is slower still it is late in any case.
    tokio::time::sleep(ms(1_500)).await;
    trap.release();
    trying.await.expect("no panic").expect_err("the row is locked");
    sqlx::raw_sql("ROLLBACK").execute(&mut stranger).await.expect("a row");
    eventually("it is withdrawn", || locks.stats().keys == 0).await;
    // Behind whatever waited for the row.
    let row = format!(
        "SELECT CAST(holder IS NULL OR until < UNIX_TIMESTAMP() * 1000 AS SIGNED) \
         FROM {} WHERE name = 'k' FOR UPDATE",
        place.table
    );
    assert_eq!(place.server.sql(row)[0].get::<i64, _>(0), 1, "it is held by nobody who knows");
}

/// Many holds are renewed by few statements; a row that a stranger keeps costs that one alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_holds_are_renewed_together_and_one_that_is_locked_holds_up_no_other() {
    const HOLDS: usize = 300;
    let place = Place::new();
    let locks = connect(&place.new_url(), ms(6_000)).await;
    // All at once, so that they are due together.
    let all = (0..HOLDS).map(|n| locks.lock(format!("k{n}")).acquire());
    let all = futures_util::future::join_all(all).await;
    let mut guards: Vec<_> = all.into_iter().map(|guard| guard.expect("a free key")).collect();
    let mut stranger = place.stranger().await;
    let lock = format!("BEGIN; SELECT 1 FROM {} WHERE name = 'k7' FOR UPDATE", place.table);
    sqlx::raw_sql(AssertSqlSafe(lock)).execute(&mut stranger).await.expect("a row");
    let ends = format!("SELECT MIN(until) FROM {} WHERE name <> 'k7'", place.table);
    let ends = || place.server.sql(&*ends)[0].get::<i64, _>(0);
    let before = locks.stats();
    // Each of the others is renewed twice, at least: the earliest end is that of the last renewal.
    for _ in 0..2 {
        let first = ends();
        eventually("all others are renewed", || ends() > first + 500).await;
    }
    // The answers to the last of them may be on their way.
    let renewals = || locks.stats().renewals - before.renewals;
    eventually("their renewals are answered", || renewals() > 250).await;
    let requests = locks.stats().store_requests - before.store_requests;
    let renewals = renewals();
    assert!(2 * requests < renewals, "{requests} requests for {renewals} renewals");
    drop(guards.remove(7));
    assert!(guards.iter().all(|guard| guard.is_held()));
    drop(stranger);
    for guard in guards {
        guard.release().await.expect("a release");
    }
}

/// V3, V4: renewals that go together, beside holders who come and go and waiters who join the lines of
/// the same keys, end in no deadlock and cost no hold. Each token is greater than the one before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_and_single_verbs_do_not_stand_in_each_others_way() {
    const KEYS: usize = 40;
    // A server of its own, as its deadlocks are counted.
    let place = Place::alone();
    let (one, two) =
        (connect(&place.new_url(), ms(6_000)).await, connect(&place.new_url(), ms(6_000)).await);
    let deadlocks = "SELECT CAST(variable_value AS SIGNED) FROM information_schema.global_status \
                     WHERE variable_name = 'Innodb_deadlocks'";
    let deadlocks = || place.server.sql(deadlocks)[0].get::<i64, _>(0);
    let before = deadlocks();
    let tasks: Vec<_> = (0..2 * KEYS)
        .map(|n| {
            let locks = if n % 2 == 0 { one.clone() } else { two.clone() };
            tokio::spawn(async move {
                let (key, mut last) = (format!("k{}", n / 2), 0);
                for turn in 0..4_u64 {
                    let wait = once().with_wait(Duration::from_secs(30));
                    let guard = locks.lock(&*key).options(wait).await.expect("a grant");
                    let token = u64::from(guard.token());
                    assert!(token > last, "{key}: {token} after {last}");
                    last = token;
                    // Some are renewed a few times, and some are given back at once.
                    tokio::time::sleep(ms((turn % 3) * 2_200)).await;
                    assert!(guard.is_held(), "{key} is lost");
                    guard.release().await.expect("a release");
                }
            })
        })
        .collect();
    for task in tasks {
        within("its turns", task).await.expect("no panic");
    }
    assert_eq!(deadlocks(), before);
    assert_eq!(one.stats().lost + two.stats().lost, 0);
    idle(&one).await;
}
