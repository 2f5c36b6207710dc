//! A layout as one scene has it.

use std::fmt::Debug;
use std::ops::Deref;
use std::sync::{OnceLock, RwLockReadGuard};

use lock_core::{ClientBuilder, LockClient, Mode};

use super::history::{History, Remote};
use super::layout::{Layout, Power, Tempo, Times, Verb, capable_of};
use super::line::{Line, Snare};
use crate::proxy::Action;
use crate::redis::RedisServer;
use crate::support::{self, SLACK, Stopwatch, ms};
use crate::wait::eventually;

/// The other users of the layout.
pub(super) enum Seat<'a> {
    /// Other scenes, at the same time.
    Shared(RwLockReadGuard<'a, Option<Box<dyn Layout>>>),
    /// Nobody.
    Alone(Box<dyn Layout>),
}

/// A layout, keys that no other scene has, and clients.
pub(super) struct Stage<'a> {
    pub(super) seat: Seat<'a>,
    pub(super) scope: String,
    /// In which mode its holders have the key; for scenes of one mode, alone.
    pub(super) mode: Mode,
}

impl Debug for Stage<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} on {:?}", self.scope, self.layout())
    }
}

/// One client, on a line of its own.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) locks: LockClient,
    pub(super) line: Line,
}

impl Deref for Client {
    type Target = LockClient;

    fn deref(&self) -> &LockClient {
        &self.locks
    }
}

impl Stage<'_> {
    pub(super) fn layout(&self) -> &dyn Layout {
        match &self.seat {
            Seat::Shared(layout) => layout.as_deref().expect("it was started"),
            Seat::Alone(layout) => &**layout,
        }
    }

    /// The layout to do to what one will: for scenes whose needs are loud.
    pub(super) fn alone(&mut self) -> &mut dyn Layout {
        match &mut self.seat {
            Seat::Shared(_) => panic!("others use it: the scene must name what it needs"),
            Seat::Alone(layout) => &mut **layout,
        }
    }

    /// A key of this scene.
    pub(super) fn key(&self, name: &str) -> String {
        format!("{}-{name}", self.scope)
    }

    pub(super) fn times(&self, tempo: Tempo) -> &Times {
        self.layout().kind().times(tempo)
    }

    pub(super) fn can(&self, power: Power) -> bool {
        self.layout().kind().lacks(power).is_none()
    }

    /// A client that waits 9 s, with the lease of the tempo.
    pub(super) async fn client(&self, tempo: Tempo) -> Client {
        self.client_in(self.rival(), tempo).await
    }

    /// The same for who holds in the mode of the scene.
    pub(super) async fn holder(&self, tempo: Tempo) -> Client {
        self.client_in(self.mode, tempo).await
    }

    /// The same in any mode.
    pub(super) async fn client_in(&self, mode: Mode, tempo: Tempo) -> Client {
        let client = self.client_at(mode, tempo, |url| LockClient::builder(url)).await;
        assert_eq!(capable_of(client.locks.capabilities()), self.layout().kind().can);
        client
    }

    /// A client whose keys are below a prefix, as the URL says.
    pub(super) async fn client_below(&self, prefix: &str) -> Client {
        let below = |url: &str| {
            let mark = if url.contains('?') { '&' } else { '?' };
            LockClient::builder(format!("{url}{mark}prefix={prefix}"))
        };
        self.client_at(self.rival(), Tempo::Patient, below).await
    }

    /// A client of this label.
    pub(super) async fn client_called(&self, label: &str) -> Client {
        let called = |url: &str| LockClient::builder(url).label(label);
        self.client_at(self.rival(), Tempo::Patient, called).await
    }

    /// A client that is made from the URL of its line.
    async fn client_at(
        &self,
        mode: Mode,
        tempo: Tempo,
        builder: impl Fn(&str) -> ClientBuilder,
    ) -> Client {
        let line = self.layout().line_of(&self.scope, tempo);
        let lease = self.times(tempo).lease;
        let locks = support::connect_by(|| builder(line.url()), mode, lease).await;
        Client { locks, line }
    }

    /// A mode that nobody can have beside a holder.
    fn rival(&self) -> Mode {
        match self.mode {
            Mode::Shared => Mode::Exclusive,
            mode => mode,
        }
    }

    pub(super) fn history(&self) -> History {
        // One for all scenes of this process, whose keys are their own.
        static RESOURCE: OnceLock<RedisServer> = OnceLock::new();
        History::of_resource(RESOURCE.get_or_init(RedisServer::start).url())
    }

    /// A process of its own, which holds in the mode of the scene.
    pub(super) fn remote(&self, history: &History, name: &str, tempo: Tempo) -> Remote {
        self.remote_in(self.mode, history, name, tempo)
    }

    /// The same in any mode.
    pub(super) fn remote_in(
        &self,
        mode: Mode,
        history: &History,
        name: &str,
        tempo: Tempo,
    ) -> Remote {
        let line = self.layout().line_of(&self.scope, tempo);
        let worker = history.worker_in(mode, name, line.url(), self.times(tempo).lease);
        Remote { line, worker }
    }

    /// Lies in wait on the line of a client for a request about `key`.
    pub(super) fn trap(&self, client: &Client, verb: Verb, key: &str, action: Action) -> Snare {
        client.line.trap(&self.layout().request(verb, key), action)
    }

    pub(super) fn is_free(&self, key: &str) -> bool {
        self.layout().is_free(&self.scope, key)
    }

    /// Waits until nobody holds the key.
    pub(super) async fn free(&self, key: &str) {
        eventually("the key is free", || self.is_free(key)).await;
    }

    /// Waits until `n` claims wait for the key.
    pub(super) async fn in_line(&self, key: &str, n: usize) {
        let in_line = || self.layout().in_line(&self.scope, key) == n;
        eventually(&format!("{n} claims in line"), in_line).await;
    }

    /// V5 and V6 of a key that was given up in some way: another client has it long before what
    /// was left behind would have ended by itself.
    pub(super) async fn the_next_one_proceeds(&self, key: &str) {
        let next = self.client(Tempo::Patient).await;
        let began = Stopwatch::start();
        let guard = next.lock(key).await.expect("a free key");
        let took = began.own();
        let soon = ms(2_000) + SLACK;
        assert!(soon < self.times(Tempo::Patient).lease && took < soon, "{took:?}");
        guard.release().await.expect("a release");
        self.gone(next).await;
    }

    /// V6 of one client: no key is busy, nobody waits, and no connection is open.
    pub(super) async fn gone(&self, client: Client) {
        let Client { locks, line } = client;
        support::idle(&locks).await;
        drop(locks);
        line.closed().await;
    }

    /// V6: of these clients, and of all other processes of this scene, nothing is left: no key
    /// busy, no waiter, no connection, no task, and at the servers nothing but what docs name.
    ///
    /// Scenes that call it have joined the tasks of their own.
    pub(super) async fn nothing_left(&self, clients: impl IntoIterator<Item = Client>) {
        for client in clients {
            self.gone(client).await;
        }
        support::nothing_left([], || self.layout().left(&self.scope)).await;
    }

    /// The same where processes were killed: the members of a Redis quorum keep the places of dead
    /// waiters for as long as a line lives.
    pub(super) async fn nothing_left_of_the_dead(&self) {
        support::nothing_left_after(ms(20_000), || self.layout().left(&self.scope)).await;
    }
}
