//! F16: the server's wall clock is moved under histories in which the holder changes in every way.
//!
//! A clock that goes back leaves the highest token ahead of it, by milliseconds or by an hour; one
//! that goes forth ends every lease and makes every waiter look dead. Tokens grow in all of it.

use std::time::Duration;

use lock_core::LockClient;
use tests::checker::Checker;
use tests::redis::{RedisOptions, RedisServer};
use tests::wait::{eventually, within};

use crate::support::*;

/// How one holder makes way for the next.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Change {
    /// It hands the key on in its own process.
    Local,
    /// It hands the key on to another process.
    Remote,
    /// Its key runs out while it believes to hold it.
    Expired,
    /// It is robbed of the key.
    Forced,
    /// It gives the key back to a server that was killed and started meanwhile.
    Restarted,
}

/// By how many milliseconds the clock moves, one after the other: back by less than a second and by
/// more, where tokens go on from the mark one way and the other, and forth beyond the mark.
const MOVES_MS: [i64; 11] =
    [0, -10, -1_000, 5, 1_005, -1_500, -3_600_000, -10, 3_602_000, 7_200_000, -7_200_500];

const LEASE: Duration = ms(1_800);

/// A server and two of its clients.
struct Scene {
    server: RedisServer,
    history: History,
    clients: [LockClient; 2],
}

impl Scene {
    async fn new(options: RedisOptions) -> Self {
        let server = RedisServer::with(options.movable_clock());
        let clients = [connect(&server.url(), LEASE).await, connect(&server.url(), LEASE).await];
        Self { server, history: History::new(), clients }
    }

    fn actor(&self, name: &str, client: usize) -> Actor {
        self.history.actor(name, &self.clients[client])
    }

    /// One has the key and another wants it, the clock moves, and the one makes way.
    async fn change(&mut self, how: Change, by_ms: i64) {
        let (holder, heir) = match how {
            Change::Local => (self.actor("a/0", 0), self.actor("a/1", 0)),
            _ => (self.actor("a/0", 0), self.actor("b", 1)),
        };
        let (guard, _) = holder.acquire("k", ms(9_000)).await;
        let guard = guard.unwrap();
        holder.write(&guard).await;
        let waiting = tokio::spawn(async move {
            let guard = heir.acquire("k", ms(9_000)).await.0;
            (heir, guard)
        });
        match how {
            Change::Local => {
                let locks = &self.clients[0];
                eventually("one waits in the process", || locks.stats().waiters == 1).await;
            }
            _ => line_of(&self.server, "k", 1).await,
        }
        self.server.move_clock(by_ms);
        match how {
            Change::Local | Change::Remote => {}
            // Nothing is there any more if the clock went forth. In the past, so that no renewal
            // comes first.
            Change::Expired => self.server.command(&["PEXPIREAT", "lock:{k}", "1"]),
            Change::Forced => drop(self.clients[1].force_release("k").await.unwrap()),
            Change::Restarted => self.server.restart(),
        }
        let token = guard.token();
        // It may have been lost to the clock, too.
        if how == Change::Expired {
            holder.lost(&guard).await;
        }
        let released = holder.release(guard).await;
        let (heir, next) = within("the next holder", waiting).await.unwrap();
        let next = next.unwrap_or_else(|error| panic!("{how:?} {by_ms}: {error}"));
        assert!(
            next.token() > token,
            "a finding of safety: {how:?} {by_ms}: {} after {token}",
            next.token()
        );
        if by_ms <= 0 && matches!(how, Change::Local | Change::Remote) {
            released.unwrap_or_else(|error| panic!("{how:?} {by_ms}: {error}"));
        }
        assert!(heir.write(&next).await, "{how:?} {by_ms}");
        let _ = heir.release(next).await;
    }

    /// Waits until the clock is past all tokens that the server gave.
    async fn has_caught_up(&self) {
        let highest = fence(&self.server, "k").expect("a clock");
        eventually("the clock has caught up", || {
            // Eight tokens a microsecond, since 2020.
            let now = (self.server.time_us() - 1_577_836_800_000_000) * 8;
            now.unsigned_abs() > highest
        })
        .await;
    }

    /// V1, V2 and V4 of all of it, and V6.
    async fn judge(self, changes: usize) {
        let report = self.history.check(Checker::new());
        assert_eq!(report.grants, 2 * changes as u64);
        nothing_left(&self.server, self.clients).await;
    }
}

/// F16 (V1, V2, V6): hand-offs in a process and between two, under a clock that moves.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_grow_over_hand_offs_while_the_clock_moves() {
    let mut scene = Scene::new(RedisOptions::new()).await;
    for by_ms in MOVES_MS {
        for (how, by_ms) in [(Change::Local, by_ms), (Change::Remote, 0), (Change::Local, 0)] {
            scene.change(how, by_ms).await;
        }
    }
    for by_ms in MOVES_MS {
        scene.change(Change::Remote, by_ms).await;
    }
    scene.judge(4 * MOVES_MS.len()).await;
}

/// F16 (V1, V2, V6): keys that run out and keys that are taken away, under a clock that moves.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_grow_over_losses_while_the_clock_moves() {
    let mut scene = Scene::new(RedisOptions::new()).await;
    for how in [Change::Expired, Change::Forced] {
        for by_ms in MOVES_MS {
            scene.change(how, by_ms).await;
        }
    }
    scene.judge(2 * MOVES_MS.len()).await;
}

/// F16 and F07 (V1, V2, V6): a server that is killed and keeps its data, under a clock that moves.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_grow_over_restarts_with_the_data_while_the_clock_moves() {
    // Each second would not do: what is lost with a clock that was set back is lost for good.
    let kept = RedisOptions::new().set("appendonly", "yes").set("appendfsync", "always");
    let mut scene = Scene::new(kept).await;
    for by_ms in MOVES_MS {
        scene.change(Change::Restarted, by_ms).await;
    }
    scene.judge(MOVES_MS.len()).await;
}

/// F16 and F06 (V1, V2, V6): a server that forgets everything knows of no token but by its clock.
/// So the clock may go back only if it has caught up by the time of the restart.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_grow_over_restarts_without_data_once_the_clock_has_caught_up() {
    let mut scene = Scene::new(RedisOptions::new()).await;
    let moves_ms = [0, -10, 1_000, -900, 3_600_000, -300];
    for by_ms in moves_ms {
        // The server is empty: the first takes a key that is free, the second one that it waits
        // for.
        scene.change(Change::Remote, by_ms).await;
        scene.has_caught_up().await;
        scene.change(Change::Restarted, 0).await;
        scene.has_caught_up().await;
        scene.server.restart();
    }
    scene.change(Change::Remote, 0).await;
    scene.judge(2 * moves_ms.len() + 1).await;
}
