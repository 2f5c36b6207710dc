//! Curator does what it is told, and can be revoked, frozen and killed.

#![allow(clippy::disallowed_methods)]

use std::future::Future;
use std::path::PathBuf;
use std::time::Duration;

use tests::clock::now_ns;
use tests::curator::{Curator, CuratorBench, Event, Failure, Grant, Latencies, Spans, State};
use tests::wait::{PATIENCE, eventually, within};
use tests::zookeeper::{ZooKeeperOptions, ZooKeeperServer};

const PATH: &str = "/orders";
const SESSION: Duration = Duration::from_secs(2);

/// A server that grants sessions as short as [`SESSION`].
fn server() -> ZooKeeperServer {
    ZooKeeperServer::with(ZooKeeperOptions::new().tick_ms(500))
}

async fn curator(server: &ZooKeeperServer) -> Curator {
    Curator::start(&server.connect_string(), SESSION).await
}

/// Takes a lock that is free, or is about to be.
async fn granted(acquire: impl Future<Output = Result<Option<Grant>, Failure>>) -> Grant {
    within("a grant", acquire).await.expect("a connection").expect("a grant in time")
}

/// Waits until `count` claims stand at [`PATH`], and returns their nodes.
async fn line_of(curator: &Curator, count: usize) -> Vec<String> {
    let line = async {
        loop {
            let nodes = curator.participants(PATH).await.unwrap();
            if nodes.len() == count {
                return nodes;
            }
        }
    };
    within("the line", line).await
}

fn is_gone(pid: u32) -> bool {
    !PathBuf::from(format!("/proc/{pid}")).exists()
}

#[tokio::test]
async fn handles_stand_in_one_line_and_hold_one_after_the_other() {
    let server = server();
    let curator = curator(&server).await;
    assert_eq!(curator.participants(PATH).await.unwrap(), [""; 0], "no directory yet");
    let before_ns = now_ns();
    let first = granted(curator.acquire("a", PATH, PATIENCE)).await;
    assert!((before_ns..now_ns()).contains(&first.t_ns), "not our clock");
    let second = curator.acquire("b", PATH, PATIENCE);
    line_of(&curator, 2).await;
    let third = curator.acquire("c", PATH, PATIENCE);
    let line = line_of(&curator, 3).await;
    assert_eq!(line[0], first.node);
    assert!(first.node.starts_with("/orders/_c_") && first.node.ends_with("-lock-0000000000"));
    assert_eq!(curator.is_held("b").await, Ok(false));

    let released_ns = now_ns();
    assert_eq!(curator.release("a").await, Ok(false));
    let second = granted(second).await;
    assert!(second.t_ns > released_ns, "two held it at once");
    assert_eq!(second.node, line[1]);
    assert_eq!(curator.is_held("b").await, Ok(true));
    let released_ns = now_ns();
    curator.release("b").await.unwrap();
    let third = granted(third).await;
    assert!(third.t_ns > released_ns, "two held it at once");
    assert_eq!(third.node, line[2]);
}

#[tokio::test]
async fn a_wait_that_is_too_short_ends_without_a_grant_and_leaves_the_line() {
    let server = server();
    let curator = curator(&server).await;
    let holder = granted(curator.acquire("a", PATH, PATIENCE)).await;
    assert_eq!(curator.acquire("b", PATH, Duration::ZERO).await, Ok(None));
    let before_ns = now_ns();
    assert_eq!(curator.acquire("b", PATH, Duration::from_millis(50)).await, Ok(None));
    assert!(now_ns() - before_ns >= 50_000_000);
    assert_eq!(curator.participants(PATH).await.unwrap(), [holder.node]);
}

#[tokio::test]
async fn a_handle_enters_its_lock_again_and_leaves_it_as_often() {
    let server = server();
    let curator = curator(&server).await;
    let first = granted(curator.acquire("a", PATH, PATIENCE)).await;
    let again = granted(curator.reacquire("a")).await;
    assert_eq!(again.node, first.node);
    assert_eq!(curator.participants(PATH).await.unwrap(), [first.node]);
    assert_eq!(curator.release("a").await, Ok(true));
    assert_eq!(curator.is_held("a").await, Ok(true));
    assert_eq!(curator.release("a").await, Ok(false));
    assert_eq!(curator.is_held("a").await, Ok(false));
    assert_eq!(curator.participants(PATH).await.unwrap(), [""; 0]);
}

