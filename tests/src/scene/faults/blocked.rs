//! F02: a worker, or a whole runtime, of the application that does not come to run anything.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Waker};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use lock_core::futures::Acquire;
use lock_core::{LockClient, LockGuard, LockOptions};
use tokio::runtime::Runtime;

use super::*;
use crate::blocked::{Application, BlockedWorker, LETS_GO, alone, next_grant, workers};

/// Polls an acquire once, by which it gets into line.
fn begun(acquire: Acquire) -> Pin<Box<Acquire>> {
    let mut acquire = Box::pin(acquire);
    let polled = acquire.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(polled.is_pending(), "it is held");
    acquire
}

/// A worker of `runtime` takes `key`, polls as many further acquires of it, and does not yield then.
fn blocked(
    runtime: &Runtime,
    locks: &LockClient,
    key: &str,
    further: usize,
) -> BlockedWorker<(LockGuard, Vec<Pin<Box<Acquire>>>)> {
    let (locks, key) = (locks.clone(), key.to_owned());
    BlockedWorker::after(runtime, async move {
        let guard = locks.lock(&key).await.expect("a free key");
        let further = (0..further).map(|_| begun(locks.lock(&key).acquire())).collect();
        (guard, further)
    })
}

/// The tempo of clients whose hold is to last.
const KEPT: Tempo = Tempo::Steady;

/// Waits in vain, for longer than what nobody renews would last.
async fn nobody_else_gets(stage: &Stage<'_>, key: &str) {
    let rival = stage.client(Tempo::Patient).await;
    let wait = stage.times(KEPT).freed_within + ms(1_500);
    let error = rival.lock(key).wait(wait).await.expect_err("it is held");
    assert!(error.is_timeout(), "{error}");
    stage.gone(rival).await;
}

/// Silences a client, and gives the end of its hold once that has come. What was answered just
/// before may be on its way to the hold for a moment, and extends it.
fn silence(client: &Client, guard: &LockGuard, times: &crate::scene::Times) -> JoinHandle<Instant> {
    let (handle, longest) = (guard.handle(), times.lost_within);
    client.line.black_hole();
    let silenced = Instant::now();
    thread::spawn(move || {
        let mut end = silenced;
        loop {
            let now = Instant::now();
            let left = handle.lease_left();
            if left.is_zero() {
                assert!(end <= silenced + longest, "extended by {:?}", end - silenced);
                return end;
            }
            end = now + left;
            thread::sleep(ms(1));
        }
    })
}

fn told_in_time(end: JoinHandle<Instant>) {
    in_time("the loss", end.join().expect("no panic"));
}

fn in_time(what: &str, end: Instant) {
    let late = Stopwatch::since(end).own();
    assert!(late < LATE, "{what} came {late:?} late");
}

/// F02 (V1, V2, V3): the conductor renews what a blocked worker holds, be it the only one.
pub(crate) fn a_hold_is_kept_while_its_worker_is_blocked(stage: &mut Stage<'_>) {
    is_kept(stage, 1, 0);
    is_kept(stage, 2, 0);
}

/// F02 (V1, V2, V3): the same while the next in the process is blocked with it, who would be the
/// one to look after the key.
pub(crate) fn a_hold_is_kept_while_its_worker_and_who_waits_there_are_blocked(
    stage: &mut Stage<'_>,
) {
    is_kept(stage, 2, 1);
}

fn is_kept(stage: &Stage<'_>, n: usize, further: usize) {
    let (runtime, key) = (workers(n), stage.key(&format!("{n}")));
    let locks = runtime.block_on(stage.client(KEPT));
    let worker = blocked(&runtime, &locks, &key, further);
    alone().block_on(nobody_else_gets(stage, &key));
    let (guard, further) = worker.end();
    drop(further);
    assert!(guard.is_held());
    runtime.block_on(async {
        guard.release().await.expect("a release");
        stage.nothing_left([locks]).await;
    });
}

/// F02 (V4): the wait of one task does not hang on another.
pub(crate) fn a_wait_ends_in_time_while_a_worker_is_blocked(stage: &mut Stage<'_>) {
    let (runtime, key) = (workers(2), stage.key("k"));
    let locks = runtime.block_on(stage.client(Tempo::Brisk));
    let worker = blocked(&runtime, &locks, &key, 0);
    let began = Instant::now();
    let waiting = runtime.spawn(locks.lock(&key).wait(ms(300)).acquire());
    let answer = alone().block_on(within("the end of the wait", waiting)).expect("no panic");
    let error = answer.expect_err("it is held");
    assert!(error.is_timeout(), "{error}");
    in_time("the end of the wait", began + ms(300));
    drop(worker.end());
    runtime.block_on(stage.nothing_left([locks]));
}

