//! Readers, permits and downgrades: every reply lost, every session gone at the worst moment, and
//! what an operator does by hand.

use lock_core::Mode;
use lock_core::backend::{Attempt, Backend, Renewal};
use lock_core::test_util::AnyBackend;
use lock_core::zookeeper::ZooKeeper;
use tests::proxy::{Action, Match, Proxy};
use tests::seat::{Seat, seen};
use tests::wait::eventually;

use crate::support::*;

const WRITER: Mode = Mode::Exclusive;
const READER: Mode = Mode::Shared;
const OF_TWO: Mode = Mode::Permit { of: 2 };

/// The actions of a link on one request.
const ACTIONS: [Action; 3] = [Action::SwallowReply, Action::DropRequest, Action::HoldReply];

async fn open(url: &str) -> AnyBackend {
    AnyBackend::new(ZooKeeper::connect(url).await.expect("a server that answers"))
}

async fn behind(proxy: &Proxy) -> AnyBackend {
    open(&with_session(&proxy.url(), LONG)).await
}

/// Nobody holds `key` or waits for it, and no node of anybody is left in its directory.
async fn is_free(server: &Zoo, process: &AnyBackend, key: &str) {
    let seats =
        || server.tree(&format!("/{key}")).iter().any(|node| node.ephemeral_owner.is_some());
    eventually("no claim is left", || !seats()).await;
    let seen = seen(process, key).await;
    assert!(seen.holders.is_empty() && seen.waiters.is_empty(), "{seen:?}");
}

/// F11 to F13 (V1, V6): whichever request of its life loses its reply, its way or its time, a
/// reader or a permit is had once and given back, and leaves nothing.
#[tokio::test]
async fn any_one_fault_in_the_life_of_a_reader_or_a_permit_leaves_the_key_usable() {
    let of_three = Mode::Permit { of: 3 };
    for (mode, rival) in [(READER, WRITER), (OF_TWO, of_three)] {
        let server = Zoo::start().await;
        let direct = open(&server.at(LONG)).await;
        for action in ACTIONS {
            // The mutex, two lists, the permit, a list, the mutex again; and of both what a renewal
            // reads and a withdrawal deletes.
            for nth in 0..9 {
                let key = format!("{action:?}-{nth}");
                let proxy = Proxy::zookeeper(server.addr());
                let process = behind(&proxy).await;
                // So that the directories are there.
                let mut beside = Seat::new(&direct, &key, mode);
                beside.takes().await;
                let trap = proxy.trap(Match::any().containing(&key).after(nth), action);
                let mut unlucky = Seat::new(&process, &key, mode);
                let slot = unlucky.is_granted().await.slot;
                assert_eq!(slot, u32::from(mode == OF_TWO), "{action:?} of request {nth}");
                let seen = seen(&direct, &key).await;
                assert_eq!(seen.holders.len(), 2, "{action:?} of request {nth}: {seen:?}");
                assert!(seen.waiters.is_empty(), "{action:?} of request {nth}: {seen:?}");
                assert!(unlucky.holds().await && beside.holds().await);
                unlucky.leaves().await;
                drop(trap);
                assert!(beside.leaves().await);
                let mut next = Seat::new(&direct, &key, rival);
                next.is_granted().await;
                assert!(next.leaves().await);
                is_free(&server, &direct, &key).await;
            }
        }
    }
}

