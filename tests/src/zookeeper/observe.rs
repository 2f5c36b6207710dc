//! Asking a running server about itself and its clients.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

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

/// The fixture's own questions to a server, so that they can be left out of what is observed.
#[derive(Debug, Default)]
pub(super) struct Asked {
    pub(super) admin: Option<Admin>,
    /// Four-letter words since the start, each of which is a packet.
    pub(super) words: u64,
}

/// The ids of every session of a fixture: those of a killed server outlive its restart, and the
/// servers of an ensemble know each other's.
pub(super) type OwnSessions = Arc<Mutex<Vec<i64>>>;

/// How long an answer may take: 5 s.
const LIMIT: Duration = Duration::from_secs(5);

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
        self.try_word(word, LIMIT).unwrap_or_else(|error| panic!("{word}: {error}"))
    }

    pub(super) fn try_word(&self, word: &str, limit: Duration) -> io::Result<String> {
        let answer = ask(self.addr(), word, limit);
        // A paused server counts it later.
        if !answer.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused) {
            self.asked.lock().expect("no fixture panicked").words += 1;
        }
        answer
    }

    /// Every value of `mntr`, as `zk_watch_count`.
    #[must_use]
    pub fn mntr(&self) -> BTreeMap<String, String> {
        let answer = self.word("mntr");
        let values = answer.lines().filter_map(|line| line.split_once('\t'));
        values.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect()
    }

    /// Starts the counters of `mntr` and [`packets_received`](Self::packets_received) at zero.
    pub fn reset_stats(&self) {
        let _ = (self.word("crst"), self.word("srst"));
        self.asked.lock().expect("no fixture panicked").words = 0;
    }

    /// How many packets clients have sent since the start or the last reset: connects, requests,
    /// pings. A member of an ensemble that has changed its leader since needs a reset.
    #[must_use]
    pub fn packets_received(&self) -> u64 {
        let own = self.own();
        let connections = self.word("cons");
        let own_packets: u64 = connections
            .lines()
            .filter(|line| own.iter().any(|id| line.contains(&format!("sid={id:#x},"))))
            .filter_map(|line| line.split_once("recved=")?.1.split(',').next()?.parse::<u64>().ok())
            .sum();
        let all = self.number("zk_packets_received");
        let words = self.asked.lock().expect("no fixture panicked").words;
        all.checked_sub(own_packets + words)
            .expect("counters that did not begin anew by themselves")
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
        let own = self.own();
        let mut sessions = sessions(&self.word("dump"));
        sessions.retain(|session| !own.contains(&session.id));
        sessions
    }

    fn own(&self) -> Vec<i64> {
        self.own_sessions.lock().expect("no fixture panicked").clone()
    }

    fn number(&self, name: &str) -> u64 {
        let values = self.mntr();
        let value = values.get(name).unwrap_or_else(|| panic!("mntr has no {name}: {values:?}"));
        value.parse().unwrap_or_else(|_| panic!("{name} is {value}"))
    }
}
