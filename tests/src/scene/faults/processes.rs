//! F01 to F05, F20 and F39: processes that are stopped, starved and killed.

use std::process::Command;
use std::time::Duration;

use super::*;
use crate::checker::Checker;
use crate::process::Process;

/// F01 (V1, V2, V3, V6): a holder that is stopped past its lease is succeeded at its end under a
/// higher token. It learns of its loss before it does anything else, and what it still writes is
/// refused.
pub(crate) async fn a_frozen_holder_is_succeeded_and_what_it_writes_is_refused(
    stage: &mut Stage<'_>,
) {
    let (key, history) = (stage.key("k"), stage.history());
    let locks = stage.client(Tempo::Patient).await;
    let successor = history.actor("successor", &locks);
    let mut holder = stage.remote(&history, "holder", Tempo::Brisk);
    let old = holder.ask(&format!("acquire {key} 5000")).await.token();
    assert!(holder.ask("write").await.accepted());
    holder.freeze();
    let (guard, took) = successor.acquire(&key, ms(9_000)).await;
    let guard = guard.expect("a grant");
    assert!(took < stage.times(Tempo::Brisk).freed_within + SLACK, "{took:?}");
    assert!(guard.token().get() > old);
    assert!(successor.write(&guard).await);
    // The first thing that it does when it goes on.
    holder.send("is_held");
    holder.thaw();
    assert_eq!(holder.reply().await.held, Some(false));
    assert_eq!(holder.ask("lost").await.message.as_deref(), Some("Expired"));
    assert!(!holder.ask("write").await.accepted());
    assert_eq!(holder.ask("release").await.error(), "not_held");
    successor.release(guard).await.expect("a release");
    // With what it needs to have it anew.
    assert!(holder.ask(&format!("acquire {key} 9000")).await.token() > old);
    holder.ask("release").await.expect_success();
    holder.send("exit");
    holder.ended().await;
    let report = history.check(Checker::new());
    assert_eq!((report.grants, report.writes_accepted, report.writes_refused), (3, 2, 1));
    drop(successor);
    stage.nothing_left([locks]).await;
}

/// F02 (V1, V2, V3): a process whose runtime is blocked for several leases keeps its lock.
pub(crate) async fn a_process_whose_runtime_is_blocked_past_its_lease_keeps_its_lock(
    stage: &mut Stage<'_>,
) {
    let (key, history) = (stage.key("k"), stage.history());
    let locks = stage.client(Tempo::Patient).await;
    let successor = history.actor("successor", &locks);
    let mut holder = stage.remote(&history, "holder", Tempo::Steady);
    let token = holder.ask(&format!("acquire {key} 5000")).await.token();
    let over = stage.times(Tempo::Steady).freed_within + ms(1_000);
    holder.send(&format!("block {}", (over + ms(500)).as_millis()));
    holder.send("is_held");
    let (refused, _) = successor.acquire(&key, over).await;
    assert!(refused.expect_err("it is held").is_timeout());
    holder.reply().await.expect_success();
    assert_eq!(holder.reply().await.held, Some(true));
    assert!(holder.ask("write").await.accepted());
    holder.ask("release").await.expect_success();
    let (guard, _) = successor.acquire(&key, ms(9_000)).await;
    let guard = guard.expect("a grant");
    assert!(guard.token().get() > token && successor.write(&guard).await);
    successor.release(guard).await.expect("a release");
    holder.send("exit");
    holder.ended().await;
    let report = history.check(Checker::new().exclusive());
    assert_eq!((report.writes_accepted, report.writes_refused), (2, 0));
    drop(successor);
    stage.nothing_left([locks]).await;
}

/// F03 (V2, V5, V6): the key of a killed holder is granted when its lease or its session has ended;
/// other keys are served meanwhile.
pub(crate) async fn the_key_of_a_killed_holder_is_granted_when_its_lease_has_ended(
    stage: &mut Stage<'_>,
) {
    let (key, history) = (stage.key("k"), stage.history());
    let locks = stage.client(Tempo::Patient).await;
    let next = history.actor("next", &locks);
    let mut holder = stage.remote(&history, "holder", Tempo::Brisk);
    let old = holder.ask(&format!("acquire {key} 5000")).await.token();
    holder.kill();
    let waiting = tokio::spawn({
        let (next, key) = (next.clone(), key.clone());
        async move { next.acquire(&key, ms(9_000)).await }
    });
    stage.in_line(&key, 1).await;
    let other = history.actor("other", &locks);
    let (guard, _) = other.acquire(&stage.key("unconcerned"), ms(9_000)).await;
    other.release(guard.expect("a free key")).await.expect("a release");
    let (guard, took) = waiting.await.expect("no panic");
    let guard = guard.expect("a grant");
    assert!(took < stage.times(Tempo::Brisk).freed_within + SLACK, "{took:?}");
    assert!(guard.token().get() > old);
    next.release(guard).await.expect("a release");
    history.check(Checker::new().exclusive().killed("holder"));
    drop((next, other));
    stage.nothing_left([locks]).await;
}

