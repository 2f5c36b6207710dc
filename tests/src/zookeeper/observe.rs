//! Asking a running server about itself and its clients.

use std::collections::BTreeMap;
use std::io;

use super::admin::Admin;
use super::server::ZooKeeperServer;
use super::words::{ask, sessions};

/// A client's session as the server has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Session {
    /// The id, as `Client::session_id` has it.
    pub id: i64,
    /// False if the client has no connection now.
    pub connected: bool,
    /// The paths of its ephemeral nodes, sorted.
    pub ephemerals: Vec<String>,
}

/// What the fixture itself has asked a server, so that it can be left out of what is observed.
#[derive(Debug, Default)]
pub(super) struct Asked {
    pub(super) admin: Option<Admin>,
    /// Every session of the fixture; those of a killed server outlive its restart.
    pub(super) sessions: Vec<i64>,
    /// Four-letter words since the start, each of which is a packet.
    pub(super) words: u64,
}

/// Questions to a running server. Each blocks the calling thread for a few round trips, at most
/// 5 s each, and panics if the server does not answer. The fixture's own session is left out.
impl ZooKeeperServer {
    /// Any four-letter word, as `server.word("wchp")`.
    ///
    /// # Panics
    ///
    /// If the server does not answer.
    #[must_use]
    pub fn word(&self, word: &str) -> String {
        self.try_word(word).unwrap_or_else(|error| panic!("{word}: {error}"))
    }

    pub(super) fn try_word(&self, word: &str) -> io::Result<String> {
        self.asked.lock().expect("no fixture panicked").words += 1;
        ask(self.addr(), word)
    }

    /// Every value of `mntr`, as `zk_watch_count`.
    #[must_use]
    pub fn mntr(&self) -> BTreeMap<String, String> {
        let answer = self.word("mntr");
        let values = answer.lines().filter_map(|line| line.split_once('\t'));
        values.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect()
    }

    /// How many packets clients have sent since the start: requests, pings, connects.
    #[must_use]
    pub fn packets_received(&self) -> u64 {
        let own_sessions = self.own_sessions();
        let connections = self.word("cons");
        let own_packets: u64 = connections
            .lines()
            .filter(|line| own_sessions.iter().any(|id| line.contains(&format!("sid={id:#x},"))))
            .filter_map(|line| line.split_once("recved=")?.1.split(',').next()?.parse::<u64>().ok())
            .sum();
        let all = self.number("zk_packets_received");
        all - own_packets - self.asked.lock().expect("no fixture panicked").words
    }

    /// How many watches clients have set and the server not yet fired.
    #[must_use]
    pub fn watches(&self) -> u64 {
        self.number("zk_watch_count")
    }

    /// Every session but the fixture's own, by id, connected or not. A member of an ensemble
    /// knows the connections to itself only.
    #[must_use]
    pub fn sessions(&self) -> Vec<Session> {
        let own = self.own_sessions();
        let mut sessions = sessions(&self.word("dump"));
        sessions.retain(|session| !own.contains(&session.id));
        sessions
    }

    fn own_sessions(&self) -> Vec<i64> {
        self.asked.lock().expect("no fixture panicked").sessions.clone()
    }

    fn number(&self, name: &str) -> u64 {
        let values = self.mntr();
        let value = values.get(name).unwrap_or_else(|| panic!("mntr has no {name}: {values:?}"));
        value.parse().unwrap_or_else(|_| panic!("{name} is {value}"))
    }
}
