//! A loopback link that a test can break.
//!
//! Most faults of a distributed lock are faults of the link: a reply that never comes, a cut in
//! the middle of a request, silence. [`Proxy`] stands between a client and one server,
//! reads the frames of their protocol, and does to them what the test says:
//!
//! | the test says | what happens |
//! |---|---|
//! | [`cut`](Proxy::cut) / [`reset`](Proxy::reset) | every connection ends, by FIN or by RST |
//! | [`refuse`](Proxy::refuse) | new connections are reset too |
//! | [`set`](Proxy::set) with [`Flow::Delay`] | each frame of that direction takes longer |
//! | [`set`](Proxy::set) with [`Flow::BlackHole`] | nothing arrives any more, nothing is closed |
//! | [`silence`](Proxy::silence) | what is connected is a black hole for good; new connections are well |
//! | [`drop_pushes`](Proxy::drop_pushes) | messages, words and watches are lost, all else arrives |
//! | [`trap`](Proxy::trap) | one chosen request is held, lost, or loses its reply |
//! | [`resume`](Proxy::resume) | all is well again; what a black hole kept arrives |
//!
//! A test waits for events, not for time: [`Proxy::wait_for_requests`] and [`Trap::sprung`].
//!
//! ```no_run
//! # async fn example(server: tests::redis::RedisServer) {
//! use tests::proxy::{Action, Match, Proxy};
//!
//! let proxy = Proxy::start(server.addr());
//! let trap = proxy.trap(Match::verb("EVALSHA"), Action::SwallowReply);
//! // … connect to proxy.url() and acquire …
//! trap.sprung().await; // the server has granted, and nobody was told
//! # }
//! ```
//!
//! The proxy runs on a thread of its own, so it works while the test's runtime is blocked or its
//! clock is paused.
//!
//! - `connection`: the proxy's thread: accepting, serving, ending.
//! - `link`: one connection, with its faults.
//! - `control`: the settings and counters. `trap`: faults for one chosen request.
//! - `frames`: reading whole frames. `protocol`: the facts that a proxy has to know of them.
//! - `resp`, `jute`, `grpc`, `pg`, `my`: protocols of Redis, ZooKeeper, etcd, PostgreSQL, MySQL.

mod connection;
mod control;
mod frames;
mod grpc;
mod jute;
mod link;
mod my;
mod pg;
mod protocol;
mod resp;
mod trap;

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::sync::watch;

use crate::wait::within;
use control::{Control, Shared};
pub use control::{Counters, Direction, Flow};
pub use protocol::{Event, IN_ORDER, PING, Protocol, Request};
pub use trap::{Action, Match, Trap};

/// A TCP proxy on a port of its own; stopped, with every connection, when dropped.
#[derive(Debug)]
pub struct Proxy {
    shared: Arc<Shared>,
    protocol: &'static dyn Protocol,
    addr: SocketAddr,
    thread: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Listens on a free loopback port and passes each connection on to the Redis server at
    /// `target`.
    ///
    /// # Panics
    ///
    /// If no port or thread can be had.
    #[must_use]
    pub fn start(target: SocketAddr) -> Self {
        Self::between(target, &resp::Resp)
    }

    /// The same before a ZooKeeper server and its clients. Four-letter words do not pass.
    ///
    /// # Panics
    ///
    /// As [`start`](Self::start).
    #[must_use]
    pub fn zookeeper(target: SocketAddr) -> Self {
        Self::between(target, &jute::Jute)
    }

    /// The same before a member of etcd. A request is a message of gRPC, known by what it carries:
    /// `PUT` and `DELETE` (a transaction that would do so), `LEASE`, `RANGE` (what reads), `WATCH`.
    ///
    /// # Panics
    ///
    /// As [`start`](Self::start).
    #[must_use]
    pub fn etcd(target: SocketAddr) -> Self {
        Self::between(target, &grpc::Grpc)
    }

    /// The same before a PostgreSQL server. A request goes up to what asks for an answer: `PARSE`,
    /// `BIND` with the values of a statement, `QUERY`, and `STARTUP` of a connection.
    ///
    /// # Panics
    ///
    /// As [`start`](Self::start).
    #[must_use]
    pub fn postgres(target: SocketAddr) -> Self {
        Self::between(target, &pg::Pg)
    }

    /// The same before a MySQL or MariaDB server, without TLS: `PREPARE`, `EXECUTE` with the values of
    /// a statement, `QUERY`, and `LOGIN` of a connection.
    ///
    /// # Panics
    ///
    /// As [`start`](Self::start).
    #[must_use]
    pub fn mysql(target: SocketAddr) -> Self {
        Self::between(target, &my::My)
    }

    /// The same for any bytes: what comes together is one frame, has no verb and no reply, so
    /// that of the traps only those that hold or drop any request spring.
    ///
    /// A server that does not listen yet is waited for, up to 5 s. The followers of a ZooKeeper
    /// try again while its leader refuses them, but elect once more after a reset.
    ///
    /// # Panics
    ///
    /// As [`start`](Self::start).
    #[must_use]
    pub fn opaque(target: SocketAddr) -> Self {
        Self::between(target, &protocol::Opaque)
    }

