//! F45 to F47: several hold a key at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use lock_core::Mode;
use lock_core::error::Rejection;
use tokio::time::sleep;

use super::*;
use crate::checker::Checker;

const OF_TWO: Mode = Mode::Permit { of: 2 };
const OF_THREE: Mode = Mode::Permit { of: 3 };

/// Waits until so many stand in line for the key, in whichever modes.
async fn in_line(locks: &Client, key: &str, n: usize) {
    let mut seen = Vec::new();
    for _ in 0..1_000 {
        seen = locks.inspect(key).await.expect("an inspection").waiters;
        if seen.len() == n {
            return;
        }
        sleep(ms(10)).await;
    }
    panic!("{n} are to wait: {seen:?}");
}

/// F45 (V8): a layout that has no readers and permits says so beforehand, and by name when it is
/// asked.
pub(crate) async fn readers_and_permits_are_had_or_refused_by_name(stage: &mut Stage<'_>) {
    let locks = stage.client(Tempo::Patient).await;
    let (key, promised) = (stage.key("k"), locks.capabilities());
    assert_eq!(
        (promised.shared, promised.permits),
        (stage.can(Power::Share), stage.can(Power::Share))
    );
    let asked = [("shared", locks.lock(&key).shared()), ("permits", locks.lock(&key).permits(2))];
    for (name, builder) in asked {
        match builder.await {
            Ok(guard) => {
                assert!(stage.can(Power::Share), "{name} was had");
                guard.release().await.expect("a release");
            }
            Err(AcquireError::Rejected(Rejection::Unsupported { option, .. })) => {
                assert!(!stage.can(Power::Share) && option == name, "{option} for {name}");
            }
            Err(error) => panic!("{name}: {error}"),
        }
    }
    stage.nothing_left([locks]).await;
}

/// F45 (V1, V2, V4): readers, writers and permits of three processes at the same time: nobody is
/// beside a writer, and of n permits no number is had twice at a time.
pub(crate) async fn nobody_is_beside_a_writer_and_no_number_is_had_twice(stage: &mut Stage<'_>) {
    let history = stage.history();
    let kinds = [("d", Mode::Shared), ("d", Mode::Exclusive), ("p", OF_TWO)];
    let (mut clients, mut tasks) = (Vec::new(), Vec::new());
    for process in 0..3 {
        for (key, mode) in kinds {
            let locks = stage.client_in(mode, Tempo::Patient).await;
            for task in 0..2 {
                let actor = history.actor(&format!("{mode:?}-{process}/{task}"), &locks);
                let key = stage.key(key);
                tasks.push(tokio::spawn(async move {
                    for _ in 0..8 {
                        let guard = actor.acquire(&key, ms(9_000)).await.0.expect("a grant");
                        sleep(ms(2)).await;
                        if mode == Mode::Exclusive {
                            assert!(actor.write(&guard).await);
                        }
                        actor.release(guard).await.expect("a release");
                    }
                }));
            }
            clients.push(locks);
        }
    }
    for task in tasks {
        task.await.expect("no panic");
    }
    let report = history.check(Checker::new().exclusive());
    assert_eq!((report.grants, report.writes_accepted), (144, 48));
    stage.nothing_left(clients).await;
}