/// F11 to F13 (V1, V5, V6): a downgrade lets readers in and no writer, whichever of its requests
/// fails; with a writer behind the holder, both nodes go when it leaves.
#[tokio::test]
async fn any_one_fault_of_a_downgrade_lets_no_writer_in() {
    let server = Zoo::start().await;
    let direct = open(&server.at(LONG)).await;
    for has_rival in [false, true] {
        for action in ACTIONS {
            for nth in 0..5 {
                let key = format!("{has_rival}-{action:?}-{nth}");
                let proxy = Proxy::zookeeper(server.addr());
                let process = behind(&proxy).await;
                let mut holder = Seat::new(&process, &key, WRITER);
                let token = holder.takes().await.tokens.last();
                let mut reader = Seat::new(&direct, &key, READER);
                reader.waits().await;
                let mut rival = Seat::new(&direct, &key, WRITER);
                if has_rival {
                    rival.waits().await;
                }
                let trap = proxy.trap(Match::any().containing(&key).after(nth), action);
                assert!(holder.downgrades().await, "{action:?} of request {nth}");
                reader.is_granted().await;
                rival.waits().await;
                assert!(reader.leaves().await);
                rival.waits().await;
                assert!(holder.holds().await, "{action:?} of request {nth}");
                holder.leaves().await;
                drop(trap);
                assert!(rival.is_granted().await.tokens.first() > token);
                assert!(rival.leaves().await);
                is_free(&server, &direct, &key).await;
            }
        }
    }
}

/// F11 (V6): one that is withdrawn with a downgrade in doubt leaves neither node.
#[tokio::test]
async fn a_downgrade_in_doubt_is_withdrawn_whole() {
    let server = Zoo::start().await;
    let direct = open(&server.at(LONG)).await;
    for action in ACTIONS {
        let key = format!("{action:?}");
        let proxy = Proxy::zookeeper(server.addr());
        let process = behind(&proxy).await;
        let mut holder = Seat::new(&process, &key, WRITER);
        holder.takes().await;
        let trap = proxy.trap(Match::verb("CREATE").containing("__READ__"), action);
        assert!(holder.downgrade().await.is_err());
        let leaves = async { holder.leaves().await };
        let (_, ()) = tokio::join!(leaves, async {
            trap.sprung().await;
            drop(trap);
        });
        is_free(&server, &direct, &key).await;
    }
}

/// F22 (V1, V2, V6): a session that ends in the middle of a downgrade takes the hold with it,
/// whichever request it ends before, and nothing of it comes back in the next session.
#[tokio::test]
async fn a_session_that_ends_in_the_middle_of_a_downgrade_ends_the_hold() {
    let server = Zoo::start().await;
    let direct = open(&server.at(LONG)).await;
    for nth in 0..4 {
        let key = format!("k{nth}");
        let proxy = Proxy::zookeeper(server.addr());
        let process = behind(&proxy).await;
        let mut holder = Seat::new(&process, &key, WRITER);
        holder.takes().await;
        let (session, _) = server.holder(&key).expect("it is held");
        let mut rival = Seat::new(&direct, &key, WRITER);
        if nth % 2 == 0 {
            rival.waits().await;
        }
        let trap = proxy.trap(Match::any().containing(&key).after(nth), Action::HoldRequest);
        let ends = async {
            trap.sprung().await;
            server.expire_session(session);
            trap.release();
        };
        let (downgraded, ()) = tokio::join!(holder.downgrade(), ends);
        // The last request only deletes what the hold does not need any more.
        assert!(!matches!(downgraded, Ok(Renewal::Held(_))) || nth == 3, "{downgraded:?}");
        assert!(!holder.holds().await);
        rival.is_granted().await;
        assert!(!holder.leaves().await);
        assert!(rival.holds().await && rival.leaves().await);
        is_free(&server, &direct, &key).await;
    }
}

