//! The store in this process.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use lock_core::Key;
use lock_core::backend::Backend;
use lock_core::memory::Memory;
use lock_core::view::Inspection;

use super::*;
use crate::scene::layout::BoxFuture;

const fn times(lease_ms: u64) -> Times {
    let lease = Duration::from_millis(lease_ms);
    let recheck = Duration::from_millis(500);
    Times {
        lease,
        session: Duration::ZERO,
        lost_within: lease,
        freed_within: lease,
        handed_within: lease,
        skipped_within: lease,
        recheck,
    }
}

const NO_SERVER: &str = "there is no server, and nothing between it and its clients";

/// Memory that all clients of this process share.
pub const MEMORY: Kind = Kind {
    name: "memory",
    store: "memory",
    start: || Box::pin(async { Box::new(InMemory) as Box<dyn Layout> }),
    keeps: Keeps::Nothing,
    can: &[
        "fencing",
        "fifo",
        "push",
        "shared",
        "permits",
        "election",
        "revocation",
        "force_release",
        "force_acquire",
        "listing",
        "quorum",
        "in_process",
    ],
    lacks: &[
        (Power::Link, NO_SERVER),
        (Power::Trap, NO_SERVER),
        (Power::Push, NO_SERVER),
        (Power::Pause, NO_SERVER),
        (Power::Kill, NO_SERVER),
        (Power::Clock, NO_SERVER),
        (Power::Process, "it is of one process, and ends with it"),
        (Power::Delete, "nobody can reach into it"),
    ],
    fails: &[],
    patient: times(30_000),
    steady: times(2_000),
    brisk: times(2_000),
};

/// A store for each scope, which is there while somebody uses it.
#[derive(Debug)]
struct InMemory;

impl InMemory {
    fn inspect(&self, scope: &str, key: &str) -> Inspection {
        let (store, key) = (Memory::named(scope), Key::new(key).expect("a good key"));
        let seen = pin!(store.inspect(&key));
        match Future::poll(seen, &mut Context::from_waker(Waker::noop())) {
            Poll::Ready(seen) => seen.expect("memory answers"),
            Poll::Pending => unreachable!("memory answers at once"),
        }
    }

    fn cannot(&self, power: Power) -> ! {
        panic!("memory: {:?}", MEMORY.lacks(power))
    }
}

impl Layout for InMemory {
    fn kind(&self) -> &'static Kind {
        &MEMORY
    }

    fn url(&self, scope: &str, _tempo: Tempo) -> String {
        format!("memory:{scope}")
    }

    fn line_of(&self, scope: &str, tempo: Tempo) -> Line {
        Line::new(self.url(scope, tempo), Vec::new(), false)
    }

    fn request(&self, _verb: Verb, _key: &str) -> Match {
        self.cannot(Power::Trap)
    }

    fn is_free(&self, scope: &str, key: &str) -> bool {
        self.inspect(scope, key).holder().is_none()
    }

    fn in_line(&self, scope: &str, key: &str) -> usize {
        self.inspect(scope, key).waiters.len()
    }

    fn left(&self, scope: &str) -> Vec<String> {
        (0..Memory::named(scope).keys()).map(|_| "a key".to_owned()).collect()
    }

    fn delete(&self, _scope: &str, _key: &str) {
        self.cannot(Power::Delete)
    }

    fn servers(&self) -> usize {
        0
    }

    fn serving(&self, _scope: &str, _key: &str) -> Vec<usize> {
        Vec::new()
    }

    fn pause(&self, _server: usize) {
        self.cannot(Power::Pause)
    }

    fn resume(&self, _server: usize) {
        self.cannot(Power::Pause)
    }

    fn kill(&mut self, _server: usize) {
        self.cannot(Power::Kill)
    }

    fn restart(&mut self, _servers: &[usize]) {
        self.cannot(Power::Kill)
    }

    fn skew_clock(&self, _by_ms: i64) {
        self.cannot(Power::Clock)
    }

    fn settled(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}
