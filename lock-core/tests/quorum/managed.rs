//! A quorum that sees to its members: new ones, those that lost their data, and other lists.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use lock_core::backend::{
    Attempt, Backend, Claim, ClaimId, FaultKind, Member, MemberClaim, Probe, Terms,
};
use lock_core::memory::Memory;
use lock_core::quorum::{MembershipConfig, Quorum};
use lock_core::test_util::{Act, Script, Scripted, Verb};
use lock_core::{AcquireError, Key, LockClient};
use tokio::time::{Instant, sleep, timeout};

use crate::{ms, short};

/// The longest lease, and what is left for clocks that drift.
const QUARANTINE: Duration = ms(5_052);
const LEASE_MAX: Duration = ms(5_000);
/// Older than any lease.
const OLD: Duration = ms(60_000);
/// Far ahead of every clock.
const AHEAD: u64 = 1 << 52;

fn config(members: usize) -> MembershipConfig {
    MembershipConfig::new((0..members).map(|n| format!("m{n}:1"))).with_lease_max(LEASE_MAX)
}

/// Stores that have run for long, and one client of them.
struct Stage {
    stores: Vec<Memory>,
    locks: LockClient,
    scripts: Vec<Script>,
}

impl Stage {
    async fn of(members: usize) -> Self {
        let stores: Vec<_> = (0..members).map(|_| Memory::new()).collect();
        sleep(OLD).await;
        let (locks, scripts) = client(&stores, config(members));
        Self { stores, locks, scripts }
    }

    async fn is_granted(&self) -> bool {
        match self.locks.lock("k").options(short().with_wait(ms(0))).await {
            Ok(guard) => guard.release().await.is_ok(),
            Err(_) => false,
        }
    }

    /// The probe of a member, which answers whoever asks.
    async fn probe(&self, member: usize) -> Probe {
        self.stores[member].clone().probe().await.unwrap()
    }

    async fn ready(&self, member: usize) {
        let is_ready = async {
            loop {
                let probe = self.probe(member).await;
                let enrolment = probe.enrolment.as_ref();
                if enrolment
                    .is_some_and(|it| it.incarnation == probe.incarnation && it.token_min.is_some())
                {
                    return;
                }
                sleep(ms(1)).await;
            }
        };
        timeout(ms(60_000), is_ready).await.expect("the member is repaired");
    }

    fn away(&self, member: usize, away: bool) {
        let act = if away { Act::Err(FaultKind::Transient) } else { Act::Ok };
        Verb::ALL.into_iter().for_each(|verb| self.scripts[member].always(verb, act));
    }
}

fn client(stores: &[Memory], config: MembershipConfig) -> (LockClient, Vec<Script>) {
    let (members, scripts): (Vec<_>, Vec<_>) =
        stores.iter().map(|store| Scripted::new(store.clone())).unzip();
    let quorum = Quorum::managed(members, config).expect("a config that fits");
    (LockClient::with_backend(quorum), scripts)
}

