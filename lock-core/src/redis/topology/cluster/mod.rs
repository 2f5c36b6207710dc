//! A cluster of Redis servers (7.0 or later, for sharded pushes).
//!
//! All keys of one lock, and the channel on which its grants are pushed, are in one slot, so a lock
//! is at one server as ever. Which server that is changes: slots move, and a master that dies is
//! succeeded by one of its replicas.
//!
//! The routing is our own, not that of the client library. An attempt in doubt must be withdrawn
//! over the connection that it went over, renewals have connections of their own, and times are
//! bounded.
//!
//! - The owners of slots are read from `CLUSTER NODES`, which tells the configuration epoch of each
//!   master. Up to three nodes are asked at once, every 4 to 6 s while in use, and at once after a
//!   redirection, a lost connection or an ended subscription. Those who wait for a look share the
//!   first that begins behind them. What a node says of a slot does not count if another owns it
//!   under a later epoch. A redirection counts if it is by the node that is believed to own the
//!   slot. An owner that two answers or more do not name, and that does not answer itself, is
//!   forgotten: a cluster that was made anew begins with early epochs.
//! - Answers of a superseded node do not count. An answer is taken only if the node that gave it
//!   still owns the slot by what is known when the answer is there, or was asked at the owner's
//!   wish (`ASK`). One that took half a second or more is taken only after a look at the others: a
//!   master that hung goes on for a moment before it hears that it was succeeded. A push counts if
//!   its node still owns the slot by what is known when it comes. Whoever learns of another owner
//!   takes back what was not looked at. A pool of the application is refused beside a cluster: it
//!   does not tell which node answered.
//! - A slot on its way: scripts name four keys, and a node refuses them (`TRYAGAIN`) while some are
//!   here and some there. Attempts wait for the end of the move within their budget, or until the
//!   claim is handed the key: the line that they ask for may be gone with that. Renewals fall
//!   back to a script of the lock key alone, which is always at one place: the hold goes on,
//!   without new tokens. A release tries for 0.1 s, then frees the lock key alone, without a
//!   hand-off, and waiters find that by their recheck. It does so at once where the node says
//!   `ASK`: the keys of a line that is empty are at neither node, so the next one cannot tell either.
//! - Behind a move nobody in line is heard where it led to before it has asked there. So for 1.5 s
//!   from when a client learns of another owner, and behind an `ASK`, its calls are of the patient
//!   form: they skip nobody whom no push reaches.
//! - A call that waits for the cluster keeps 0.2 s, or a fifth, for the last try: a time-out of a
//!   few milliseconds would break a connection that is well.
//! - Pushes are sharded: one channel for a client and a *slot*, `lock:push:{tag}:<session>` with a
//!   short tag of the slot, so subscriptions are bounded by slots and not by keys. 256 unused ones
//!   are kept at each server. The first claim of a slot subscribes beside its attempt; if it is
//!   blocked, and was not listening when it asked, it asks once more.
//!
//! - `layout`: the master of each slot. `refresh`: learning it.
//! - `follow`: from the server that is believed to serve a slot to the one that does.
//! - `redirect`: the answers of those that do not.
//! - `server`: the connections to one server. `rights`: the check of what only a cluster needs.
//! - `pushes`, `listener`, `confirmed`: the channels listened to there.
//! - `target`: the nodes that are asked first.

mod confirmed;
mod follow;
mod layout;
mod listener;
mod pushes;
mod redirect;
mod refresh;
mod rights;
mod server;
mod target;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use redis::{Cmd, PushInfo, Value};

use self::layout::{Addr, Table};
use self::server::Server;
pub(in crate::redis) use self::server::asked;
pub(in crate::redis) use self::target::Target;
use crate::backend::io::Home;
use crate::backend::{ClaimId, Fault};
use crate::ground::clock;
use crate::redis::protocol::slots;
use crate::redis::wire::access::Access;
use crate::redis::wire::request::{Failure, REQUEST_WITHIN, Unserved, is_fresh};
use crate::redis::wire::session::Session;