/// F45 (V5): who wants the key in the other way has it soon, though somebody holds it at any time.
pub(crate) async fn a_stream_of_readers_starves_no_writer_nor_one_of_writers_a_reader(
    stage: &mut Stage<'_>,
) {
    let history = stage.history();
    for (mode, other) in [(Mode::Shared, Mode::Exclusive), (Mode::Exclusive, Mode::Shared)] {
        let (key, is_over) = (stage.key(&format!("{mode:?}")), Arc::new(AtomicBool::new(false)));
        let grants = Arc::new(AtomicUsize::new(0));
        let (mut clients, mut tasks) = (Vec::new(), Vec::new());
        for process in 0..2 {
            let locks = stage.client_in(mode, Tempo::Patient).await;
            for task in 0..2 {
                let actor = history.actor(&format!("{mode:?}-{process}/{task}"), &locks);
                let (key, is_over, grants) = (key.clone(), is_over.clone(), grants.clone());
                tasks.push(tokio::spawn(async move {
                    while !is_over.load(Ordering::Relaxed) {
                        let guard = actor.acquire(&key, ms(9_000)).await.0.expect("a grant");
                        grants.fetch_add(1, Ordering::Relaxed);
                        sleep(ms(10)).await;
                        actor.release(guard).await.expect("a release");
                    }
                }));
            }
            clients.push(locks);
        }
        eventually("a stream", || grants.load(Ordering::Relaxed) >= 8).await;
        let locks = stage.client_in(other, Tempo::Patient).await;
        let rival = history.actor(&format!("{other:?}"), &locks);
        let (guard, took) = rival.acquire(&key, ms(9_000)).await;
        assert!(took < ms(2_000) + SLACK, "{other:?} among {mode:?}: {took:?}");
        rival.release(guard.expect("a grant")).await.expect("a release");
        is_over.store(true, Ordering::Relaxed);
        for task in tasks {
            task.await.expect("no panic");
        }
        drop(rival);
        stage.gone(locks).await;
        for locks in clients {
            stage.gone(locks).await;
        }
    }
    history.check(Checker::new().exclusive());
    stage.nothing_left([]).await;
}

/// F45 (V1, V2, V5, V6): the reader that waits is let in beside who was the writer, and the writers
/// before and behind it only when both are gone.
pub(crate) async fn a_downgrade_lets_in_the_readers_behind_it_and_nobody_between(
    stage: &mut Stage<'_>,
) {
    let (key, history) = (stage.key("k"), stage.history());
    let locks = stage.client(Tempo::Patient).await;
    let readers = stage.client_in(Mode::Shared, Tempo::Patient).await;
    let writers = stage.client(Tempo::Patient).await;
    let first = history.actor("first", &locks);
    let (reader, writer) = (history.actor("reader", &readers), history.actor("next", &writers));
    let waits = |actor: &Actor| {
        let (actor, key) = (actor.clone(), key.clone());
        tokio::spawn(async move { actor.acquire(&key, ms(9_000)).await.0.expect("a grant") })
    };
    let guard = first.acquire(&key, ms(9_000)).await.0.expect("a free key");
    let reading = waits(&reader);
    in_line(&locks, &key, 1).await;
    let writing = waits(&writer);
    in_line(&locks, &key, 2).await;
    assert!(first.write(&guard).await);
    first.downgrade(&guard).await.expect("a downgrade");
    let shared = within("the reader", reading).await.expect("no panic");
    assert!(guard.is_held() && shared.is_held());
    first.release(guard).await.expect("a release");
    // Nobody else is let in for as long as a push and a recheck may take.
    let early = tokio::time::timeout(stage.times(Tempo::Brisk).recheck + ms(200), async {
        while !writing.is_finished() {
            sleep(ms(10)).await;
        }
    });
    assert!(early.await.is_err(), "a writer beside a reader");
    assert!(shared.is_held());
    let token = shared.token();
    reader.release(shared).await.expect("a release");
    let next = within("the writer", writing).await.expect("no panic");
    assert!(next.token() > token && writer.write(&next).await);
    writer.release(next).await.expect("a release");
    history.check(Checker::new().exclusive());
    drop((first, reader, writer));
    stage.nothing_left([locks, readers, writers]).await;
}

/// F46 (V1, V2, V5, V6): of two who share a key one is killed. Whoever waits has its share when its
/// lease or session ends, and no more than that.
pub(crate) async fn a_dead_holder_among_others_frees_its_share_when_its_lease_ends(
    stage: &mut Stage<'_>,
) {
    let stage = &*stage;
    tokio::join!(
        a_dead_one_beside_a_living(stage, Mode::Shared, Mode::Exclusive),
        a_dead_one_beside_a_living(stage, OF_TWO, OF_TWO),
    );
    stage.nothing_left([]).await;
}