#[tokio::test]
async fn a_command_that_makes_no_sense_is_refused() {
    let server = server();
    let curator = curator(&server).await;
    let errors = [
        curator.release("a").await.unwrap_err(),
        curator.reacquire("a").await.unwrap_err(),
        curator.acquire("a", "no-path", PATIENCE).await.unwrap_err(),
    ];
    let names = errors.map(|failure| failure.error);
    assert_eq!(
        names,
        ["IllegalStateException", "IllegalStateException", "IllegalArgumentException"]
    );
    granted(curator.acquire("a", PATH, PATIENCE)).await;
    let failure = curator.acquire("a", PATH, PATIENCE).await.unwrap_err();
    assert!(failure.message.starts_with("a holds /orders/_c_"), "{failure:?}");
}

#[tokio::test]
async fn a_holder_that_obeys_a_revocation_lets_the_other_program_in() {
    let server = server();
    let (holder, other) = (curator(&server).await, curator(&server).await);
    holder.make_revocable("a", true).await.unwrap();
    let held = granted(holder.acquire("a", PATH, PATIENCE)).await;
    let waiter = other.acquire("b", PATH, PATIENCE);
    let line = line_of(&other, 2).await;
    let revoked_ns = now_ns();
    other.revoke(&held.node).await.unwrap();
    let grant = granted(waiter).await;
    assert_eq!(grant.node, line[1]);
    assert!(grant.t_ns > revoked_ns, "granted before anybody gave way");
    let of_a = |event: &Event| matches!(event, Event::Revoked { handle, .. } if handle == "a");
    holder.event("the revocation", PATIENCE, of_a).await;
    // In line behind the obedience: Curator deletes its node before it strikes the lock off.
    let failure = holder.release("a").await.unwrap_err();
    assert_eq!(failure.message, "a holds no lock");
    assert_eq!(holder.is_held("a").await, Ok(false));
}

#[tokio::test]
async fn a_holder_that_only_hears_of_a_revocation_keeps_its_lock() {
    let server = server();
    let (holder, other) = (curator(&server).await, curator(&server).await);
    holder.make_revocable("a", false).await.unwrap();
    let held = granted(holder.acquire("a", PATH, PATIENCE)).await;
    other.revoke(&held.node).await.unwrap();
    let is_revoked = |event: &Event| matches!(event, Event::Revoked { .. });
    holder.event("the revocation", PATIENCE, is_revoked).await;
    assert_eq!(holder.is_held("a").await, Ok(true));
    assert_eq!(other.participants(PATH).await.unwrap(), [held.node]);
}

#[tokio::test]
async fn the_lock_of_a_killed_program_ends_with_its_session() {
    let server = server();
    let (mut holder, other) = (curator(&server).await, curator(&server).await);
    assert_eq!(holder.session_timeout(), SESSION);
    assert_ne!(holder.session(), other.session());
    granted(holder.acquire("a", PATH, PATIENCE)).await;
    let waiter = other.acquire("b", PATH, PATIENCE);
    line_of(&other, 2).await;
    let (pid, heard_ns) = (holder.pid().unwrap(), now_ns());
    // The server hears of the holder after this instant, so its session lasts from here at least.
    holder.participants(PATH).await.unwrap();
    holder.kill().await;
    assert!(is_gone(pid));
    let waited = Duration::from_nanos(granted(waiter).await.t_ns - heard_ns);
    assert!(waited >= SESSION, "granted {waited:?} after the server heard of the holder");
}

#[tokio::test]
async fn a_program_that_slept_through_its_session_is_told_so_and_says_still_that_it_holds() {
    let server = server();
    let (mut holder, other) = (curator(&server).await, curator(&server).await);
    granted(holder.acquire("a", PATH, PATIENCE)).await;
    let waiter = other.acquire("b", PATH, PATIENCE);
    line_of(&other, 2).await;
    holder.freeze();
    granted(waiter).await;
    holder.thaw();
    let is_lost = |event: &Event| matches!(event, Event::State { state: State::Lost, .. });
    holder.event("LOST", PATIENCE, is_lost).await;
    assert!(matches!(holder.events()[0], Event::State { state: State::Connected, .. }));
    // Why a stale holder needs a token: nobody took the lock from Curator's own books.
    assert_eq!(holder.is_held("a").await, Ok(true));
}