/// A cluster, by what is known of it, and the connections to its nodes.
#[derive(Debug)]
pub(in crate::redis) struct Cluster {
    session: Arc<Session>,
    access: Access,
    /// The nodes of the URL.
    seeds: Vec<Addr>,
    state: Mutex<State>,
    /// The open claims in each slot that has any.
    needed: Mutex<HashMap<u16, Vec<ClaimId>>>,
    /// Whether a look is under way.
    looking: AtomicBool,
    home: Arc<Home>,
    /// Held while somebody looks at once: when the last such look began, and what came of it.
    looked: tokio::sync::Mutex<Option<(Instant, Result<(), Fault>)>>,
    /// The time when the last look ended, and when the next is due.
    look_at: Mutex<(Option<Instant>, Option<Instant>)>,
    this: Weak<Self>,
}

#[derive(Debug)]
struct State {
    table: Table,
    /// The time when a slot was last seen to have another owner than before.
    moved: Option<Instant>,
    servers: HashMap<Addr, Arc<Server>>,
}

impl Cluster {
    /// Asks the nodes of the URL who serves what.
    pub(in crate::redis) async fn connect(
        target: Target,
        session: Arc<Session>,
    ) -> Result<Arc<Self>, Fault> {
        let cluster = Self::unseen(target, Home::shared()?, session);
        cluster.look_now().await?;
        Ok(cluster)
    }

    pub(in crate::redis) fn home(&self) -> &Arc<Home> {
        &self.home
    }

    /// A cluster of which nothing is known but where to begin.
    fn unseen(target: Target, home: Arc<Home>, session: Arc<Session>) -> Arc<Self> {
        let Target { seeds, access } = target;
        Arc::new_cyclic(|this| Self {
            session,
            access,
            seeds,
            state: Mutex::new(State {
                table: Table::empty(),
                moved: None,
                servers: HashMap::new(),
            }),
            needed: Mutex::default(),
            looking: AtomicBool::new(false),
            home,
            looked: tokio::sync::Mutex::default(),
            look_at: Mutex::default(),
            this: this.clone(),
        })
    }

