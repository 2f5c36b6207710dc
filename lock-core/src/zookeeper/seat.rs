//! The place of one claim in a lock directory: a node, or a node that may be there.
//!
//! Whoever drops a seat has its node deleted: until it is gone, it was never there, or the session
//! is over, whatever becomes of the caller.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::grave::{self, Grave};
use super::life::Entry;
use super::session::Session;
use crate::backend::ClaimId;

/// See the module.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) session: Arc<Session>,
    directory: Arc<str>,
    id: ClaimId,
    place: Mutex<Place>,
}

/// What is known of the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Node {
    /// It was asked for, and no answer has come.
    Doubtful,
    /// It is there under this name, since this transaction.
    Known { name: Arc<str>, birth: u64 },
    /// It is not there, or is being deleted.
    Gone,
}

#[derive(Debug)]
struct Place {
    node: Node,
    /// Whether an answer was lost, so that there may be more than one.
    doubted: bool,
    /// Whether the directory was not there and was asked for as well.
    made_directory: bool,
    /// The end of the lease, unless it is extended.
    until: Instant,
    entry: Option<Entry>,
}

impl Seat {
    /// A seat whose node is about to be asked for; `doubted` if the claim ever missed an answer.
    pub(super) fn take(
        session: Arc<Session>,
        directory: Arc<str>,
        id: ClaimId,
        until: Instant,
        doubted: bool,
    ) -> Arc<Self> {
        let node = Node::Doubtful;
        let place = Place { node, doubted, made_directory: false, until, entry: None };
        let seat = Arc::new(Self { session, directory, id, place: Mutex::new(place) });
        let entry = seat.session.life.enter(Arc::downgrade(&seat), until);
        seat.place().entry = Some(entry);
        seat
    }

    fn place(&self) -> MutexGuard<'_, Place> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn node(&self) -> Node {
        self.place().node.clone()
    }

    pub(super) fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.directory)
    }

    /// The node is there, unless its lease has ended meanwhile and it was given up.
    pub(super) fn settle(&self, name: &str, birth: u64) {
        let mut place = self.place();
        if place.node == Node::Doubtful {
            place.node = Node::Known { name: name.into(), birth };
        } else {
            // It was looked for in vain before it appeared.
            let grave = self.grave(Some(name.into()));
            drop(place);
            drop(grave::dig(&self.session, grave));
        }
    }

    /// An answer was lost.
    pub(super) fn doubt(&self) {
        self.place().doubted = true;
    }

    /// The directory is asked for as well.
    pub(super) fn makes_directory(&self) {
        self.place().made_directory = true;
    }

    pub(super) fn was_doubted(&self) -> bool {
        self.place().doubted
    }

    /// The node is known not to be there.
    pub(super) fn is_gone(&self) {
        self.place().node = Node::Gone;
    }

    /// Whether the claim has lost its place: its lease or its session is over.
    pub(super) fn is_lost(&self) -> bool {
        self.session.life.is_over() || self.place().node == Node::Gone
    }

    /// Extends the lease; `false` if the place was lost before.
    pub(super) fn extend(&self, until: Instant) -> bool {
        let mut place = self.place();
        place.until = place.until.max(until);
        place.node != Node::Gone && !self.session.life.is_over()
    }

    /// The keeper has come to see whether the lease is over.
    pub(super) fn look(seat: &Arc<Self>, now: Instant) {
        let mut place = seat.place();
        place.entry = None;
        if place.node == Node::Gone {
            return;
        }
        if now < place.until {
            place.entry = Some(seat.session.life.enter(Arc::downgrade(seat), place.until));
            return;
        }
        drop(place);
        tracing::warn!(directory = %seat.directory, claim = %seat.id, "a lease was not renewed");
        if let Some(grave) = seat.give_up() {
            drop(grave::dig(&seat.session, grave));
        }
    }

    /// What must be deleted from now on by whoever takes this.
    pub(super) fn give_up(&self) -> Option<Grave> {
        let mut place = self.place();
        let (search, unused) = (place.doubted, place.made_directory);
        match std::mem::replace(&mut place.node, Node::Gone) {
            Node::Gone => None,
            Node::Doubtful => Some(Grave { search: true, unused, ..self.grave(None) }),
            Node::Known { name, .. } => Some(Grave { search, ..self.grave(Some(name)) }),
        }
    }

    fn grave(&self, name: Option<Arc<str>>) -> Grave {
        let directory = self.directory.clone();
        Grave { directory, id: self.id, name, search: false, keep: None, unused: false }
    }

    /// Deletes what the claim has in this session beside `name`.
    pub(super) fn clear_beside(&self, name: &str) {
        let grave = Grave { keep: Some(name.into()), search: true, ..self.grave(None) };
        drop(grave::dig(&self.session, grave));
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let entry = self.place().entry.take();
        if let Some(entry) = entry {
            self.session.life.leave(entry);
        }
        if let Some(grave) = self.give_up() {
            drop(grave::dig(&self.session, grave));
        }
    }
}
