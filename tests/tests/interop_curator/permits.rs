//! Curator's `InterProcessSemaphoreV2` and our permits: both count all, and wait in one line.

use std::time::Duration;

use lock_core::Mode;
use lock_core::backend::{Backend, FaultKind, Renewal};
use tests::clock::now_ns;
use tests::curator::Recipe::Permits;
use tests::seat::{Seat, seen};
use tests::wait::{PATIENCE, eventually, within};
use tests::worker::Worker;

use crate::modes::behind_a_link;
use crate::support::*;

const OF_TWO: Mode = Mode::Permit { of: 2 };

impl Both {
    /// So many wait for a permit, or have the mutex.
    async fn wanting(&self, count: usize) {
        let locks = format!("{PATH}/locks");
        eventually("they want permits", || self.server.children(&locks).len() == count).await;
    }

    fn leases(&self) -> usize {
        self.server.children(&format!("{PATH}/leases")).len()
    }
}

#[tokio::test]
async fn permits_of_both_languages_are_counted_together() {
    let both = both().await;
    let process = process(&both, "").await;
    both.java.acquire_as(Permits(2), "j", PATH, PATIENCE).await.unwrap().expect("a permit");
    let mut ours = Seat::new(&process, KEY, OF_TWO);
    assert_eq!(ours.takes().await.slot, 0, "Java's has no number");
    let third = both.java.acquire_as(Permits(2), "third", PATH, Duration::ZERO).await;
    assert_eq!(third.unwrap(), None);
    let mut next = Seat::new(&process, KEY, OF_TWO);
    next.waits().await;
    let line = seen(&process, KEY).await;
    assert_eq!((line.holders.len(), line.waiters.len()), (2, 1), "{line:?}");
    assert!(line.holders.iter().all(|holder| holder.mode == OF_TWO), "{line:?}");
    both.java.release("j").await.unwrap();
    next.is_told().await;
    assert_eq!(next.takes().await.slot, 1, "one that no other of ours has");
    assert!(ours.leaves().await && next.leaves().await);
    assert_eq!(both.leases(), 0);
    both.nobody_is_left().await;
}

/// The mutex is one line: who came first is first, and a waiter of Java's is no holder to us.
#[tokio::test]
async fn java_and_rust_wait_for_permits_in_one_line() {
    let both = both().await;
    let process = process(&both, "").await;
    let mut holders = [Seat::new(&process, KEY, OF_TWO), Seat::new(&process, KEY, OF_TWO)];
    holders[0].takes().await;
    holders[1].takes().await;
    let theirs = both.java.acquire_as(Permits(2), "j", PATH, PATIENCE);
    both.wanting(1).await;
    eventually("it counts its own", || both.leases() == 3).await;
    let mut ours = Seat::new(&process, KEY, OF_TWO);
    ours.waits().await;
    let line = seen(&process, KEY).await;
    assert_eq!((line.holders.len(), line.waiters.len()), (2, 2), "{line:?}");
    let released_ns = now_ns();
    assert!(holders[0].leaves().await);
    let theirs = within("Java's turn", theirs).await.unwrap().expect("a permit");
    assert!(theirs.t_ns > released_ns);
    ours.waits().await;
    both.java.release("j").await.unwrap();
    ours.is_granted().await;
    let last = both.java.acquire_as(Permits(2), "last", PATH, PATIENCE);
    both.wanting(1).await;
    let released_ns = now_ns();
    assert!(holders[1].leaves().await);
    assert!(within("Java's turn", last).await.unwrap().expect("a permit").t_ns > released_ns);
    both.java.release("last").await.unwrap();
    assert!(ours.leaves().await);
    both.nobody_is_left().await;
}

/// Curator#835, #855, #982, #1112: who gives up leaves no permit and no place in the line, so the
/// next is let in.
#[tokio::test]
async fn who_gives_up_leaves_no_node_that_java_or_we_would_wait_for() {
    let both = both().await;
    let process = process(&both, "").await;
    both.java.acquire_as(Permits(1), "j", PATH, PATIENCE).await.unwrap().expect("a permit");
    let of_one = Mode::Permit { of: 1 };
    // With the mutex in hand, and behind it.
    let mut quitters = [Seat::new(&process, KEY, of_one), Seat::new(&process, KEY, of_one)];
    quitters[0].waits().await;
    quitters[1].waits().await;
    let waiting = both.java.acquire_as(Permits(1), "next", PATH, PATIENCE);
    both.wanting(3).await;
    assert!(!quitters[1].leaves().await && !quitters[0].leaves().await);
    both.wanting(1).await;
    both.java.release("j").await.unwrap();
    within("Java's turn", waiting).await.unwrap().expect("a permit");
    assert_eq!(both.leases(), 1);
    both.java.release("next").await.unwrap();
    both.nobody_is_left().await;
}

#[tokio::test]
async fn a_permit_of_the_dead_is_free_when_their_session_ends() {
    let mut both = both().await;
    let (proxy, process) = behind_a_link(&both).await;
    let of_one = Mode::Permit { of: 1 };
    let mut holder = Seat::new(&process, KEY, of_one);
    holder.takes().await;
    let next = both.java.acquire_as(Permits(1), "j", PATH, PATIENCE);
    both.wanting(1).await;
    proxy.black_hole();
    within("Java's turn", next).await.unwrap().expect("a permit");
    proxy.reset();
    proxy.resume();
    assert!(!holder.holds().await);
    let mut next = Seat::new(&process, KEY, of_one);
    next.is_blocked_eventually().await;
    both.java.kill().await;
    next.is_granted().await;
    assert!(next.leaves().await);
    both.nobody_is_left().await;
}

