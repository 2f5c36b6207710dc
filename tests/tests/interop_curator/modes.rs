//! Curator's `InterProcessReadWriteLock` and its mutex beside our claims of all modes: which meets
//! which, in which order, and what a downgrade and a death let in.

use std::time::Duration;

use lock_core::Mode;
use lock_core::test_util::AnyBackend;
use lock_core::zookeeper::{Exclusive, ZooKeeper};
use tests::clock::now_ns;
use tests::curator::Recipe::{self, Mutex, Read, Write};
use tests::proxy::Proxy;
use tests::seat::{Seat, seen};
use tests::wait::{PATIENCE, within};
use tests::worker::Worker;

use crate::support::*;

const AS_WRITER: &str = "&exclusive=writer";

impl Both {
    /// Java waits for what it was told to acquire, as the number of nodes shows.
    async fn stand(&self, count: usize) {
        let nodes = || self.server.children(PATH).len() == count;
        tests::wait::eventually(&format!("{count} nodes"), nodes).await;
    }

    /// Looks once whether Java is let in, and leaves.
    async fn lets_in(&self, recipe: Recipe) -> bool {
        let asked = self.java.acquire_as(recipe, "once", PATH, Duration::ZERO).await.unwrap();
        if asked.is_some() {
            self.java.release("once").await.unwrap();
        }
        asked.is_some()
    }
}

/// The table of docs/zookeeper.md, row by row: whether ours waits for theirs, and theirs for ours.
#[tokio::test]
async fn who_waits_for_whom() {
    let both = both().await;
    for (params, mode, theirs, we_wait, they_wait) in [
        ("", Mode::Exclusive, Mutex, true, true),
        ("", Mode::Exclusive, Read, true, false),
        ("", Mode::Exclusive, Write, true, false),
        (AS_WRITER, Mode::Exclusive, Mutex, true, false),
        (AS_WRITER, Mode::Exclusive, Read, true, true),
        (AS_WRITER, Mode::Exclusive, Write, true, true),
        ("", Mode::Shared, Mutex, true, false),
        ("", Mode::Shared, Read, false, false),
        ("", Mode::Shared, Write, true, true),
        ("", Mode::Permit { of: 1 }, Recipe::Permits(1), true, true),
        ("", Mode::Permit { of: 1 }, Mutex, false, false),
        ("", Mode::Permit { of: 1 }, Write, false, false),
    ] {
        let row = format!("{mode:?} with {params:?}, and {theirs}");
        let process = process(&both, params).await;
        let mut ours = Seat::new(&process, KEY, mode);
        both.java.acquire_as(theirs, "j", PATH, PATIENCE).await.unwrap().expect("a free key");
        if we_wait {
            ours.waits().await;
        } else {
            ours.takes().await;
            assert!(ours.leaves().await);
        }
        both.java.release("j").await.unwrap();
        ours.is_granted().await;
        assert_eq!(both.lets_in(theirs).await, !they_wait, "{row}");
        assert!(ours.leaves().await, "{row}");
        assert!(both.lets_in(theirs).await, "{row}");
    }
}

/// Both names of an exclusive claim of ours are one line, though Curator's two recipes are not.
#[tokio::test]
async fn our_writers_in_either_name_exclude_each_other_and_readers() {
    let both = both().await;
    let plain = process(&both, "").await;
    let writing = ZooKeeper::connect(&url(&both.server)).await.expect("a server that answers");
    let writing = AnyBackend::new(writing.with_exclusive(Exclusive::Writer));
    let mut line = [
        Seat::new(&plain, KEY, Mode::Exclusive),
        Seat::new(&writing, KEY, Mode::Exclusive),
        Seat::new(&writing, KEY, Mode::Shared),
        Seat::new(&plain, KEY, Mode::Exclusive),
    ];
    line[0].takes().await;
    for waiter in &mut line[1..] {
        waiter.waits().await;
    }
    for at in 0..line.len() {
        line[at].is_granted().await;
        for waiter in &mut line[at + 1..] {
            waiter.waits().await;
        }
        let marks = both.server.children(PATH);
        let writers = marks.iter().filter(|name| name.contains("-__WRIT__")).count();
        assert_eq!(writers, usize::from(at < 2), "{marks:?}");
        assert!(line[at].leaves().await);
    }
}

