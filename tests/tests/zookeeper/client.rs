//! Actions of the application on its own locks, and on the runtime of its client.

use std::time::Duration;

use lock_core::error::LossReason;
use lock_core::options::Background;
use lock_core::{LockClient, LockOptions};
use tests::stalls::Stopwatch;
use tests::wait::{eventually, within};
use tokio::runtime::{Builder, Runtime};

use crate::support::*;

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

/// Waits without a runtime.
fn until(what: &str, holds: impl Fn() -> bool) {
    let start = Stopwatch::start();
    while !holds() {
        assert!(start.own() < Duration::from_secs(10), "still not: {what}");
        std::thread::sleep(ms(2));
    }
}

/// F19 (V1, V2, V3, V4, V6): while a client holds and waits in one runtime, the other one ends that
/// made its session: nothing comes of it. When the session itself ends, the holder is told, the
/// waiter gets into line with a new session, and nothing hangs.
#[test]
fn the_end_of_the_runtime_that_made_the_session_is_not_the_end_of_the_session() {
    let first = runtime();
    let server = first.block_on(Zoo::start());
    let locks = first.block_on(connect(&server.at(STEADY)));
    runtime().block_on(async {
        let rival = connect(&server.at(LONG)).await;
        let theirs = rival.lock("theirs").await.unwrap();
        let ours = locks.lock("ours").await.unwrap();
        let waiting = tokio::spawn(locks.lock("theirs").acquire());
        server.line_of("theirs", 2).await;
        let (line, held) = (server.line("theirs"), server.holder("ours"));
        first.shutdown_background();
        let error = rival.lock("ours").wait(STEADY + TICK * 2).await.unwrap_err();
        assert!(error.is_timeout(), "{error}");
        assert!(ours.is_held() && !waiting.is_finished());
        assert_eq!((server.line("theirs"), server.holder("ours")), (line.clone(), held));
        let (session, _) = held.expect("it is held");

        server.expire_session(session);
        let lost = within("the loss", ours.lost()).await;
        assert!(matches!(lost.reason(), LossReason::Taken | LossReason::Expired), "{lost}");
        assert!(within("the release", ours.release()).await.unwrap_err().is_not_held());
        eventually("it is in line again", || {
            server.line("theirs").len() == 2 && server.line("theirs")[1] != line[1]
        })
        .await;
        theirs.release().await.unwrap();
        let guard = within("the grant", waiting).await.unwrap().unwrap();
        guard.release().await.unwrap();
        locks.lock("ours").await.unwrap().release().await.unwrap();
        nothing_left(&server, [locks, rival]).await;
    });
}

/// F02 (V2, V3, V6): a hold that nobody renews, as the runtime is blocked that was to, does not last
/// as long as the session, which goes on: its node is taken away at the end of its lease.
#[test]
fn the_node_of_a_hold_that_nobody_renews_is_taken_away_though_its_session_lives() {
    let sessions = runtime();
    let server = sessions.block_on(Zoo::start());
    let options = LockOptions::new().with_lease(ms(2_000));
    let client = LockClient::builder(server.at(LONG)).defaults(options);
    let locks = sessions.block_on(client.background(Background::Runtime).connect()).unwrap();
    let (unblock, blocked) = std::sync::mpsc::channel::<()>();
    let (end, ended) = tokio::sync::oneshot::channel::<()>();
    let holder = std::thread::spawn(move || {
        Builder::new_current_thread().enable_all().build().unwrap().block_on(async move {
            let guard = locks.lock("k").await.unwrap();
            // All that this runtime does.
            blocked.recv().expect("the test goes on");
            assert!(!guard.is_held());
            let error = within("the release", guard.release()).await.unwrap_err();
            assert!(error.is_not_held(), "{error}");
            // Nobody else would see to what is left to do.
            eventually("no key is busy", || locks.stats().keys == 0).await;
            drop(locks);
            ended.await.expect("the test goes on");
        });
    });
    sessions.block_on(async {
        server.line_of("k", 1).await;
        server.line_of("k", 0).await;
        assert_eq!(server.sessions().len(), 1, "the session lives");
        the_next_one_proceeds(&server, "k").await;
    });
    unblock.send(()).unwrap();
    until("all sessions have ended", || server.sessions().is_empty());
    end.send(()).unwrap();
    holder.join().expect("the holder was told");
}

/// F19 (V1, V5, V6): what a runtime that ends has waited for is taken out of the line at once, and
/// what it held stays until its guard goes.
#[test]
fn what_a_runtime_waited_for_goes_with_it_and_what_it_held_with_its_guard() {
    let sessions = runtime();
    let server = sessions.block_on(Zoo::start());
    let locks = sessions.block_on(connect(&server.at(LONG)));
    let rival = sessions.block_on(connect(&server.at(LONG)));
    let theirs = sessions.block_on(rival.lock("theirs").acquire()).unwrap();
    let ending = runtime();
    let ours = ending.block_on(locks.lock("ours").acquire()).unwrap();
    drop(ending.spawn(locks.lock("theirs").acquire()));
    sessions.block_on(server.line_of("theirs", 2));
    ending.shutdown_background();
    sessions.block_on(async {
        server.line_of("theirs", 1).await;
        assert!(ours.is_held() && server.line("ours").len() == 1);
        drop(ours);
        the_next_one_proceeds(&server, "ours").await;
        let linked = || server.sessions().iter().filter(|one| one.connected).count();
        eventually("no more than the two sessions", || linked() == 2).await;
        theirs.release().await.unwrap();
        nothing_left(&server, [locks, rival]).await;
    });
}