/// The word that Java's `Revoker` writes over the data of a permit reaches its holder. It takes
/// neither its number from it nor the limit from the key.
#[tokio::test]
async fn our_permit_that_java_revokes_keeps_its_number() {
    let both = both().await;
    let process = process(&both, "").await;
    let mut first = Seat::new(&process, KEY, OF_TWO);
    first.takes().await;
    let lease = both.server.children(&format!("{PATH}/leases")).pop().expect("a permit");
    let told = async {
        both.java.revoke(&format!("{PATH}/leases/{lease}")).await.unwrap();
    };
    tokio::join!(first.is_told(), told);
    let mut other = Seat::new(&process, KEY, Mode::Permit { of: 3 });
    assert_eq!(other.attempt().await.unwrap_err().kind(), FaultKind::OtherLimit(2));
    let mut second = Seat::new(&process, KEY, OF_TWO);
    assert_eq!(second.takes().await.slot, 1);
    assert!(matches!(first.renew().await, Ok(Renewal::Held(grant)) if grant.revoke_requested));
    assert!(first.leaves().await && second.leaves().await);
    both.nobody_is_left().await;
}

/// The node of a waiter of Java's among the permits stays: Java goes on with it. The limit is told
/// by the holder's node, or else by that of one who waits.
#[tokio::test]
async fn a_forced_release_takes_nothing_from_a_java_waiter() {
    let key = lock_core::Key::new(KEY).unwrap();
    let of_one = Mode::Permit { of: 1 };
    for we_hold in [true, false] {
        let both = both().await;
        let process = process(&both, "").await;
        let mut ours = Seat::new(&process, KEY, of_one);
        if we_hold {
            ours.takes().await;
        } else {
            both.java.acquire_as(Permits(1), "holder", PATH, PATIENCE).await.unwrap().expect("one");
        }
        let waiting = both.java.acquire_as(Permits(1), "j", PATH, PATIENCE);
        both.wanting(1).await;
        eventually("it counts its own", || both.leases() == 2).await;
        let mut behind = Seat::new(&process, KEY, of_one);
        behind.waits().await;
        let leases = both.server.children(&format!("{PATH}/leases"));
        assert!(process.force_release(&key).await.unwrap());
        let theirs = within("Java's turn", waiting).await.unwrap().expect("a permit");
        assert!(leases.contains(&theirs.node), "{theirs:?}, of {leases:?}");
        assert!(!ours.holds().await);
        behind.waits().await;
        both.java.release("j").await.unwrap();
        behind.is_granted().await;
        assert!(behind.leaves().await);
    }
}

/// A process of ours that is killed, or stopped for longer than its session lasts.
#[tokio::test]
async fn our_permit_is_free_when_its_process_is_killed_or_stopped() {
    for kills in [true, false] {
        let both = both().await;
        let arguments = ["--url", &url(&both.server), "--permits", "1"];
        let mut rust = Worker::spawn(WORKER, &arguments);
        rust.ask(&format!("acquire {KEY} 9000")).await.expect_success();
        let next = both.java.acquire_as(Permits(1), "j", PATH, PATIENCE);
        both.wanting(1).await;
        if kills {
            rust.kill();
        } else {
            rust.freeze();
        }
        within("Java's turn", next).await.unwrap().expect("a permit");
        if !kills {
            rust.thaw();
            assert_eq!(rust.ask("is_held").await.held, Some(false));
        }
        both.java.release("j").await.unwrap();
    }
}

/// Many rounds of both, without anybody who says whose turn it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_limit_is_obeyed_by_both() {
    const ROUNDS: usize = 20;
    const LOOKS: usize = 8;
    let both = both().await;
    let process = process(&both, "").await;
    let rust = async || {
        let mut held = Vec::new();
        for _ in 0..ROUNDS {
            let mut seat = Seat::new(&process, KEY, OF_TWO);
            seat.is_granted().await;
            let from_ns = now_ns();
            // As long as one more would need to come in.
            for _ in 0..LOOKS {
                seen(&process, KEY).await;
            }
            held.push((from_ns, now_ns()));
            assert!(seat.leaves().await);
        }
        held
    };
    let java = async |handle: &str| {
        let mut held = Vec::new();
        for _ in 0..ROUNDS {
            let grant = both.java.acquire_as(Permits(2), handle, PATH, PATIENCE).await.unwrap();
            for _ in 0..LOOKS {
                both.java.participants(PATH).await.unwrap();
            }
            held.push((grant.expect("its turn").t_ns, now_ns()));
            both.java.release(handle).await.unwrap();
        }
        held
    };
    let (a, b, c, d) = tokio::join!(rust(), rust(), java("c"), java("d"));
    let all = [a, b, c, d].concat();
    assert_eq!(all.len(), 4 * ROUNDS);
    let mut events: Vec<_> = all.iter().flat_map(|(from, to)| [(*from, 1), (*to, -1)]).collect();
    events.sort_unstable();
    let mut inside = 0;
    for (at, change) in events {
        inside += change;
        assert!(inside <= 2, "{inside} at {at}");
    }
    both.nobody_is_left().await;
}