async fn a_dead_one_beside_a_living(stage: &Stage<'_>, mode: Mode, wanted: Mode) {
    let (key, history) =
        (stage.key(&format!("{wanted:?}").replace([' ', ':'], "")), stage.history());
    let key = key.replace(['{', '}'], "");
    let (locks, others) = (
        stage.client_in(mode, Tempo::Patient).await,
        stage.client_in(wanted, Tempo::Patient).await,
    );
    let (living, next) = (history.actor("living", &locks), history.actor("next", &others));
    let mut dead = stage.remote_in(mode, &history, "dead", Tempo::Brisk);
    dead.ask(&format!("acquire {key} 5000")).await.expect_success();
    let guard = living.acquire(&key, ms(5_000)).await.0.expect("a share");
    dead.kill();
    let began = Stopwatch::start();
    let waiting = tokio::spawn({
        let (next, key) = (next.clone(), key.clone());
        async move { next.acquire(&key, ms(15_000)).await.0.expect("a grant") }
    });
    in_line(&locks, &key, 1).await;
    let mut held = Some(guard);
    if wanted == Mode::Exclusive {
        living.release(held.take().expect("a guard")).await.expect("a release");
    }
    let granted = within("the share of the dead", waiting).await.expect("no panic");
    let bound = stage.times(Tempo::Brisk).freed_within + SLACK;
    assert!(began.own() < bound, "{mode:?}: {:?}", began.elapsed());
    if let Some(guard) = held {
        assert!(guard.is_held() && guard.slot() != granted.slot(), "{}", granted.slot());
        living.release(guard).await.expect("a release");
    }
    next.release(granted).await.expect("a release");
    history.check(Checker::new().exclusive().killed("dead"));
    drop((living, next));
    stage.gone(locks).await;
    stage.gone(others).await;
}

/// F47 (V6, V8): another limit is refused by name while permits are used or waited for, costs those
/// nothing, and is the limit once the key is free.
pub(crate) async fn another_number_of_permits_counts_once_the_key_is_free(stage: &mut Stage<'_>) {
    let (key, history) = (stage.key("k"), stage.history());
    let old = stage.client_in(OF_TWO, Tempo::Patient).await;
    let new = stage.client_in(OF_THREE, Tempo::Patient).await;
    let (before, after) = (history.actor("before", &old), history.actor("after", &new));
    let mut guards = Vec::new();
    for _ in 0..2 {
        guards.push(before.acquire(&key, ms(9_000)).await.0.expect("a permit"));
    }
    let waiting = tokio::spawn({
        let (before, key) = (history.actor("waiter", &old), key.clone());
        async move {
            let guard = before.acquire(&key, ms(9_000)).await.0.expect("a permit");
            before.release(guard).await.expect("a release");
        }
    });
    for _ in 0..2 {
        let refused = after.acquire(&key, ms(5_000)).await.0.expect_err("another limit");
        let AcquireError::Rejected(Rejection::OtherLimit { given: 3, in_use: 2, .. }) = refused
        else {
            panic!("{refused}")
        };
        assert!(guards.iter().all(|guard| guard.is_held()));
        if guards.len() == 2 {
            before.release(guards.pop().expect("a guard")).await.expect("a release");
        }
    }
    within("the waiter", waiting).await.expect("no panic");
    before.release(guards.pop().expect("a guard")).await.expect("a release");
    let mut guards = Vec::new();
    for _ in 0..3 {
        guards.push(after.acquire(&key, ms(5_000)).await.0.expect("a permit"));
    }
    let slots: Vec<_> = guards.iter().map(|guard| guard.slot()).collect();
    assert_eq!(slots, [0, 1, 2]);
    for guard in guards {
        after.release(guard).await.expect("a release");
    }
    history.check(Checker::new().exclusive());
    drop((before, after));
    stage.nothing_left([old, new]).await;
}