    /// One that a test tells of its nodes.
    #[cfg(test)]
    fn at_nobody(target: Target) -> Arc<Self> {
        let home = Home::shared().expect("a thread");
        Self::unseen(target, home, Session::of_test())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn needed(&self) -> MutexGuard<'_, HashMap<u16, Vec<ClaimId>>> {
        self.needed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Delivers what the node at `by` pushed, unless another serves the slot: it may have been cut
    /// off, and succeeded.
    fn deliver(&self, push: &PushInfo, by: &Addr) {
        let Some(Value::BulkString(channel)) = push.data.first() else { return };
        let Some(slot) = slots::slot_of_channel(channel) else { return };
        // Until it is delivered: who learns of another owner takes it back. Wakers may do anything,
        // so they run behind that.
        let state = self.state();
        let is_owner = state.table.owner(slot) == Some(by);
        let told = if is_owner { self.session.inboxes.put_in(0, push) } else { None };
        drop(state);
        if let Some(waker) = told {
            waker.wake();
        }
    }

    /// The node at an address; `None` if none can be there.
    fn server(&self, addr: Addr) -> Option<Arc<Server>> {
        match self.state().servers.entry(addr) {
            Entry::Occupied(entry) => Some(entry.get().clone()),
            Entry::Vacant(entry) => {
                let addr = entry.key().clone();
                let client = self.access.client(&addr.host()).ok()?;
                let server = Server::new(self, addr, client);
                Some(entry.insert(Arc::new(server)).clone())
            }
        }
    }

    /// The node that is believed to serve a slot.
    fn owner(&self, slot: u16) -> Option<Arc<Server>> {
        let addr = self.state().table.owner(slot)?.clone();
        self.server(addr)
    }

    pub(in crate::redis) fn one_slot_each(&self) -> Vec<u16> {
        self.state().table.one_slot_each().into_iter().map(|(slot, _)| slot).collect()
    }

    /// Whether slots have changed hands a moment ago. Those in line for their keys may be on their
    /// way to the new owner.
    fn is_moving(&self) -> bool {
        self.state().moved.is_some_and(is_fresh)
    }

    fn owns(&self, slot: u16, server: &Server) -> bool {
        self.state().table.owner(slot) == Some(&server.addr)
    }

    fn known(&self, addr: Addr) -> Addr {
        self.state().table.known(addr)
    }

    /// Has the claims in these slots ask: their node is another, which may know nothing of their
    /// places. Pushes of the last one are of the past: the grants of a master that was cut off are
    /// not to be taken.
    fn stir(&self, slots: &[u16]) {
        for slot in slots {
            let claims = self.needed().get(slot).cloned().unwrap_or_default();
            self.session.inboxes.stir_these(&claims);
        }
    }

    /// The node of these slots was out of reach, and may have been started anew without its data.
    fn is_back(&self, slots: &[u16]) {
        for slot in slots {
            let claims = self.needed().get(slot).cloned().unwrap_or_default();
            self.session.inboxes.are_to_ask(&claims);
        }
    }

    /// A node answered that another one serves a slot.
    fn moved(&self, slot: u16, by: &Server, to: Addr) {
        let mut state = self.state();
        let to = state.table.known(to);
        let from = state.table.owner(slot).cloned();
        let moved = state.table.moved(slot, &by.addr, &to);
        let is_another = moved && from.is_some_and(|from| from != to);
        if is_another {
            state.moved = Some(clock::now());
        }
        drop(state);
        if is_another {
            self.stir(&[slot]);
        }
        if moved && self.needed().contains_key(&slot) {
            self.listen_at_owner(slot);
        }
        self.refresh_soon();
    }

    /// Sends a command that is no script to the node that serves a slot.
    pub(in crate::redis) async fn send(&self, slot: u16, command: &Cmd) -> Result<Value, Unserved> {
        let Some(server) = self.owner(slot) else {
            return Err(Unserved { fault: Failure::Other(follow::nobody()), sent: None });
        };
        self.session.count();
        server.send(command, REQUEST_WITHIN).await
    }

    /// Listens to the channel of a slot until the answer is dropped.
    pub(in crate::redis) fn listen(&self, slot: u16, claim: ClaimId) -> Option<Listening> {
        let cluster = self.this.upgrade()?;
        self.needed().entry(slot).or_default().push(claim);
        Some(Listening { cluster, slot, claim })
    }

    /// Whether the channel of a slot is listened to by now.
    fn listen_at_owner(&self, slot: u16) -> bool {
        self.owner(slot).is_some_and(|server| server.pushes.listen(slot))
    }

    fn listen_everywhere(&self) {
        let slots: Vec<_> = self.needed().keys().copied().collect();
        for slot in slots {
            self.listen_at_owner(slot);
        }
    }

    /// The slots with open claims that the node at `addr` serves.
    fn needed_at(&self, addr: &Addr) -> Vec<u16> {
        let slots: Vec<_> = self.needed().keys().copied().collect();
        let state = self.state();
        slots.into_iter().filter(|slot| state.table.owner(*slot) == Some(addr)).collect()
    }
}

/// An open claim's interest in what is pushed to its slot.
#[derive(Debug)]
pub(in crate::redis) struct Listening {
    cluster: Arc<Cluster>,
    slot: u16,
    claim: ClaimId,
}

impl Listening {
    /// Whether the channel is listened to by now.
    pub(in crate::redis) fn is_on(&self) -> bool {
        self.cluster.listen_at_owner(self.slot)
    }

