//! A real Redis Cluster of a test's own.

use std::time::{Duration, Instant};

use super::options::{FIXTURE_PASSWORD, RedisOptions};
use super::server::RedisServer;
use crate::port::free_port;
use crate::wait::{PATIENCE, eventually};

/// How many slots a cluster has.
pub const SLOTS: u16 = 16_384;

/// Masters; each has one replica.
const MASTERS: usize = 3;

/// After so long without an answer a node counts as gone. Whoever takes over then may not know of the
/// last writes, so a busy machine must not do that.
const NODE_TIMEOUT: Duration = Duration::from_secs(10);

/// The same where a node is to die. So do those of all begin, as they know each other sooner with it.
const HASTY_NODE_TIMEOUT: Duration = Duration::from_millis(1_000);

/// A node that was greeted and does not answer is forgotten after this, and greeted again.
const GREETED_FOR: Duration = Duration::from_secs(2);

/// Three masters and a replica of each, stopped when dropped. Nodes keep their numbers whatever
/// becomes of their roles; 0 to 2 begin as masters with a third of the slots each, 3 to 5 as their
/// replicas in the same order.
#[derive(Debug)]
pub struct RedisCluster {
    nodes: Vec<RedisServer>,
    ids: Vec<String>,
    /// After this a node counts as gone.
    node_timeout: Duration,
}

impl RedisCluster {
    /// Starts one and waits until its nodes agree.
    ///
    /// # Panics
    ///
    /// As [`RedisServer::with`], or if they do not agree within 10 s.
    ///
    /// # Cancel safety
    ///
    /// The nodes that were started are stopped.
    pub async fn start() -> Self {
        Self::with(RedisOptions::new()).await
    }

    /// Starts one whose nodes have `options`.
    ///
    /// # Panics
    ///
    /// As [`start`](Self::start).
    ///
    /// # Cancel safety
    ///
    /// As [`start`](Self::start).
    pub async fn with(options: RedisOptions) -> Self {
        let mut this = Self::hasty_with(options).await;
        this.node_timeout = NODE_TIMEOUT;
        this.nodes.iter().for_each(|node| this.is_patient(node));
        this
    }

    /// Starts one in which a node counts as gone after a second without an answer.
    ///
    /// # Panics
    ///
    /// As [`start`](Self::start).
    ///
    /// # Cancel safety
    ///
    /// As [`start`](Self::start).
    pub async fn hasty() -> Self {
        Self::hasty_with(RedisOptions::new()).await
    }

    /// [`hasty`](Self::hasty) with `options`.
    ///
    /// # Panics
    ///
    /// As [`start`](Self::start).
    ///
    /// # Cancel safety
    ///
    /// As [`start`](Self::start).
    pub async fn hasty_with(options: RedisOptions) -> Self {
        let nodes: Vec<_> = (0..2 * MASTERS).map(|_| node(&options)).collect();
        let ids: Vec<String> = nodes.iter().map(|one| one.command(&["CLUSTER", "MYID"])).collect();
        let this = Self { nodes, ids, node_timeout: HASTY_NODE_TIMEOUT };
        for (number, node) in this.nodes.iter().enumerate() {
            let epoch = (number + 1).to_string();
            node.command::<()>(&["CLUSTER", "SET-CONFIG-EPOCH", &epoch]);
        }
        for (number, slots) in this.thirds().into_iter().enumerate() {
            let (first, last) = (slots.0.to_string(), slots.1.to_string());
            this.nodes[number].command::<()>(&["CLUSTER", "ADDSLOTSRANGE", &first, &last]);
        }
        let mut greeted: Option<Instant> = None;
        eventually("all nodes know each other", || {
            if greeted.is_none_or(|at| at.elapsed() >= GREETED_FOR) {
                this.greet();
                greeted = Some(Instant::now());
            }
            this.nodes.iter().all(|node| known(node).lines().count() == 2 * MASTERS)
                && this.nodes.iter().all(|node| !known(node).contains("handshake"))
        })
        .await;
        for number in 0..MASTERS {
            let replica = &this.nodes[MASTERS + number];
            replica.command::<()>(&["CLUSTER", "REPLICATE", &this.ids[number]]);
        }
        this.settled().await;
        this
    }