/// Readers that stand together enter together, of both languages; writers alone, each in its turn.
#[tokio::test]
async fn readers_and_writers_of_both_languages_stand_in_one_line() {
    let both = both().await;
    let process = process(&both, AS_WRITER).await;
    let mut first = Seat::new(&process, KEY, Mode::Shared);
    first.takes().await;
    assert!(both.lets_in(Read).await, "beside a reader");
    let writer = both.java.acquire_as(Write, "writer", PATH, PATIENCE);
    both.stand(2).await;
    let mut reader = Seat::new(&process, KEY, Mode::Shared);
    reader.waits().await;
    let beside = both.java.acquire_as(Read, "beside", PATH, PATIENCE);
    both.stand(4).await;
    let mut last = Seat::new(&process, KEY, Mode::Exclusive);
    last.waits().await;
    let line = seen(&process, KEY).await;
    let modes = |mode| line.waiters.iter().map(move |waiter| waiter.mode == mode);
    assert_eq!(line.holders.len(), 1);
    assert!(modes(Mode::Shared).eq([false, true, true, false]), "{line:?}");
    let released_ns = now_ns();
    assert!(first.leaves().await);
    assert!(
        within("the writer's turn", writer).await.unwrap().expect("a grant").t_ns > released_ns
    );
    reader.waits().await;
    last.waits().await;
    let released_ns = now_ns();
    both.java.release("writer").await.unwrap();
    reader.is_granted().await;
    let beside = within("the reader's turn", beside).await.unwrap().expect("a grant");
    assert!(beside.t_ns > released_ns);
    last.waits().await;
    assert!(reader.leaves().await);
    last.waits().await;
    both.java.release("beside").await.unwrap();
    last.is_granted().await;
    assert!(!both.lets_in(Read).await && !both.lets_in(Write).await);
    assert!(last.leaves().await);
    both.nobody_is_left().await;
}

/// kazoo#649: a reader that watched a later writer would wait for one that waits for it.
#[tokio::test]
async fn a_reader_waits_for_no_writer_behind_it() {
    let both = both().await;
    let process = process(&both, AS_WRITER).await;
    let mut holder = Seat::new(&process, KEY, Mode::Exclusive);
    holder.takes().await;
    let mut reader = Seat::new(&process, KEY, Mode::Shared);
    reader.waits().await;
    let writer = both.java.acquire_as(Write, "writer", PATH, PATIENCE);
    both.stand(3).await;
    assert!(holder.leaves().await);
    reader.is_told().await;
    reader.takes().await;
    let released_ns = now_ns();
    assert!(reader.leaves().await);
    assert!(
        within("the writer's turn", writer).await.unwrap().expect("a grant").t_ns > released_ns
    );
}

/// Curator#796, #1138: the writer that waits is not let in while the writer becomes a reader. The
/// reader of Java's that came before it waits on, as it does not know of such pairs.
#[tokio::test]
async fn a_downgrade_lets_no_java_writer_in_between() {
    let both = both().await;
    let process = process(&both, AS_WRITER).await;
    let mut holder = Seat::new(&process, KEY, Mode::Exclusive);
    holder.takes().await;
    let reader = both.java.acquire_as(Read, "reader", PATH, PATIENCE);
    both.stand(2).await;
    let mut ours = Seat::new(&process, KEY, Mode::Shared);
    ours.waits().await;
    let writer = both.java.acquire_as(Write, "writer", PATH, PATIENCE);
    both.stand(4).await;
    assert!(holder.downgrades().await);
    ours.is_told().await;
    ours.takes().await;
    assert!(!both.lets_in(Read).await && !both.lets_in(Write).await);
    assert!(ours.leaves().await);
    assert!(holder.holds().await);
    let left_ns = now_ns();
    assert!(holder.leaves().await);
    let reader = within("the reader's turn", reader).await.unwrap().expect("a grant");
    assert!(reader.t_ns > left_ns);
    let released_ns = now_ns();
    both.java.release("reader").await.unwrap();
    let writer = within("the writer's turn", writer).await.unwrap().expect("a grant");
    assert!(writer.t_ns > released_ns);
    both.java.release("writer").await.unwrap();
    both.nobody_is_left().await;
}