#[tokio::test(start_paused = true)]
async fn old_stores_grant_at_once_and_new_ones_once_every_lease_of_before_is_over() {
    let stage = Stage::of(3).await;
    let begun = Instant::now();
    assert!(stage.is_granted().await);
    assert!(begun.elapsed() < ms(10), "{:?}", begun.elapsed());

    for ran in [ms(0), ms(3_000)] {
        let stores: Vec<_> = (0..3).map(|_| Memory::new()).collect();
        sleep(ran).await;
        let (locks, _) = client(&stores, config(3));
        let begun = Instant::now();
        let error = locks.lock("k").options(short()).try_acquire().await.unwrap_err();
        assert!(error.is_unavailable() && error.is_retryable(), "{error}");
        drop(locks.lock("k").options(short().with_wait(ms(20_000))).await.unwrap());
        let (least, took) = (QUARANTINE - ran, begun.elapsed());
        assert!(least <= took && took < least + ms(1_100), "{took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn two_clients_may_found_one_quorum_at_once() {
    fastrand::seed(crate::SEED);
    for _ in 0..20 {
        let stores: Vec<_> = (0..3).map(|_| Memory::new()).collect();
        sleep(OLD).await;
        let clients: Vec<_> = (0..4).map(|_| client(&stores, config(3))).collect();
        for (_, scripts) in &clients {
            for script in scripts {
                for _ in 0..6 {
                    script.next(Verb::Probe, Act::Slow(ms(fastrand::u64(..20))));
                }
            }
        }
        let acquires = clients.iter().enumerate().map(|(n, (locks, _))| async move {
            locks.lock(format!("k{n}")).options(short()).await.map(drop)
        });
        let begun = Instant::now();
        for acquired in futures_util::future::join_all(acquires).await {
            acquired.unwrap();
        }
        assert!(begun.elapsed() < ms(500), "{:?}", begun.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_member_that_lost_its_data_grants_nothing_for_the_longest_lease_and_then_counts() {
    type Loss = fn(&Memory, &lock_core::memory::MemoryImage);
    let losses: [Loss; 3] =
        [|store, _| store.restart(), |store, _| store.flush(), |store, image| store.restore(image)];
    for lose in losses {
        let stage = Stage::of(3).await;
        assert!(stage.is_granted().await);
        let image = stage.stores[0].image();
        // Held at a majority that the lost member is of.
        stage.away(2, true);
        let guard = stage.locks.lock("k").options(short()).await.unwrap();
        lose(&stage.stores[0], &image);
        stage.away(2, false);
        let (other, scripts) = client(&stage.stores, config(3));
        let lost_at = Instant::now();
        while guard.is_held() && lost_at.elapsed() < LEASE_MAX * 2 {
            let granted = other.lock("k").options(short().with_wait(ms(0))).try_acquire().await;
            assert!(!matches!(granted, Ok(Some(_))), "two holders");
            sleep(ms(20)).await;
        }
        drop(scripts);
        stage.ready(0).await;
        let took = lost_at.elapsed();
        assert!(QUARANTINE <= took && took < QUARANTINE + ms(1_200), "{took:?}");
        // It counts: another may go.
        stage.away(1, true);
        assert!(stage.locks.lock("k").options(short()).await.is_ok());
    }
}

/// Those who knew the quorum do not take it for a new one, also long after they looked at it.
#[tokio::test(start_paused = true)]
async fn a_quorum_whose_members_have_all_lost_their_data_is_not_founded_anew() {
    let stage = Stage::of(3).await;
    assert!(stage.is_granted().await);
    sleep(OLD).await;
    assert!(stage.is_granted().await);
    stage.stores.iter().for_each(Memory::flush);
    let lost_at = Instant::now();
    let error = stage.locks.lock("k").options(short()).try_acquire().await.unwrap_err();
    assert!(error.is_unavailable() && error.is_retryable(), "{error}");
    drop(stage.locks.lock("k").options(short().with_wait(ms(20_000))).await.unwrap());
    let took = lost_at.elapsed();
    assert!(QUARANTINE <= took && took < QUARANTINE + ms(1_200), "{took:?}");
}

/// A counter that somebody raised far ahead of every clock, at one member.
async fn run_ahead(store: &Memory) {
    let terms = Terms::exclusive(ms(1_000));
    let key = Key::new("k").unwrap();
    let mut claim = store.clone().claim(&key, ClaimId::from_bits(7), terms);
    assert!(matches!(claim.attempt().await, Ok(Attempt::Granted(_))));
    assert!(claim.raise(AHEAD).await.unwrap());
    claim.withdraw().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn tokens_go_on_to_grow_over_a_member_that_lost_its_data() {
    for members in [3, 5] {
        for lost in 0..members {
            for then_away in (0..members).filter(|away| *away != lost) {
                let stage = Stage::of(members).await;
                assert!(stage.is_granted().await);
                run_ahead(&stage.stores[lost]).await;
                let image = stage.stores[lost].image();
                // Granted by a majority with the member, above what it had alone.
                let others = (1..=members / 2).map(|n| (lost + n) % members);
                others.clone().for_each(|other| stage.away(other, true));
                let guard = stage.locks.lock("k").options(short()).await.unwrap();
                let before = guard.token();
                assert!(before.get() > AHEAD, "{before}");
                guard.release().await.unwrap();
                others.for_each(|other| stage.away(other, false));
                if then_away % 2 == 0 {
                    stage.stores[lost].restart();
                } else {
                    stage.stores[lost].restore(&image);
                }
                // Nobody is granted anything before it is repaired.
                let (all, scripts): (Vec<_>, Vec<_>) =
                    stage.stores.iter().map(|store| Scripted::new(store.clone())).unzip();
                let quorum = Quorum::managed(all, config(members)).unwrap();
                quorum.open().await.unwrap();
                stage.ready(lost).await;
                let other = LockClient::with_backend(quorum);
                scripts[then_away].always(Verb::Attempt, Act::Err(FaultKind::Transient));
                let guard = other.lock("k").options(short()).await.unwrap();
                let case = format!("{members}, lost {lost}, away {then_away}");
                assert!(guard.token() > before, "{case}: {} after {before}", guard.token());
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_member_that_is_lost_again_before_it_is_repaired_waits_again() {
    let stage = Stage::of(3).await;
    assert!(stage.is_granted().await);
    stage.stores[0].restart();
    assert!(stage.is_granted().await);
    sleep(QUARANTINE - ms(100)).await;
    stage.stores[0].restart();
    // Its connection is gone: whoever asks it finds out.
    assert!(stage.is_granted().await);
    let lost_at = Instant::now();
    stage.ready(0).await;
    assert!(lost_at.elapsed() >= QUARANTINE - ms(1), "{:?}", lost_at.elapsed());
}

#[tokio::test(start_paused = true)]
async fn two_of_three_that_lost_their_data_come_back_when_all_answer() {
    let stage = Stage::of(3).await;
    assert!(stage.is_granted().await);
    run_ahead(&stage.stores[2]).await;
    let guard = stage.locks.lock("k").options(short()).await.unwrap();
    let before = guard.token();
    guard.release().await.unwrap();
    stage.stores[0].restart();
    stage.stores[1].restart();
    stage.away(2, true);
    assert!(!stage.is_granted().await);
    sleep(QUARANTINE * 3).await;
    assert!(!stage.is_granted().await, "a minority knows what was granted, and does not answer");
    stage.away(2, false);
    let guard = stage.locks.lock("k").options(short().with_wait(ms(20_000))).await.unwrap();
    assert!(guard.token() > before, "{} after {before}", guard.token());
}

#[tokio::test(start_paused = true)]
async fn another_list_size_or_longest_lease_is_refused_when_it_connects_and_when_it_is_found() {
    let stage = Stage::of(3).await;
    assert!(stage.is_granted().await);
    let others = [
        MembershipConfig::new(["m0:1", "m1:1", "x:1"]).with_lease_max(LEASE_MAX),
        config(3).with_name("another"),
        config(3).with_lease_max(ms(6_000)),
    ];
    for other in others {
        // One member in common is enough.
        let stores = [stage.stores[0].clone(), Memory::new(), Memory::new()];
        let quorum = Quorum::managed(stores.to_vec(), other.clone()).unwrap();
        let fault = quorum.open().await.unwrap_err();
        let text = fault.to_string();
        assert!(fault.kind() == FaultKind::Refused && text.contains("m0:1,m1:1,m2:1"), "{text}");
        let (locks, _) = client(&stores, other);
        for _ in 0..2 {
            let error = locks.lock("k").options(short()).await.unwrap_err();
            assert!(error.is_unavailable() && !error.is_retryable(), "{error}");
            assert!(error.to_string().contains("m0:1,m1:1,m2:1"), "{error}");
        }
    }
    // Found while it runs: the member was away when it connected.
    let stores = [Memory::new(), Memory::new(), stage.stores[2].clone()];
    sleep(OLD).await;
    let (locks, scripts) = client(&stores, config(3).with_name("another"));
    scripts[2].always(Verb::Probe, Act::Err(FaultKind::Transient));
    drop(locks.lock("k").options(short()).await);
    scripts[2].heal();
    sleep(ms(2_000)).await;
    let error = locks.lock("k").options(short()).await.unwrap_err();
    assert!(!error.is_retryable(), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_lease_beyond_the_longest_is_refused_before_anything_is_sent() {
    let stage = Stage::of(3).await;
    let options = short().with_lease(LEASE_MAX + ms(1));
    let error = stage.locks.lock("k").options(options).await.unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, AcquireError::Rejected(_)), "{text}");
    assert!(text.contains("`k`") && text.contains("lease") && text.contains("5s"), "{text}");
    assert!(stage.scripts.iter().all(|script| script.calls().is_empty()));
}

#[tokio::test(start_paused = true)]
async fn it_opens_with_a_majority_and_the_rest_come_later() {
    let stores: Vec<_> = (0..3).map(|_| Memory::new()).collect();
    sleep(OLD).await;
    let (first, _) = client(&stores, config(3));
    drop(first.lock("k").options(short()).await.unwrap());
    for act in [Act::Err(FaultKind::Transient), Act::Never] {
        let (members, scripts): (Vec<_>, Vec<_>) =
            stores.iter().map(|store| Scripted::new(store.clone())).unzip();
        Verb::ALL.into_iter().for_each(|verb| scripts[0].always(verb, act));
        let quorum = Quorum::managed(members, config(3)).unwrap();
        quorum.open().await.unwrap();
        let locks = LockClient::with_backend(quorum);
        drop(locks.lock("k").options(short()).await.unwrap());
        scripts[0].heal();
        sleep(ms(3_000)).await;
        scripts[1].always(Verb::Attempt, Act::Err(FaultKind::Transient));
        drop(locks.lock("k").options(short()).await.unwrap());
    }
    let (members, scripts): (Vec<_>, Vec<_>) =
        stores.iter().map(|store| Scripted::new(store.clone())).unzip();
    scripts[..2].iter().for_each(|script| script.always(Verb::Probe, Act::Never));
    let begun = Instant::now();
    let quorum = Quorum::managed(members, config(3)).unwrap();
    let fault = quorum.open().await.unwrap_err();
    assert!(fault.is_transient() && fault.to_string().contains("`m0:1`"), "{fault}");
    assert!(begun.elapsed() <= ms(5_000));
}

#[tokio::test(start_paused = true)]
async fn nobody_looks_at_members_that_are_well_or_for_a_client_that_is_gone() {
    let stage = Stage::of(3).await;
    assert!(stage.is_granted().await);
    let probes = |stage: &Stage| -> usize {
        stage.scripts.iter().map(|script| script.calls_of(Verb::Probe).len()).sum()
    };
    let before = probes(&stage);
    sleep(OLD).await;
    assert_eq!(probes(&stage), before);
    stage.away(0, true);
    stage.stores[0].restart();
    let gone = Arc::new(AtomicBool::new(false));
    assert!(stage.is_granted().await);
    sleep(ms(10_000)).await;
    let before = probes(&stage);
    sleep(ms(10_000)).await;
    let Stage { locks, scripts, stores } = stage;
    drop((locks, stores));
    gone.store(true, SeqCst);
    sleep(ms(2_000)).await;
    let counted = || scripts.iter().map(|script| script.calls_of(Verb::Probe).len()).sum::<usize>();
    let after = counted();
    assert!(after >= before);
    sleep(ms(10_000)).await;
    assert_eq!(counted(), after);
}

/// It could be a grant in quarantine, of a key that the member had granted to somebody else since.
#[tokio::test(start_paused = true)]
async fn a_member_that_was_restored_hands_the_key_to_nobody() {
    let stage = Stage::of(3).await;
    let guard = stage.locks.lock("k").options(short()).await.unwrap();
    let (other, _) = client(&stage.stores, config(3));
    let waiter = tokio::spawn(other.lock("k").options(short()).acquire());
    let key = Key::new("k").unwrap();
    let seen = |member: usize| {
        let (store, key) = (stage.stores[member].clone(), key.clone());
        async move { store.inspect(&key).await.unwrap() }
    };
    while seen(0).await.waiters.is_empty() {
        sleep(ms(1)).await;
    }
    let image = stage.stores[0].image();
    stage.stores[0].restore(&image);
    guard.release().await.unwrap();
    let guard = waiter.await.unwrap().unwrap();
    assert_eq!(seen(0).await.holders, []);
    assert!(seen(1).await.holder().is_some() && seen(2).await.holder().is_some());
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn an_inspection_tells_how_each_member_is() {
    use lock_core::view::MemberState;
    let stage = Stage::of(3).await;
    let guard = stage.locks.lock("k").options(short()).await.unwrap();
    stage.away(2, true);
    stage.stores[2].restart();
    stage.stores[0].restart();
    assert!(!stage.is_granted().await, "held");
    sleep(ms(500)).await;
    let members = stage.locks.inspect("k").await.unwrap().members;
    let names: Vec<_> = members.iter().map(|member| member.name.as_str()).collect();
    assert_eq!(names, ["m0:1", "m1:1", "m2:1"]);
    assert_eq!(members[1].state, MemberState::Ready);
    assert_eq!(members[2].state, MemberState::Unreachable);
    // Two lost their data: a third alone does not tell whose they are.
    assert_eq!(members[0].state, MemberState::Unenrolled);
    assert!(members.iter().all(|member| member.answered_ago.is_some()));
    stage.away(2, false);
    sleep(ms(1_500)).await;
    let members = stage.locks.inspect("k").await.unwrap().members;
    for member in [&members[0], &members[2]] {
        let MemberState::Quarantined { left } = member.state else { panic!("{member:?}") };
        assert!(left > ms(3_000) && left <= QUARANTINE, "{left:?}");
    }
    drop(guard);
    sleep(QUARANTINE + ms(2_000)).await;
    let _guard = stage.locks.lock("k").options(short()).await.unwrap();
    let seen = stage.locks.inspect("k").await.unwrap();
    for member in &seen.members {
        assert!(member.state == MemberState::Ready && member.holds, "{member:?}");
        assert!(member.lease_left.is_some_and(|left| left <= ms(1_000)), "{member:?}");
    }
}

/// A member that failed once is repaired though nobody asks for a lock any more.
#[tokio::test(start_paused = true)]
async fn a_member_that_did_not_answer_is_seen_to_in_the_background() {
    let stage = Stage::of(3).await;
    assert!(stage.is_granted().await);
    stage.scripts[0].next(Verb::Attempt, Act::Err(FaultKind::Transient));
    stage.stores[0].restart();
    assert!(stage.is_granted().await);
    stage.ready(0).await;
}

/// Another claim would find the key taken there for a moment.
#[tokio::test(start_paused = true)]
async fn an_attempt_that_was_given_up_while_its_member_was_looked_at_never_begins() {
    let stage = Stage::of(3).await;
    assert!(stage.is_granted().await);
    let (locks, scripts) = client(&stage.stores, config(3));
    scripts[0].always(Verb::Probe, Act::Stuck);
    let guard = locks.lock("k").options(short()).await.unwrap();
    guard.release().await.unwrap();
    scripts[0].heal();
    timeout(ms(1_000), scripts[0].called(Verb::Withdraw, 1)).await.expect("a withdrawal");
    assert_eq!(scripts[0].calls_of(Verb::Attempt).len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_taken_away_goes_to_the_next_with_a_greater_token() {
    for away in [None, Some(2)] {
        let stage = Stage::of(3).await;
        let guard = stage.locks.lock("k").options(short()).await.unwrap();
        let (other, _) = client(&stage.stores, config(3));
        let waiter = tokio::spawn(other.lock("k").options(short()).acquire());
        sleep(ms(50)).await;
        if let Some(away) = away {
            stage.away(away, true);
        }
        let begun = Instant::now();
        assert!(stage.locks.force_release("k").await.unwrap());
        let next = waiter.await.unwrap().unwrap();
        assert!(next.token() > guard.token() && begun.elapsed() < ms(300), "{:?}", begun.elapsed());
        timeout(ms(1_000), guard.lost()).await.expect("the old holder is told");
        drop(next);
        sleep(ms(1_500)).await;
        assert!(!stage.locks.force_release("k").await.unwrap(), "nobody holds it");
    }
}
