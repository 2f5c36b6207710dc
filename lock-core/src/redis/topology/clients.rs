//! The clients that are connected to a server, by the names of their connections: who is behind an
//! owner at a key.
//!
//! A client gives its connections a name at connect, which holds its session and its label. So a key
//! that is held costs nothing more, and nothing is left of a client that is gone. Whoever inspects a
//! key, or waits for it in vain, has the server list its clients.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use redis::{Cmd, FromRedisValue as _};

use super::Topology;
use crate::ground::{clock, lock};
use crate::redis::protocol::names;
use crate::redis::wire::session::Session;

/// A list of clients is long, so a client that is in none is looked for once in so long.
pub(in crate::redis) const LOOK_PAUSE: Duration = Duration::from_secs(1);

/// The same where many clients may look, as their waits for a dead one end.
pub(in crate::redis) const LOOK_PAUSE_OF_WAITS: Duration = Duration::from_secs(60);

/// The longest part of a label that is shown.
const LABEL_SHOWN_MAX: usize = 450;

/// Sessions of which it is kept who they are.
const KNOWN_MAX: usize = 10_000;

/// Other clients as far as they are known, by their sessions.
#[derive(Debug, Default)]
pub(super) struct Clients(Mutex<HashMap<Box<str>, Seen>>);

#[derive(Debug)]
enum Seen {
    /// A session has one label for as long as it lives.
    Named(String),
    /// It was in no list then: its connections are gone, or have no name.
    Nowhere(Instant),
}

impl Topology {
    /// Sees to it that the labels of these sessions are known, of those that are connected to the
    /// server of this slot. One that was not is looked for after this `pause`. Without the right to its list none is.
    pub(in crate::redis) async fn look_for<'a>(
        &self,
        slot: u16,
        mut sessions: impl Iterator<Item = &'a str> + Clone,
        pause: Duration,
    ) {
        let now = clock::now();
        if !sessions.clone().any(|session| self.clients.is_sought(session, now, pause)) {
            return;
        }
        let mut list = Cmd::new();
        list.arg("CLIENT").arg("LIST");
        let answer =
            self.send_to(slot, &list).await.map_err(|unserved| unserved.fault.into_fault());
        let listed = answer.map(|answer| String::from_redis_value(answer).unwrap_or_default());
        let listed = listed.unwrap_or_else(|fault| {
            tracing::debug!(%fault, "no CLIENT LIST: neither an inspection nor an error shows who holds a key");
            String::new()
        });
        self.clients.note(&listed, &mut sessions, now);
    }

    /// The label of a session, escaped, if it is known.
    pub(in crate::redis) fn label_of(&self, session: &str) -> Option<String> {
        match lock(&self.clients.0).get(session) {
            Some(Seen::Named(label)) => Some(label.clone()),
            Some(Seen::Nowhere(_)) | None => None,
        }
    }
}

impl Clients {
    /// Those beside a client, which knows its own name.
    pub(super) fn beside(own: &Session) -> Self {
        let clients = Self::default();
        if let Some(name) = own.name() {
            clients.note(&format!("name={name}"), &mut std::iter::empty(), clock::now());
        }
        clients
    }

    fn is_sought(&self, session: &str, now: Instant, pause: Duration) -> bool {
        match lock(&self.0).get(session) {
            Some(Seen::Named(_)) => false,
            Some(Seen::Nowhere(at)) => now.saturating_duration_since(*at) >= pause,
            None => true,
        }
    }

    /// Notes the names in an answer to `CLIENT LIST`, and who of those that were sought is in none.
    fn note(&self, listed: &str, sought: &mut dyn Iterator<Item = &str>, now: Instant) {
        let names = listed.split([' ', '\n']).filter_map(|field| field.strip_prefix("name="));
        let mut known = lock(&self.0);
        if known.len() > KNOWN_MAX {
            known.clear();
        }
        for (session, label) in names.filter_map(names::of_connection) {
            // Anybody may give a connection such a name.
            let shown = label.escape_debug().take(LABEL_SHOWN_MAX).collect();
            known.insert(session.into(), Seen::Named(shown));
        }
        for session in sought {
            if !matches!(known.get(session), Some(Seen::Named(_))) {
                known.insert(session.into(), Seen::Nowhere(now));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_in_no_list_is_sought_again_after_a_while() {
        let own = Session::new(Some("own"));
        let (clients, now) = (Clients::beside(&own), clock::now());
        assert!(!clients.is_sought(&own.id, now, LOOK_PAUSE), "it knows who it is");
        let is_sought = |session, at| clients.is_sought(session, at, LOOK_PAUSE);
        let listed = "id=3 addr=127.0.0.1:1 name=lock:ab:web%203 age=1 cmd=evalsha\n\
                      id=4 addr=127.0.0.1:2 name= age=1\nid=5 name=another age=2\n";
        assert!(is_sought("ab", now) && is_sought("cd", now));
        clients.note(listed, &mut ["ab", "cd"].into_iter(), now);
        assert!(!is_sought("ab", now) && !is_sought("cd", now));
        let later = now + LOOK_PAUSE;
        assert!(!is_sought("ab", later) && is_sought("cd", later));
        assert!(matches!(&lock(&clients.0)["ab"], Seen::Named(label) if label == "web 3"));
    }
}
