//! The place of one claim in a lock directory: a node, or a node that may be there.
//!
//! A place that is dropped has its node deleted, whatever becomes of the caller. Tries go on until
//! the node is gone, was never there, or the session is over. A claim whose node was given up gets
//! the next one under another id, so that no deletion can ever meet a later node of the same claim.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use super::removal::{self, Removal, What};
use crate::backend::leases::{self, Leased, Leases, Presence as _, Tenure};
use crate::ground::lock;
use crate::zookeeper::protocol::children::Kind;
use crate::zookeeper::session::Session;

/// One claim's node in a lock directory, or a node that may be there; deleted when this is dropped.
#[derive(Debug)]
pub(in crate::zookeeper) struct LockNode {
    pub(in crate::zookeeper) session: Arc<Session>,
    pub(in crate::zookeeper) directory: Arc<str>,
    pub(in crate::zookeeper) kind: Kind,
    /// The name, up to the number that the server adds.
    prefix: String,
    tenure: Mutex<Tenure<Presence>>,
}

/// The state of the node, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::zookeeper) enum Presence {
    // ## Asked => (There | Absent | GivenUp)
    /// It was asked for, and no answer has come.
    Asked,
    // ## There => (Absent | GivenUp)
    /// It is there under this name, since this transaction.
    There { name: Arc<str>, czxid: u64 },
    /// It is not there, for sure.
    Absent,
    /// It is being deleted.
    GivenUp,
}

impl leases::Presence for Presence {
    const ABSENT: Self = Self::Absent;

    fn is_over(&self) -> bool {
        matches!(self, Self::Absent | Self::GivenUp)
    }
}

impl LockNode {
    /// A node that is about to be asked for, whose name begins so.
    pub(in crate::zookeeper) fn new(
        session: Arc<Session>,
        directory: Arc<str>,
        kind: Kind,
        prefix: String,
        until: Instant,
    ) -> Arc<Self> {
        let tenure = Mutex::new(Tenure::new(Presence::Asked, until));
        let node = Arc::new(Self { session, directory, kind, prefix, tenure });
        node.tenure().enter(node.leases(), &node);
        node
    }

    fn tenure(&self) -> MutexGuard<'_, Tenure<Presence>> {
        lock(&self.tenure)
    }

    fn leases(&self) -> &Leases {
        &self.session.liveness.leases
    }

    pub(in crate::zookeeper) fn presence(&self) -> Presence {
        self.tenure().presence.clone()
    }

    /// The name, up to the number that the server adds.
    pub(in crate::zookeeper) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The name of a node that is known to be there.
    pub(in crate::zookeeper) fn name(&self) -> Option<Arc<str>> {
        match &self.tenure().presence {
            Presence::There { name, .. } => Some(name.clone()),
            _ => None,
        }
    }

    /// The path of a child of the directory.
    pub(in crate::zookeeper) fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.directory)
    }

    /// Sends what asks for the node, unless that was given up. A removal that begins later than
    /// this looks behind what was sent.
    pub(in crate::zookeeper) fn ask<T>(&self, send: impl FnOnce() -> T) -> Option<T> {
        let tenure = self.tenure();
        (tenure.presence == Presence::Asked).then(send)
    }

    /// The node is there. One that was given up before its name came is deleted by search.
    pub(in crate::zookeeper) fn is_there(&self, name: &str, czxid: u64) {
        let mut tenure = self.tenure();
        if tenure.presence == Presence::Asked {
            tenure.presence = Presence::There { name: name.into(), czxid };
        }
    }

    /// The node is known not to be there.
    pub(in crate::zookeeper) fn is_gone(&self) {
        self.tenure().is_gone();
    }

    /// Whether the claim has lost its place: its lease or its session is over.
    pub(in crate::zookeeper) fn is_lost(&self) -> bool {
        self.session.liveness.is_over() || self.tenure().presence.is_over()
    }

    /// Extends the lease; `false` if the place was lost before.
    pub(in crate::zookeeper) fn extend(&self, until: Instant) -> bool {
        self.tenure().extend(until) && !self.session.liveness.is_over()
    }

    fn take(&self, tenure: &mut Tenure<Presence>) -> Option<Removal> {
        let what = match &tenure.presence {
            Presence::Absent | Presence::GivenUp => return None,
            Presence::Asked => What::Prefixed(self.prefix.clone()),
            Presence::There { name, .. } => What::Named(name.clone()),
        };
        tenure.presence = Presence::GivenUp;
        Some(Removal { directory: self.directory.clone(), what })
    }

    /// The removal that whoever takes this must see to from now on.
    pub(in crate::zookeeper) fn give_up(&self) -> Option<Removal> {
        self.take(&mut self.tenure())
    }
}

impl Leased for LockNode {
    fn expire(self: Arc<Self>, now: Instant) {
        let mut tenure = self.tenure();
        if !tenure.ends(now, self.leases(), &self) {
            return;
        }
        // Under the mutex that was looked under: nobody can extend the lease in between.
        let removal = self.take(&mut tenure);
        drop(tenure);
        if let Some(removal) = removal {
            drop(removal::start(&self.session, [removal]));
            tracing::warn!(directory = %self.directory, "a lease was not renewed in time");
        }
    }
}

impl Drop for LockNode {
    fn drop(&mut self) {
        self.tenure().leave(self.leases());
        if let Some(removal) = self.give_up() {
            drop(removal::start(&self.session, [removal]));
        }
    }
}