/// Java's reader has the number of its writer since Curator 5.5, and our writer waits for it. Before
/// that it stands behind ours, which is let in beside it: Curator#1138.
#[tokio::test]
async fn a_downgrade_of_java_keeps_our_writer_out_where_its_reader_keeps_the_place() {
    let both = both().await;
    let process = process(&both, AS_WRITER).await;
    both.java.acquire_as(Write, "j", PATH, PATIENCE).await.unwrap().expect("a free key");
    let number = |mark: &str| {
        let nodes = both.server.children(PATH);
        let of = nodes.iter().filter_map(|name| name.rsplit_once(mark)).map(|(_, number)| number);
        of.min().expect("a node").to_owned()
    };
    let writer = number("__WRIT__");
    let mut ours = Seat::new(&process, KEY, Mode::Exclusive);
    ours.waits().await;
    both.java.downgrade("j").await.unwrap();
    if number("__READ__") == writer {
        ours.is_told().await;
        ours.waits().await;
        let line = seen(&process, KEY).await;
        assert_eq!((line.holders.len(), line.waiters.len()), (1, 1), "{line:?}");
        assert_eq!(line.holders[0].mode, Mode::Shared);
        both.java.release("j").await.unwrap();
        ours.is_granted().await;
    } else {
        ours.is_granted().await;
        both.java.release("j").await.unwrap();
    }
    assert!(ours.leaves().await);
    both.nobody_is_left().await;
}

/// With no writer in line it is Curator's reader from then on.
#[tokio::test]
async fn a_downgrade_lets_java_readers_in_and_its_later_writer_waits() {
    let both = both().await;
    let process = process(&both, AS_WRITER).await;
    let mut holder = Seat::new(&process, KEY, Mode::Exclusive);
    holder.takes().await;
    let reader = both.java.acquire_as(Read, "reader", PATH, PATIENCE);
    both.stand(2).await;
    assert!(holder.downgrades().await);
    within("the reader's turn", reader).await.unwrap().expect("a grant");
    both.java.release("reader").await.unwrap();
    assert!(both.lets_in(Read).await && !both.lets_in(Write).await);
    assert!(holder.holds().await && holder.leaves().await);
    assert!(both.lets_in(Write).await);
}

#[tokio::test]
async fn a_java_reader_or_writer_that_is_killed_is_followed_when_its_session_ends() {
    for (theirs, ours) in [(Read, Mode::Exclusive), (Write, Mode::Shared)] {
        let mut both = both().await;
        let process = process(&both, AS_WRITER).await;
        both.java.acquire_as(theirs, "j", PATH, PATIENCE).await.unwrap().expect("a free key");
        let mut next = Seat::new(&process, KEY, ours);
        next.waits().await;
        both.java.kill().await;
        next.is_granted().await;
        assert!(next.leaves().await);
        both.nobody_is_left().await;
    }
}

/// A process of ours behind a link that goes silent is dead to the server.
pub(crate) async fn behind_a_link(both: &Both) -> (Proxy, AnyBackend) {
    let proxy = Proxy::zookeeper(both.server.addr());
    let url = proxy.url() + "/locks?session=4s&exclusive=writer";
    let opened = ZooKeeper::connect(&url).await;
    (proxy, AnyBackend::new(opened.expect("a server that answers")))
}

#[tokio::test]
async fn our_reader_or_writer_that_dies_is_followed_by_java_when_its_session_ends() {
    for (ours, theirs) in [(Mode::Shared, Write), (Mode::Exclusive, Read)] {
        let both = both().await;
        let (proxy, process) = behind_a_link(&both).await;
        let mut holder = Seat::new(&process, KEY, ours);
        holder.takes().await;
        let next = both.java.acquire_as(theirs, "j", PATH, PATIENCE);
        both.stand(2).await;
        proxy.black_hole();
        within("Java's turn", next).await.unwrap().expect("a grant");
        proxy.reset();
        proxy.resume();
        assert!(!holder.holds().await);
        both.java.release("j").await.unwrap();
    }
}

/// A process of ours that is stopped or killed for good frees its share with its session. One that
/// goes on has lost it.
#[tokio::test]
async fn our_reader_that_is_stopped_or_killed_is_followed_by_a_java_writer() {
    for kills in [true, false] {
        let both = both().await;
        let mut rust = Worker::spawn(WORKER, &["--url", &url(&both.server), "--shared"]);
        rust.ask(&format!("acquire {KEY} 9000")).await.expect_success();
        assert!(both.server.children(PATH)[0].contains("-__READ__"));
        assert!(both.lets_in(Read).await && !both.lets_in(Write).await);
        let next = both.java.acquire_as(Write, "j", PATH, PATIENCE);
        both.stand(2).await;
        if kills {
            rust.kill();
        } else {
            rust.freeze();
        }
        within("Java's turn", next).await.unwrap().expect("a grant");
        if !kills {
            rust.thaw();
            assert_eq!(rust.ask("is_held").await.held, Some(false));
        }
        both.java.release("j").await.unwrap();
    }
}