/// F22 (V1, V6): a session that ends when the permit is there, and the mutex as well, leaves
/// neither; the claim has one permit in its next session.
#[tokio::test]
async fn a_session_that_ends_between_the_permit_and_the_mutex_leaves_neither() {
    let server = Zoo::start().await;
    let (proxy, direct) = (Proxy::zookeeper(server.addr()), open(&server.at(LONG)).await);
    let process = behind(&proxy).await;
    let mut unlucky = Seat::new(&process, "k", OF_TWO);
    // It keeps the directory of permits: the server removes an empty one at any time.
    let mut other = Seat::new(&direct, "k", OF_TWO);
    other.takes().await;
    let trap = proxy.trap(Match::verb("MULTI").containing("/k/locks/_c_"), Action::HoldRequest);
    let ends = async {
        trap.sprung().await;
        eventually("the permit is there", || server.children("/k/leases").len() == 2).await;
        let mutex = server.children("/k/locks").pop().expect("the mutex");
        let mutex = server.node(&format!("/k/locks/{mutex}")).expect("the mutex");
        server.expire_session(mutex.ephemeral_owner.expect("a session"));
        trap.release();
    };
    let (_, ()) = tokio::join!(unlucky.attempt(), ends);
    unlucky.is_granted().await;
    let seen = seen(&direct, "k").await;
    assert_eq!((seen.holders.len(), seen.waiters.len()), (2, 0), "{seen:?}");
    assert!(unlucky.leaves().await && other.leaves().await);
    is_free(&server, &direct, "k").await;
}

/// F18 (V6), curator#835 and #1112: a claim that is dropped while it waits for a permit, with the
/// mutex or behind it, leaves no node.
#[tokio::test]
async fn a_claim_that_is_dropped_while_it_waits_for_a_permit_leaves_nothing() {
    let server = Zoo::start().await;
    let process = open(&server.at(LONG)).await;
    let of_one = Mode::Permit { of: 1 };
    let mut holder = Seat::new(&process, "k", of_one);
    holder.takes().await;
    for dropped in 0..2 {
        let mut waiting = vec![Seat::new(&process, "k", of_one), Seat::new(&process, "k", of_one)];
        waiting[0].waits().await;
        waiting[1].waits().await;
        drop(waiting.remove(dropped));
        eventually("its node is gone", || server.children("/k/locks").len() == 1).await;
        assert_eq!(server.children("/k/leases").len(), 1);
        waiting[0].waits().await;
        assert!(!waiting[0].leaves().await);
    }
    assert!(holder.holds().await && holder.leaves().await);
    is_free(&server, &process, "k").await;
}

/// At once, and not only when its turn has come; what was refused has left nothing.
#[tokio::test]
async fn another_limit_is_refused_behind_one_who_waits() {
    let server = Zoo::start().await;
    let process = open(&server.at(LONG)).await;
    let (of_one, of_three) = (Mode::Permit { of: 1 }, Mode::Permit { of: 3 });
    let mut holder = Seat::new(&process, "k", of_one);
    holder.takes().await;
    let mut waiter = Seat::new(&process, "k", of_one);
    waiter.waits().await;
    let mut other = Seat::new(&process, "k", of_three);
    let fault = other.attempt().await.unwrap_err();
    assert_eq!(fault.kind(), lock_core::backend::FaultKind::OtherLimit(1));
    assert_eq!((server.children("/k/locks").len(), server.children("/k/leases").len()), (1, 1));
    assert!(holder.leaves().await);
    waiter.is_granted().await;
    assert!(waiter.leaves().await);
    is_free(&server, &process, "k").await;
}

/// One that is about to be refused refuses nobody: those behind it go by what the holders say.
#[tokio::test]
async fn a_claim_behind_one_that_is_refused_waits() {
    let server = Zoo::start().await;
    let (proxy, direct) = (Proxy::zookeeper(server.addr()), open(&server.at(LONG)).await);
    let process = behind(&proxy).await;
    let mut holders = [Seat::new(&direct, "k", OF_TWO), Seat::new(&direct, "k", OF_TWO)];
    for holder in &mut holders {
        holder.takes().await;
    }
    let mut refused = Seat::new(&process, "k", Mode::Permit { of: 5 });
    let mut next = Seat::new(&direct, "k", OF_TWO);
    let trap = proxy.trap(Match::verb("DELETE").containing("/k/locks/"), Action::HoldRequest);
    let behind = async {
        trap.sprung().await;
        next.waits().await;
        assert_eq!(server.children("/k/locks").len(), 2);
        trap.release();
    };
    let (answer, ()) = tokio::join!(refused.attempt(), behind);
    assert_eq!(answer.unwrap_err().kind(), lock_core::backend::FaultKind::OtherLimit(2));
    assert!(holders[0].leaves().await);
    next.is_granted().await;
    assert!(next.leaves().await && holders[1].leaves().await);
    is_free(&server, &direct, "k").await;
}