    /// Has a node take others for gone after this cluster's time.
    fn is_patient(&self, node: &RedisServer) {
        let timeout = self.node_timeout.as_millis().to_string();
        node.command::<()>(&["CONFIG", "SET", "cluster-node-timeout", &timeout]);
    }

    /// Has the first node meet those that it does not know.
    fn greet(&self) {
        let known = known(&self.nodes[0]);
        let strange = self.nodes.iter().zip(&self.ids).filter(|(_, id)| !known.contains(*id));
        for (node, _) in strange {
            let (port, bus) = (node.port().to_string(), bus(node).to_string());
            self.nodes[0].command::<()>(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus]);
        }
    }

    fn thirds(&self) -> Vec<(u16, u16)> {
        let count = u16::try_from(MASTERS).expect("few");
        let at = |third: u16| u32::from(SLOTS) * u32::from(third) / u32::from(count);
        let at = |third| u16::try_from(at(third)).expect("below 16384");
        (0..count).map(|third| (at(third), at(third + 1) - 1)).collect()
    }

    /// Waits until all nodes that answer see one cluster that serves all slots, with every live
    /// replica in step with its master.
    ///
    /// # Panics
    ///
    /// If they do not within 10 s.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe; it only looks.
    pub async fn settled(&self) {
        eventually("the cluster is settled", || {
            let up: Vec<_> = self.nodes.iter().filter(|node| node.is_running()).collect();
            let views: Vec<_> = up.iter().map(|node| owners(&known(node))).collect();
            let whole = |node: &&RedisServer| {
                let info: String = node.command(&["CLUSTER", "INFO"]);
                info.contains("cluster_state:ok")
            };
            let linked = |node: &&RedisServer| {
                let info: String = node.command(&["INFO", "replication"]);
                !info.contains("role:slave") || info.contains("master_link_status:up")
            };
            views.windows(2).all(|pair| pair[0] == pair[1])
                && up.iter().all(whole)
                && up.iter().all(linked)
        })
        .await;
    }

    /// `redis+cluster://` with the address of the first node, which names the others.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis+cluster://{}", self.nodes[0].addr())
    }

    /// [`url`](Self::url) over TLS, for nodes with certificates.
    #[must_use]
    pub fn url_tls(&self) -> String {
        let (_, port): (String, u16) = self.nodes[0].command(&["CONFIG", "GET", "tls-port"]);
        format!("redis+cluster+tls://127.0.0.1:{port}")
    }

    /// [`url`](Self::url) with all nodes, as `user` if one is given.
    #[must_use]
    pub fn url_of_all(&self, login: Option<(&str, &str)>) -> String {
        let nodes: Vec<_> = self.nodes.iter().map(|node| node.addr().to_string()).collect();
        let login = login.map_or(String::new(), |(user, password)| format!("{user}:{password}@"));
        format!("redis+cluster://{login}{}", nodes.join(","))
    }

    /// All nodes, by number.
    #[must_use]
    pub fn nodes(&self) -> &[RedisServer] {
        &self.nodes
    }

    /// The nodes that run and take themselves for masters.
    #[must_use]
    pub fn masters(&self) -> Vec<&RedisServer> {
        let master = |node: &&RedisServer| {
            node.is_running()
                && node.command::<String>(&["INFO", "replication"]).contains("role:master")
        };
        self.nodes.iter().filter(master).collect()
    }

    /// The ids of the nodes, by number.
    #[must_use]
    pub fn ids(&self) -> &[String] {
        &self.ids
    }

    /// A node, by number.
    #[must_use]
    pub fn node(&self, number: usize) -> &RedisServer {
        &self.nodes[number]
    }

    /// Kills a node, by number.
    pub fn kill(&mut self, number: usize) {
        self.nodes[number].kill();
    }

    /// Starts a node again, see [`RedisServer::restart`].
    ///
    /// # Panics
    ///
    /// As [`RedisServer::restart`].
    pub fn restart(&mut self, number: usize) {
        self.nodes[number].restart();
        self.is_patient(&self.nodes[number]);
    }

    /// The number of the node that owns a slot, as `by` sees it: between two masters nobody.
    #[must_use]
    pub fn owner_seen_by(&self, by: usize, slot: u16) -> Option<usize> {
        let owners = owners(&known(&self.nodes[by]));
        let (_, _, id) = owners.iter().find(|(from, to, _)| (*from..=*to).contains(&slot))?;
        self.ids.iter().position(|own| own == id)
    }

    /// Whether all masters know the same epoch of each master, and the same owner of each slot. A
    /// slot that moves on before may be claimed by a node that owned it in the past.
    ///
    /// # Panics
    ///
    /// If no master runs.
    #[must_use]
    pub fn is_agreed(&self) -> bool {
        let masters = self.masters().into_iter();
        let mut seen = masters.map(known).map(|nodes| (epochs(&nodes), owners(&nodes)));
        let first = seen.next().expect("a master");
        seen.all(|other| other == first)
    }

    /// The number of the node that owns a key's slot, as a running node sees it. Between two
    /// masters of a slot nodes see none, and are waited for.
    ///
    /// # Panics
    ///
    /// If no running node sees one within [`PATIENCE`].
    #[must_use]
    pub fn owner(&self, key: &str) -> usize {
        let (slot, until) = (self.slot(key), Instant::now() + PATIENCE);
        loop {
            let running = (0..self.nodes.len()).filter(|node| self.nodes[*node].is_running());
            if let Some(owner) = running.into_iter().find_map(|by| self.owner_seen_by(by, slot)) {
                return owner;
            }
            assert!(Instant::now() < until, "nobody owns slot {slot}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// The number of a replica of a master.
    ///
    /// # Panics
    ///
    /// If it has none that runs.
    #[must_use]
    pub fn replica_of(&self, master: usize) -> usize {
        let at = format!("master_port:{}\r", self.nodes[master].port());
        let follows = |node: &RedisServer| {
            node.is_running() && node.command::<String>(&["INFO", "replication"]).contains(&at)
        };
        self.nodes.iter().position(follows).expect("a replica")
    }

    /// The node that owns the slot of a lock's key.
    #[must_use]
    pub fn server_of(&self, key: &str) -> &RedisServer {
        &self.nodes[self.owner(key)]
    }

    /// The node that owns the slot of a name at the servers.
    ///
    /// # Panics
    ///
    /// If nobody owns it, or the first node does not run.
    #[must_use]
    pub fn server_of_name(&self, name: &str) -> &RedisServer {
        let slot = self.nodes[0].command(&["CLUSTER", "KEYSLOT", name]);
        &self.nodes[self.owner_seen_by(0, slot).expect("somebody owns it")]
    }

    /// The slot of the keys of the lock `key`.
    #[must_use]
    pub fn slot(&self, key: &str) -> u16 {
        let by = self.nodes.iter().find(|node| node.is_running()).expect("a running node");
        by.command(&["CLUSTER", "KEYSLOT", &format!("lock:{{{key}}}")])
    }

    /// Opens a slot at both ends: from here on its keys may be at either.
    pub fn begin_move(&self, slot: u16, from: usize, to: usize) {
        let slot = slot.to_string();
        let (source, target) = (&self.nodes[from], &self.nodes[to]);
        target.command::<()>(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &self.ids[from]]);
        source.command::<()>(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &self.ids[to]]);
    }

    /// Moves those keys of the slot that are there now and whose name `which` takes.
    pub fn move_keys(&self, slot: u16, from: usize, to: usize, which: impl Fn(&str) -> bool) {
        let slot = slot.to_string();
        let source = &self.nodes[from];
        let keys: Vec<String> = source.command(&["CLUSTER", "GETKEYSINSLOT", &slot, "10000"]);
        let keys: Vec<_> = keys.iter().map(String::as_str).filter(|key| which(key)).collect();
        if keys.is_empty() {
            return;
        }
        let port = self.nodes[to].port().to_string();
        let command = ["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"];
        source.command::<redis::Value>(&[&command[..], &keys[..]].concat());
    }

    /// Moves what is left of the slot, and gives it to `to` at every node that runs, the new owner
    /// first. None of its keys may be left behind: the old owner would delete them.
    pub fn end_move(&self, slot: u16, from: usize, to: usize) {
        self.move_keys(slot, from, to, |_| true);
        let slot = slot.to_string();
        let command = ["CLUSTER", "SETSLOT", &slot, "NODE", &self.ids[to]];
        self.nodes[to].command::<()>(&command);
        self.nodes[from].command::<()>(&command);
        for (number, node) in self.nodes.iter().enumerate() {
            if number != from && number != to && node.is_running() {
                // Replicas refuse; they hear of it.
                let _ = node.try_command::<()>(&command);
            }
        }
    }

    /// Moves a slot with all its keys.
    pub fn move_slot(&self, slot: u16, from: usize, to: usize) {
        self.begin_move(slot, from, to);
        self.move_keys(slot, from, to, |_| true);
        self.end_move(slot, from, to);
    }

    /// Waits until another node owns the key's slot than `old`, as a node other than `old` sees it.
    ///
    /// # Panics
    ///
    /// If that takes longer than 10 s.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe; it only looks.
    pub async fn succeeded(&self, old: usize, key: &str) -> usize {
        let by = (0..self.nodes.len()).filter(|number| *number != old);
        let by = by.into_iter().find(|number| self.nodes[*number].is_running()).expect("another");
        let slot: u16 = self.nodes[by].command(&["CLUSTER", "KEYSLOT", &format!("lock:{{{key}}}")]);
        let mut new = None;
        eventually("a replica took over", || {
            new = self.owner_seen_by(by, slot).filter(|owner| *owner != old);
            new.is_some()
        })
        .await;
        new.expect("it was seen")
    }

    /// How often the running nodes refused a command with `code` (`MOVED`, `ASK` …) since they
    /// started.
    #[must_use]
    pub fn refusals(&self, code: &str) -> u64 {
        let count = |node: &RedisServer| {
            let info: String = node.command(&["INFO", "errorstats"]);
            let prefix = format!("errorstat_{code}:count=");
            let line = info.lines().find_map(|line| line.strip_prefix(&prefix).map(str::to_owned));
            line.map_or(0, |count| count.trim().parse().expect("a number"))
        };
        self.nodes.iter().filter(|node| node.is_running()).map(count).sum()
    }
}