    /// The same for a store whose protocol is its own.
    ///
    /// # Panics
    ///
    /// As [`start`](Self::start).
    #[must_use]
    pub fn between(target: SocketAddr, protocol: &'static dyn Protocol) -> Self {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a loopback port");
        let addr = listener.local_addr().expect("a bound port");
        let shared = Arc::new(Shared::default());
        let inside = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("fault-proxy".to_owned())
            .spawn(move || connection::run(listener, target, protocol, &inside))
            .expect("a thread");
        Proxy { shared, protocol, addr, thread: Some(thread) }
    }

    /// Where the proxy listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// `redis://<addr>`, `zookeeper://<addr>`, `postgres://<addr>`, `mysql://<addr>` or
    /// `etcd://<addr>`, as what it stands before.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}://{}", self.protocol.scheme(), self.addr)
    }

    /// Ends every connection in order (FIN). New ones are accepted.
    pub fn cut(&self) {
        self.shared.control.send_modify(|control| control.cuts += 1);
    }

    /// Ends every connection at once (RST). New ones are accepted.
    pub fn reset(&self) {
        self.shared.control.send_modify(|control| control.resets += 1);
    }

    /// Resets each new connection, and all that exist.
    pub fn refuse(&self) {
        self.shared.control.send_modify(|control| {
            control.refusing = true;
            control.resets += 1;
        });
    }

    /// Sets how one direction flows from the next frame on.
    pub fn set(&self, direction: Direction, flow: Flow) {
        self.shared.control.send_modify(|control| match direction {
            Direction::ToServer => control.to_server = flow,
            Direction::ToClient => control.to_client = flow,
        });
    }

    /// Swallows both directions: connections stay open and silent.
    pub fn black_hole(&self) {
        self.set(Direction::ToServer, Flow::BlackHole);
        self.set(Direction::ToClient, Flow::BlackHole);
    }

    /// Makes every connection that exists a black hole until it is cut, as a firewall does that has
    /// forgotten them. New ones are passed on.
    pub fn silence(&self) {
        self.shared.control.send_modify(|control| control.silences += 1);
    }

    /// Loses published messages (`message`, `pmessage`, `smessage`) and the notifications of
    /// watches while `on`.
    pub fn drop_pushes(&self, on: bool) {
        self.shared.control.send_modify(|control| control.drop_pushes = on);
    }

    /// Passes everything on again, at once. Frames kept by a black hole arrive, as after a
    /// routing fault; armed traps stay.
    pub fn resume(&self) {
        self.shared.control.send_modify(|control| {
            let Control { cuts, resets, silences, .. } = *control;
            *control = Control { cuts, resets, silences, ..Control::default() };
        });
    }

    /// Lies in wait for one request that matches. The first armed trap that matches takes it.
    ///
    /// Dropping the [`Trap`] disarms it and lets go what it holds.
    pub fn trap(&self, which: Match, action: Action) -> Trap {
        self.shared.set_trap(which, action)
    }

    /// Lies in wait at all of these `proxies` for one request among them, whichever comes first.
    #[must_use = "a dropped trap is disarmed"]
    pub fn trap_among(proxies: &[Proxy], which: Match, action: Action) -> Trap {
        let slot = Arc::new(trap::Slot::new(which, action));
        proxies.iter().for_each(|proxy| proxy.shared.arm(&slot));
        Trap::new(slot)
    }

    /// Has servers that name each other in their replies name proxies instead: each port of
    /// `servers`, where it stands alone, becomes the one beside it. Both have as many digits.
    ///
    /// So a client that is told by a sentinel or a node where to go comes through its own proxies.
    pub fn rename(&self, servers: &[(u16, u16)]) {
        *self.shared.renamed.lock().expect("no proxy panicked") = servers.to_vec();
    }

    /// The counts of what has passed so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        *self.shared.counters.borrow()
    }

    /// Waits until `enough` says so.
    ///
    /// # Panics
    ///
    /// After [`PATIENCE`](crate::wait::PATIENCE), with `what` in the message.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn wait_until(&self, what: &str, enough: impl FnMut(&Counters) -> bool) {
        let mut counters: watch::Receiver<Counters> = self.shared.counters.subscribe();
        let reached = within(what, counters.wait_for(enough)).await;
        drop(reached.expect("the proxy outlives its borrow"));
    }

    /// Waits until `n` requests in all have come from the clients, passed on or not.
    ///
    /// # Panics
    ///
    /// After [`PATIENCE`](crate::wait::PATIENCE).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn wait_for_requests(&self, n: u64) {
        self.wait_until(&format!("{n} requests"), |counters| counters.requests >= n).await;
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.control.send_modify(|control| control.stopped = true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