/// F29 (V1): of two that count at one time, as an operator took the mutex away, the later one
/// begins again: no two have one number.
#[tokio::test]
async fn a_mutex_that_an_operator_takes_away_gives_no_number_twice() {
    let server = Zoo::start().await;
    let (proxy, direct) = (Proxy::zookeeper(server.addr()), open(&server.at(LONG)).await);
    let process = behind(&proxy).await;
    let mut unlucky = Seat::new(&process, "k", OF_TWO);
    let mut other = Seat::new(&direct, "k", OF_TWO);
    // So that the directories are there, and their first use is over.
    assert!(other.is_granted().await.slot == 0 && other.leaves().await);
    let trap = proxy.trap(Match::verb("CREATE").containing("/k/leases/"), Action::HoldRequest);
    let operator = async {
        trap.sprung().await;
        let mutex = server.children("/k/locks").pop().expect("the mutex");
        assert!(server.delete(&format!("/k/locks/{mutex}")));
        assert_eq!(other.is_granted().await.slot, 0);
        trap.release();
    };
    let (_, ()) = tokio::join!(unlucky.attempt(), operator);
    assert_eq!(unlucky.is_granted().await.slot, 1);
    assert!(unlucky.holds().await && other.holds().await);
    assert_eq!(server.children("/k/leases").len(), 2);
    assert!(unlucky.leaves().await && other.leaves().await);
    is_free(&server, &direct, "k").await;
}

/// V4: the first in line stays first where the directory of permits is removed under it.
#[tokio::test]
async fn the_first_in_line_stays_first_when_the_directory_of_permits_goes() {
    let server = Zoo::churning(tests::zookeeper::ZooKeeperOptions::new(), 60_000).await;
    let (proxy, direct) = (Proxy::zookeeper(server.addr()), open(&server.at(LONG)).await);
    let process = behind(&proxy).await;
    let of_one = Mode::Permit { of: 1 };
    let (mut first, mut second) =
        (Seat::new(&process, "k", of_one), Seat::new(&direct, "k", of_one));
    // The directory is there, and empty.
    assert!(second.is_granted().await.slot == 0 && second.leaves().await);
    let trap = proxy.trap(Match::any().containing("/k/leases").after(1), Action::HoldRequest);
    let goes = async {
        trap.sprung().await;
        second.waits().await;
        assert!(server.delete("/k/leases"));
        trap.release();
    };
    let (answer, ()) = tokio::join!(first.attempt(), goes);
    assert!(matches!(answer, Ok(Attempt::Granted(_))), "{answer:?}");
    second.waits().await;
    assert!(first.leaves().await);
    second.is_granted().await;
    assert!(second.leaves().await);
}

/// V6: a claim that could not leave in time, and asks again, leaves what it got then.
#[tokio::test]
async fn a_claim_that_was_late_to_leave_leaves_its_next_node_as_well() {
    let server = Zoo::start().await;
    let (proxy, direct) = (Proxy::zookeeper(server.addr()), open(&server.at(LONG)).await);
    let process = behind(&proxy).await;
    for mode in [WRITER, OF_TWO] {
        let mut seat = Seat::new(&process, "k", mode);
        seat.is_granted().await;
        let trap = proxy.trap(Match::verb("DELETE").containing("/k/"), Action::HoldRequest);
        assert!(seat.leave().await.is_err(), "{mode:?}");
        drop(trap);
        seat.is_granted().await;
        assert!(seat.leaves().await, "{mode:?}");
        is_free(&server, &direct, "k").await;
    }
}