#[tokio::test]
async fn a_closed_program_gives_its_locks_back_at_once() {
    let server = server();
    let holder = Curator::start(&server.connect_string(), 5 * SESSION).await;
    let other = curator(&server).await;
    granted(holder.acquire("a", PATH, PATIENCE)).await;
    let waiter = other.acquire("b", PATH, PATIENCE);
    line_of(&other, 2).await;
    let closed_ns = now_ns();
    holder.close().await;
    let waited = Duration::from_nanos(granted(waiter).await.t_ns - closed_ns);
    assert!(waited < 3 * SESSION, "it waited {waited:?}, as if for the end of the session");
}

#[tokio::test]
async fn a_program_ends_with_the_test_that_panics() {
    let server = server();
    let curator = curator(&server).await;
    let pid = curator.pid().unwrap();
    let test = tokio::spawn(async move {
        let _curator = curator;
        panic!("a test that fails, on purpose");
    });
    assert!(test.await.unwrap_err().is_panic());
    eventually("the program is gone", || is_gone(pid)).await;
}

const SPANS: Spans =
    Spans { warm_up: Duration::from_millis(300), measured: Duration::from_millis(1000) };

fn ascends(latencies: &Latencies) -> bool {
    let Latencies { p50_us, p90_us, p99_us, p999_us, max_us, .. } = *latencies;
    [0.0, p50_us, p90_us, p99_us, p999_us, max_us].is_sorted() && p50_us > 0.0
}

#[tokio::test]
async fn the_uncontended_bench_tells_what_one_thread_did_in_its_time() {
    let server = server();
    let bench = CuratorBench::uncontended(&server.connect_string(), "/alone", SPANS).await;
    let figures = bench.go().await;
    assert!(figures.count > 0 && figures.seconds >= 1.0, "{figures:?}");
    assert!(ascends(&figures.pair) && ascends(&figures.acquire), "{figures:?}");
    assert!(figures.acquire.mean_us < figures.pair.mean_us, "{figures:?}");
    // One thread does nothing else, so its latencies fill its time.
    let busy = figures.pair.mean_us * figures.count as f64 / 1e6 / figures.seconds;
    assert!((0.9..1.01).contains(&busy), "{busy} of the time in {figures:?}");
}

#[tokio::test]
async fn hot_benches_that_go_together_share_one_line() {
    const THREADS: usize = 4;
    let server = server();
    let connect_string = server.connect_string();
    let spans = Spans { measured: Duration::from_secs(2), ..SPANS };
    let one = CuratorBench::hot(&connect_string, "/hot", THREADS as u32, spans).await;
    let two = CuratorBench::hot(&connect_string, "/hot", THREADS as u32, spans).await;
    let observer = curator(&server).await;
    let benches = tokio::spawn(async { tokio::join!(one.go(), two.go()) });
    let line = async { while observer.participants("/hot").await.unwrap().len() <= THREADS {} };
    within("more in line than one program has threads", line).await;
    let (one, two) = benches.await.unwrap();
    // How many is the machine's affair; that the sums are right is not.
    assert!(one.grants + two.grants > 0);
    for figures in [&one, &two] {
        let counts = &figures.per_thread;
        assert_eq!((counts.len(), counts.iter().sum()), (THREADS, figures.grants));
        let squares: u64 = counts.iter().map(|count| count * count).sum();
        let jain = (figures.grants * figures.grants) as f64 / (THREADS as u64 * squares) as f64;
        let right = squares == 0 || (figures.jain - jain).abs() < 1e-9;
        assert!(right, "{jain} in {figures:?}");
        let rate = figures.grants as f64 / figures.seconds;
        assert!((figures.grants_per_s - rate).abs() < 1e-6, "{rate} in {figures:?}");
    }
}