/// F02 (V3): where nobody can renew it, a holder is told at the end of its lease, whichever runtime
/// waits for that.
pub(crate) fn a_loss_is_told_in_time_while_a_worker_is_blocked(stage: &mut Stage<'_>) {
    for elsewhere in [false, true] {
        let (runtime, key) = (workers(2), stage.key(&format!("{elsewhere}")));
        let locks = runtime.block_on(stage.client(Tempo::Brisk));
        let guard = runtime.block_on(locks.lock(stage.key("held")).acquire()).expect("a grant");
        let worker = blocked(&runtime, &locks, &key, 0);
        let lost = guard.lost();
        let end = silence(&locks, &guard, stage.times(Tempo::Brisk));
        if elsewhere {
            alone().block_on(within("the loss", lost));
        } else {
            alone().block_on(within("the loss", runtime.spawn(lost))).expect("no panic");
        }
        told_in_time(end);
        locks.line.resume();
        drop((guard, worker.end()));
        runtime.block_on(stage.nothing_left([locks]));
    }
}

/// F02 (V1, V2, V3, V4): with the runtime blocked that a client was made in, as a worker of actix
/// may be: another one waits, is told in time, and is handed the lock.
pub(crate) fn a_blocked_runtime_loses_nothing_for_the_others(stage: &mut Stage<'_>) {
    let (key, times) = (stage.key("k"), *stage.times(KEPT));
    let line = stage.layout().line_of(&stage.scope, KEPT);
    let options = LockOptions::new().with_wait(ms(9_000)).with_lease(times.lease);
    let builder = LockClient::builder(line.url()).defaults(options);
    let ((locks, guard), blocked) = Application::blocked_after({
        let key = key.clone();
        async move || {
            let locks = builder.connect().await.expect("a client");
            let guard = locks.lock(&key).await.expect("a free key");
            (locks, guard)
        }
    });
    let locks = Client { locks, line };
    alone().block_on(async {
        let waiting = locks.lock(&key).wait(ms(300)).acquire();
        let began = Instant::now();
        let error = within("the end of the wait", waiting).await.expect_err("it is held");
        assert!(error.is_timeout(), "{error}");
        in_time("the end of the wait", began + ms(300));
        nobody_else_gets(stage, &key).await;
        assert!(guard.is_held());
        // It is known that the rival has gone.
        let renewals = locks.stats().renewals;
        eventually("renewals", || locks.stats().renewals >= renewals + 2).await;
        let token = guard.token();
        let next = pin!(begun(locks.lock(&key).acquire()));
        // Where it is no hand-off in the process, its way may be the blocked runtime's.
        if let Err(error) = within("the release", guard.release()).await {
            assert!(error.is_unavailable(), "{error}");
        }
        let guard = within("the hand-off", next).await.expect("a grant");
        assert!(guard.token() > token);
        let end = silence(&locks, &guard, &times);
        within("the loss", guard.lost()).await;
        told_in_time(end);
        locks.line.resume();
        drop(guard);
    });
    blocked.let_go();
    alone().block_on(stage.nothing_left([locks]));
    drop(blocked);
}

/// F02 (V5): whoever is next, in another process or in this one, does not wait for the task that
/// gave the lock up to yield, though it is all that its runtime runs.
pub(crate) fn a_task_that_lets_go_and_computes_holds_up_nobody(stage: &mut Stage<'_>) {
    let (runtime, theirs, others) = (workers(1), workers(1), workers(1));
    let key = stage.key("k");
    let locks = runtime.block_on(stage.client(Tempo::Patient));
    let rival = theirs.block_on(stage.client(Tempo::Patient));
    for lets_go in LETS_GO {
        let guard = runtime.block_on(locks.lock(&key).acquire()).expect("a free key");
        let waiting = theirs.spawn(rival.lock(&key).acquire());
        theirs.block_on(stage.in_line(&key, 1));
        let (began, gate) = (Stopwatch::start(), lets_go(&runtime, guard));
        let guard = next_grant(async { waiting.await.expect("no panic") });
        assert!(began.own() < ms(1_000) + SLACK, "{:?}", began.elapsed());
        drop(gate);
        theirs.block_on(guard.release()).expect("a release");

        let guard = runtime.block_on(locks.lock(&key).acquire()).expect("a free key");
        let waiting = others.spawn(locks.lock(&key).acquire());
        while locks.stats().waiters == 0 {
            thread::yield_now();
        }
        let gate = lets_go(&runtime, guard);
        let next = next_grant(async { waiting.await.expect("no panic") });
        drop(gate);
        others.block_on(next.release()).expect("a release");
    }
    runtime.block_on(stage.nothing_left([locks, rival]));
}

/// F02 (V4): waits, pauses and retries on an executor that is not Tokio's.
pub(crate) fn an_executor_without_timers_is_served(stage: &mut Stage<'_>) {
    let (runtime, key) = (workers(2), stage.key("k"));
    let locks = runtime.block_on(stage.client(Tempo::Brisk));
    let guard = futures_executor::block_on(locks.lock(&key).acquire()).expect("a free key");
    let began = Instant::now();
    let busy = locks.lock(&key).wait(ms(50)).retries(1).acquire();
    let error = futures_executor::block_on(busy).expect_err("it is held");
    assert!(error.is_timeout(), "{error}");
    in_time("the end of the budget", began + ms(100));
    let end = silence(&locks, &guard, stage.times(Tempo::Brisk));
    futures_executor::block_on(guard.lost());
    told_in_time(end);
    locks.line.resume();
    drop(guard);
    runtime.block_on(stage.nothing_left([locks]));
}