/// A permit that was asked for goes on to say which number it has.
#[tokio::test]
async fn a_wish_takes_no_number_from_a_permit() {
    let server = Zoo::start().await;
    let process = open(&server.at(LONG)).await;
    let key = lock_core::Key::new("k").unwrap();
    let mut first = Seat::new(&process, "k", OF_TWO);
    assert_eq!(first.takes().await.slot, 0);
    for _ in 0..2 {
        assert!(process.request_revoke(&key).await.unwrap());
        assert!(matches!(first.renew().await, Ok(Renewal::Held(grant)) if grant.revoke_requested));
    }
    let mut second = Seat::new(&process, "k", OF_TWO);
    let grant = second.takes().await;
    assert!(grant.slot == 1 && !grant.revoke_requested, "{grant:?}");
    assert!(first.leaves().await && second.leaves().await);
    is_free(&server, &process, "k").await;
}

/// V5: holders beside whom others come and go are told when one of them has to wait.
#[tokio::test]
async fn holders_that_share_are_told_when_somebody_waits() {
    let server = Zoo::start().await;
    let process = open(&server.at(LONG)).await;
    let of_three = Mode::Permit { of: 3 };
    for (key, mode, rival) in [("readers", READER, WRITER), ("permits", of_three, of_three)] {
        let mut holders = [Seat::new(&process, key, mode), Seat::new(&process, key, mode)];
        for holder in &mut holders {
            holder.takes().await;
        }
        let [one, two] = &mut holders;
        let others = async {
            let mut third = Seat::new(&process, key, mode);
            for _ in 0..3 {
                third.is_granted().await;
                assert!(third.leaves().await);
            }
            third.is_granted().await;
            let mut rival = Seat::new(&process, key, rival);
            rival.waits().await;
            (third, rival)
        };
        let ((), (), (mut third, mut rival)) = tokio::join!(one.is_told(), two.is_told(), others);
        for holder in &mut holders {
            assert!(matches!(holder.renew().await, Ok(Renewal::Held(grant)) if grant.wanted));
        }
        for holder in &mut holders {
            assert!(holder.leaves().await);
        }
        assert!(third.leaves().await);
        rival.is_granted().await;
        assert!(rival.leaves().await);
        is_free(&server, &process, key).await;
    }
}

/// V5: a reader that read the line before a downgrade, and asks to be told of its end after it, is
/// let in all the same: nobody tells it once more.
#[tokio::test]
async fn a_reader_that_asks_to_be_told_too_late_looks_again() {
    let server = Zoo::start().await;
    let (proxy, direct) = (Proxy::zookeeper(server.addr()), open(&server.at(LONG)).await);
    let process = behind(&proxy).await;
    let mut holder = Seat::new(&direct, "k", WRITER);
    holder.takes().await;
    let trap = proxy.trap(Match::verb("GETDATA").containing("/k/"), Action::HoldRequest);
    let mut reader = Seat::new(&process, "k", READER);
    let mut rival = Seat::new(&direct, "k", WRITER);
    let downgrades = async {
        trap.sprung().await;
        rival.waits().await;
        assert!(holder.downgrades().await);
        trap.release();
    };
    let (attempt, ()) = tokio::join!(reader.attempt(), downgrades);
    assert!(matches!(attempt, Ok(Attempt::Granted(_))), "{attempt:?}");
    assert!(reader.leaves().await && holder.leaves().await);
    rival.is_granted().await;
    assert!(rival.leaves().await);
    is_free(&server, &direct, "k").await;
}