/// The tempo of what dies here: its lease is long, and its session short where it ends with that.
fn dying(stage: &Stage<'_>) -> Tempo {
    match stage.times(Tempo::Brisk).session {
        Duration::ZERO => Tempo::Patient,
        _ => Tempo::Brisk,
    }
}

/// F05 (V2, V5, V6): processes whose machine lost its power stay connected at the store, so the key
/// is handed to them. A whole row of them costs no more than one, and not the lease.
pub(crate) async fn a_row_of_waiters_without_power_costs_no_more_than_one(stage: &mut Stage<'_>) {
    for dead in [1, 3] {
        let (key, history) = (stage.key(&format!("{dead}")), stage.history());
        let locks = stage.client(Tempo::Patient).await;
        let first = history.actor("first", &locks);
        let (guard, _) = first.acquire(&key, ms(9_000)).await;
        let (mut row, mut checker) = (Vec::new(), Checker::new().exclusive());
        for n in 0..dead {
            let name = format!("doomed/{n}");
            let mut doomed = stage.remote(&history, &name, dying(stage));
            doomed.send(&format!("acquire {key} 20000"));
            stage.in_line(&key, n + 1).await;
            checker = checker.killed(&name);
            row.push(doomed);
        }
        // Their ends of the connections say nothing more, not even that they are closed.
        for doomed in &mut row {
            doomed.line.black_hole();
            doomed.kill();
        }
        first.release(guard.expect("a free key")).await.expect("a release");
        let other = stage.client(Tempo::Patient).await;
        let second = history.actor("second", &other);
        let (guard, took) = second.acquire(&key, ms(10_000)).await;
        assert!(took < stage.times(dying(stage)).handed_within + SLACK, "{dead}: {took:?}");
        second.release(guard.expect("a grant")).await.expect("a release");
        // Not one that is whole again: it would pass on what the dead had sent into it.
        drop(row);
        history.check(checker);
        drop((first, second));
        stage.gone(locks).await;
        stage.gone(other).await;
    }
    stage.nothing_left_of_the_dead().await;
}

/// F20 (V6): a holder that is asked to end gives its lock back at once and exits with success.
pub(crate) async fn a_terminated_holder_gives_its_lock_back_before_its_lease_ends(
    stage: &mut Stage<'_>,
) {
    let (key, history) = (stage.key("k"), stage.history());
    let locks = stage.client(Tempo::Patient).await;
    let mut holder = stage.remote(&history, "holder", dying(stage));
    let old = holder.ask(&format!("acquire {key} 5000")).await.token();
    let began = Stopwatch::start();
    holder.terminate();
    let guard = locks.lock(&key).await.expect("a grant");
    // The grace time of the worker is 1 s.
    assert!(began.own() < ms(2_000) + SLACK, "{:?}", began.elapsed());
    assert!(guard.token().get() > old);
    assert!(holder.ended().await.success());
    guard.release().await.expect("a release");
    stage.nothing_left([locks]).await;
}

/// Processes that never rest, until this is dropped or its process is gone. What others run comes
/// before them.
struct Burners(Vec<Process>);

impl Burners {
    fn start() -> Self {
        let never_rest = ["-n", "18", "sh", "-c", "while :; do :; done"];
        let burn = |_| Process::beside(Command::new("nice").args(never_rest), "coreutils");
        Self((0..8).map(burn).collect())
    }
}

/// F39 (V1, V2, V3): a holder that gets next to no processor time either renews in time or is told
/// that it lost, before a rival is granted.
pub(crate) async fn a_starved_holder_renews_in_time_or_is_told(stage: &mut Stage<'_>) {
    let (key, history) = (stage.key("k"), stage.history());
    let locks = stage.client(Tempo::Patient).await;
    let rival = history.actor("rival", &locks);
    let mut holder = stage.remote(&history, "holder", Tempo::Brisk);
    let token = holder.ask(&format!("acquire {key} 5000")).await.token();
    let burners = Burners::start();
    // The lowest priority from here on, among eight that never rest.
    let pid = holder.pid().to_string();
    let renice = Command::new("renice").args(["-n", "19", &pid]).output();
    assert!(renice.expect("renice").status.success());
    let (answer, _) = rival.acquire(&key, stage.times(Tempo::Brisk).freed_within).await;
    match answer {
        Ok(guard) => {
            assert!(guard.token().get() > token);
            assert!(rival.write(&guard).await);
            assert_eq!(holder.ask("is_held").await.held, Some(false));
            rival.release(guard).await.expect("a release");
        }
        Err(error) => assert!(error.is_timeout(), "{error}"),
    }
    drop(burners.0);
    let accepted = holder.ask("write").await.accepted();
    let told = holder.ask("is_held").await.held == Some(false);
    assert!(accepted || told, "refused, and not told");
    holder.send("release");
    holder.reply().await;
    holder.send("exit");
    holder.ended().await;
    // Not `exclusive`: a starved process writes its loss down late.
    history.check(Checker::new());
    drop(rival);
    stage.nothing_left([locks]).await;
}