fn node(options: &RedisOptions) -> RedisServer {
    let mut options = options.clone();
    if options.acl.is_some() {
        options = options.set("masteruser", "fixture").set("masterauth", FIXTURE_PASSWORD);
    }
    if options.has("tls-cert-file") {
        options = options
            .set("tls-port", &free_port().to_string())
            .set("tls-cluster", "yes")
            .set("tls-replication", "yes");
    }
    RedisServer::with(
        options
            .set("cluster-enabled", "yes")
            .set("cluster-node-timeout", &HASTY_NODE_TIMEOUT.as_millis().to_string())
            .set("cluster-port", &free_port().to_string())
            .set("repl-diskless-sync-delay", "0"),
    )
}

/// Where a node listens to the others.
fn bus(node: &RedisServer) -> u16 {
    let (_, port): (String, u16) = node.command(&["CONFIG", "GET", "cluster-port"]);
    port
}

fn known(node: &RedisServer) -> String {
    node.command(&["CLUSTER", "NODES"])
}

/// The ids of masters, each with the epoch of its slots, in order.
fn epochs(nodes: &str) -> Vec<(String, String)> {
    let mut epochs = Vec::new();
    for line in nodes.lines() {
        let words: Vec<_> = line.split(' ').collect();
        if words[2].contains("master") {
            epochs.push((words[0].to_owned(), words[6].to_owned()));
        }
    }
    epochs.sort_unstable();
    epochs
}

/// Ranges of slots and who owns them, in order.
fn owners(nodes: &str) -> Vec<(u16, u16, String)> {
    let mut owners = Vec::new();
    for line in nodes.lines() {
        let words: Vec<_> = line.split(' ').collect();
        for slots in words.iter().skip(8).filter(|slots| !slots.starts_with('[')) {
            let (from, to) = slots.split_once('-').unwrap_or((slots, slots));
            let slot = |text: &str| text.parse::<u16>().expect("a slot");
            owners.push((slot(from), slot(to), words[0].to_owned()));
        }
    }
    owners.sort_unstable();
    owners
}
