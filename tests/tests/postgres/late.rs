//! Requests that the server carries out when nobody waits for them any more.

use sqlx::Row;
use tests::proxy::{Action, Match, Proxy};
use tests::wait::{eventually, within};

use crate::support::*;

/// F14 (V6): a statement that takes a key hangs on its way, is given up and withdrawn, and arrives then.
/// It takes nothing.
#[tokio::test]
async fn a_grant_that_is_asked_for_late_is_none() {
    let place = Place::new();
    // The row is there, or it is made.
    for key in ["new", "used"] {
        let proxy = Proxy::postgres(place.server.addr());
        let locks = connect(&place.url_through(&proxy), ms(30_000)).await;
        // Its statements are prepared from then on.
        for key in ["other", "used"] {
            locks.lock(key).await.expect("a free key").release().await.expect("a release");
        }
        let taking = Match::verb("BIND").containing(key).containing("pid=");
        let trap = proxy.trap(taking, Action::HoldRequest);
        let error = locks.lock(key).options(once()).try_acquire().await.expect_err("it hangs");
        assert!(trap.has_sprung(), "{error:?}");
        // It is withdrawn: over another connection, as this one is silent.
        eventually("it is withdrawn", || locks.stats().keys == 0).await;
        trap.release();
        // The server has read all that came over that connection once its session has ended.
        let sessions = "SELECT pid FROM pg_stat_activity WHERE application_name = 'lock-core' \
                        AND state_change < clock_timestamp() - interval '1 second'";
        drop(locks);
        proxy.cut();
        eventually("its sessions are gone", || place.server.sql(sessions).is_empty()).await;
        let held = format!("SELECT 1 FROM {}_status WHERE status = 'held'", place.table);
        assert!(place.server.sql(held).is_empty(), "{key} is held by nobody who knows");
        let next = within("a free key", place.client().await.lock(key).acquire()).await;
        next.expect("a free key").release().await.expect("a release");
    }
}

/// The connection ends while such a statement is on its way, and it arrives behind its withdrawal,
/// in time to take the key: that is given back.
#[tokio::test]
async fn a_grant_that_arrives_behind_its_withdrawal_is_given_back() {
    let place = Place::new();
    let held = format!("SELECT 1 FROM {}_status WHERE status = 'held'", place.table);
    // The row is there, or it is made.
    for used in [true, false] {
        let mut has_come = false;
        // One that comes two seconds late takes nothing, as the machine may stand still.
        for n in 0..9 {
            let key = &*format!("k{used}{n}");
            let proxy = Proxy::postgres(place.server.addr());
            let locks = connect(&place.url_through(&proxy), ms(30_000)).await;
            // Its statements are prepared from then on.
            for key in ["other", key].into_iter().take(1 + usize::from(used)) {
                locks.lock(key).await.expect("a free key").release().await.expect("a release");
            }
            let taking = Match::verb("BIND").containing(key).containing("pid=");
            let trap = proxy.trap(taking, Action::OrphanRequest);
            let options = once().with_lease(ms(300_000));
            let error = locks.lock(key).options(options).try_acquire().await;
            error.expect_err("it is cut");
            assert!(trap.has_sprung());
            eventually("it is withdrawn", || locks.stats().keys == 0).await;
            trap.release();
            trap.arrived().await;
            has_come = !place.server.sql(&*held).is_empty();
            eventually("nobody holds it", || place.server.sql(&*held).is_empty()).await;
            if has_come {
                break;
            }
        }
        assert!(has_come, "none has come in time");
    }
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
    let lock = format!("BEGIN; SELECT FROM {} WHERE name = 'k7' FOR UPDATE", place.table);
    sqlx::raw_sql(sqlx::AssertSqlSafe(lock)).execute(&mut stranger).await.expect("a row");
    let versions = format!("SELECT sum(version)::bigint FROM {0} WHERE name <> 'k7'", place.table);
    let versions = || place.server.sql(&*versions)[0].get::<i64, _>(0);
    let (first, before) = (versions(), locks.stats());
    // Each of the others is renewed twice.
    let others = i64::try_from(HOLDS).expect("a few") - 1;
    eventually("all others are renewed", || versions() >= first + 2 * others).await;
    // The answers to the last of them may be on their way.
    let renewals = || locks.stats().renewals - before.renewals;
    eventually("their renewals are answered", || renewals() > 500).await;
    let requests = locks.stats().store_requests - before.store_requests;
    assert!(requests < 200, "{requests} requests for {} renewals", renewals());
    drop(guards.remove(7));
    assert!(guards.iter().all(|guard| guard.is_held()));
    drop(stranger);
    for guard in guards {
        guard.release().await.expect("a release");
    }
}