/// F29 (V1, V2): of a downgraded holder before a writer the first node keeps the key: without it
/// the holder is told, without the other it stays, and nobody is let in.
#[tokio::test]
async fn an_operator_takes_either_node_of_a_downgraded_holder() {
    let server = Zoo::start().await;
    let process = open(&server.at(LONG)).await;
    for (key, mark, stays) in [("a", "__READ__", true), ("b", "-lock-", false)] {
        let mut holder = Seat::new(&process, key, WRITER);
        holder.takes().await;
        let mut rival = Seat::new(&process, key, WRITER);
        rival.waits().await;
        assert!(holder.downgrades().await);
        let of_holder = &server.line(key)[0][..40];
        let both = server.children(&format!("/{key}"));
        let node = both.iter().find(|name| name.starts_with(of_holder) && name.contains(mark));
        assert!(server.delete(&format!("/{key}/{}", node.expect("two nodes"))));
        assert_eq!(holder.holds().await, stays);
        if stays {
            rival.waits().await;
            let mut reader = Seat::new(&process, key, READER);
            reader.waits().await;
            assert!(holder.downgrades().await && holder.holds().await);
            rival.waits().await;
            assert!(!reader.leaves().await && holder.leaves().await);
        }
        rival.is_granted().await;
        assert!(rival.leaves().await);
        is_free(&server, &process, key).await;
    }
}

/// Once the writer that made it keep both nodes has left, a downgraded holder has the reader's.
#[tokio::test]
async fn a_downgraded_holder_gives_its_first_node_back_when_no_writer_waits() {
    let server = Zoo::start().await;
    let process = open(&server.at(LONG)).await;
    let mut holder = Seat::new(&process, "k", WRITER);
    holder.takes().await;
    let mut rival = Seat::new(&process, "k", WRITER);
    rival.waits().await;
    assert!(holder.downgrades().await);
    assert_eq!(server.children("/k").len(), 3);
    assert!(!rival.leaves().await);
    eventually("the rival is gone", || server.children("/k").len() == 2).await;
    assert!(holder.holds().await);
    let left = server.children("/k");
    assert!(left.len() == 1 && left[0].contains("__READ__"), "{left:?}");
    assert!(holder.leaves().await);
    is_free(&server, &process, "k").await;
}

/// V4, V5: the server removes the directories of permits under those who take them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn directories_of_permits_that_are_removed_are_not_noticed() {
    let server = Zoo::churning(tests::zookeeper::ZooKeeperOptions::new(), 1).await;
    let (one, two) = (open(&server.at(LONG)).await, open(&server.at(LONG)).await);
    let rounds = async |process: &AnyBackend| {
        for _ in 0..60 {
            let mut seat = Seat::new(process, "k", Mode::Permit { of: 1 });
            seat.is_granted().await;
            assert!(seat.leaves().await);
            tokio::task::yield_now().await;
        }
    };
    tokio::join!(rounds(&one), rounds(&two));
    is_free(&server, &one, "k").await;
    drop((one, two));
    eventually("nothing is left", || server.tree("/").is_empty()).await;
}

/// The requests of a claim, without what the session sends by itself.
#[tokio::test]
async fn how_many_requests_each_mode_takes() {
    let server = Zoo::start().await;
    let (one, two) = (open(&server.at(LONG)).await, open(&server.at(LONG)).await);
    // So that the directories stay.
    let mut others =
        [Seat::new(&two, "readers", READER), Seat::new(&two, "permits", Mode::Permit { of: 9 })];
    for other in &mut others {
        other.takes().await;
    }
    for (key, mode, taking, leaving) in [
        ("writers", WRITER, 2, 1),
        ("readers", READER, 2, 1),
        // The mutex, two lists; the permit, a list, the mutex again.
        ("permits", Mode::Permit { of: 9 }, 6, 1),
    ] {
        let mut least = [u64::MAX; 2];
        for _ in 0..8 {
            let mut seat = Seat::new(&one, key, mode);
            let start = one.requests();
            assert!(matches!(seat.attempt().await, Ok(Attempt::Granted(_))));
            let taken = one.requests();
            assert!(seat.leaves().await);
            least[0] = least[0].min(taken - start);
            least[1] = least[1].min(one.requests() - taken);
        }
        assert_eq!(least, [taking, leaving], "{mode:?}");
    }
}