    /// Waits until it is, at the server that it was asked for at.
    pub(in crate::redis) async fn on(&self) {
        let Some(server) = self.cluster.owner(self.slot) else { return };
        server.pushes.listening(self.slot).await;
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let mut needed = self.cluster.needed();
        let Some(claims) = needed.get_mut(&self.slot) else { return };
        if let Some(at) = claims.iter().position(|claim| *claim == self.claim) {
            claims.swap_remove(at);
        }
        if !claims.is_empty() {
            return;
        }
        needed.remove(&self.slot);
        if needed.is_empty() {
            needed.shrink_to(64);
        }
        drop(needed);
        let state = self.cluster.state();
        let owner = state.table.owner(self.slot).and_then(|addr| state.servers.get(addr)).cloned();
        drop(state);
        if let Some(server) = owner {
            let needed = self.cluster.needed();
            server.pushes.unused(self.slot, |slot| needed.contains_key(&slot));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use redis::PushKind;

    use super::*;
    use crate::redis::protocol::names;
    use crate::redis::wire::inbox::Inbox;

    fn learn(cluster: &Cluster, owner: &str, epoch: u32) {
        let nodes = format!("a {owner}@1 master - 0 0 {epoch} connected 0-16383");
        cluster.learn(&layout::parse(&nodes, &cluster.seeds[0], false).unwrap());
    }

    async fn stirred(inbox: &Inbox) {
        let changed = tokio::time::timeout(Duration::from_secs(5), inbox.changed(true));
        changed.await.expect("the claim asks");
    }

    #[tokio::test]
    async fn what_a_node_pushed_that_is_succeeded_is_not_taken_and_its_claims_ask() {
        let target = Target::at(1);
        let cluster = Cluster::at_nobody(target);
        learn(&cluster, "127.0.0.1:1", 1);
        let claim = ClaimId::from_bits(5);
        let slot = slots::slot_of(b"k");
        let inbox = cluster.session.inboxes.open(claim);
        let listening = cluster.listen(slot, claim).unwrap();
        let message =
            format!("g {} 7 9 1", names::Owner { claim, session: "ab", of_quorum: false });
        let data = [slots::channel(listening.slot, "ab"), message];
        let data = data.map(|part| Value::BulkString(part.into_bytes())).to_vec();
        let push = PushInfo { kind: PushKind::SMessage, data };
        let [one, two, three] = [1, 2, 3].map(|port| Addr::new("127.0.0.1", port));
        cluster.deliver(&push, &one);
        assert!(inbox.handed().is_some());
        cluster.deliver(&push, &one);
        learn(&cluster, "127.0.0.1:2", 2);
        stirred(&inbox).await;
        assert_eq!(inbox.handed(), None);
        cluster.deliver(&push, &one);
        assert_eq!(inbox.handed(), None);
        cluster.deliver(&push, &two);
        let by = cluster.server(two).unwrap();
        cluster.moved(listening.slot, &by, three);
        stirred(&inbox).await;
        assert_eq!(inbox.handed(), None);
        drop(listening);
        assert!(cluster.needed().is_empty());
    }

    #[tokio::test]
    async fn an_owner_that_is_gone_makes_way_for_a_cluster_that_was_made_anew() {
        let target = Target::at(1);
        let cluster = Cluster::at_nobody(target);
        learn(&cluster, "127.0.0.1:1", 9);
        let anew = "a 127.0.0.1:2@1 master - 0 0 1 connected 0-16383";
        let told = [(); 2].map(|()| layout::parse(anew, &cluster.seeds[0], false).unwrap());
        let claim = ClaimId::from_bits(5);
        let inbox = cluster.session.inboxes.open(claim);
        let listening = cluster.listen(5, claim).unwrap();
        cluster.bury(&told[..1]).await;
        assert!(cluster.state().table.owner(5).is_some_and(|owner| owner.port == 1));
        assert!(!cluster.is_moving());
        cluster.bury(&told).await;
        assert!(cluster.state().table.owner(5).is_some_and(|owner| owner.port == 2));
        // Those who hold a key or wait for it ask the other one, which knows nothing of them.
        stirred(&inbox).await;
        assert!(cluster.is_moving());
        drop(listening);
    }
}
