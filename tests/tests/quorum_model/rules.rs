//! The switches: how the members, the clients and the faults of one model behave.

use crate::client::CLIENTS_MAX;
use crate::member::MEMBERS;

/// How a member numbers a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Store {
    /// One script compares, grants and reserves: the token is `max(last + 1, from)`, and it is the
    /// new `last`. This is Redis.
    Reserves,
    /// Every grant is numbered by the member's own transaction counter, which nobody can set. The
    /// grant moves that counter, not `last`. This is ZooKeeper, where `last` is a node of its own.
    Numbers {
        /// The counters at first; those of independent servers are unrelated.
        counters: [u8; MEMBERS],
    },
}

/// The members that are told the token before the grant counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteBack {
    /// A majority must have acknowledged it.
    Always,
    /// A member that answered with exactly this token needs not be told. Right where the grant
    /// itself moved `last`, wrong elsewhere.
    WhereBehind,
    /// None: the maximum of the answers is taken as it is.
    Never,
}

/// When a member obeys a raise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Raise {
    /// Only while the grant that the client was told of is the one in force: the claim is the owner,
    /// and with the same answer.
    IfSameGrant,
    /// While the claim is the owner and `last` is not beyond the token. As good where the grant
    /// itself moves `last`.
    IfNotBeyond,
    /// While the claim is the owner, though another may have been in between.
    IfOwner,
    /// In any case.
    Anyway,
}

/// The knowledge that a member that lost its data must gain before it grants again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repair {
    /// The highest `last` or minimum token of a majority, not counting itself, each read after the
    /// quarantine.
    FromOthers,
    /// The same, but read as soon as it is back.
    Early,
    /// The highest `last` of a majority that it counts itself to.
    CountingItself,
    /// The same as [`Repair::FromOthers`], but what was read after one loss still counts after the
    /// next, as when a repairer is stopped between its reads and its write.
    Lingering,
    /// The same as [`Repair::FromOthers`], but of a member that was repaired itself only what it
    /// has reserved since is read.
    WithoutFloors,
    /// Nothing.
    None,
}

/// One model: a protocol, and how much may go wrong while it runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// How many claims each client makes, one after the other.
    pub(crate) claims: [u8; CLIENTS_MAX],
    /// How a member numbers a grant.
    pub(crate) store: Store,
    /// The members that are told the token.
    pub(crate) write_back: WriteBack,
    /// When a member obeys a raise.
    pub(crate) raise: Raise,
    /// Whether a member that lost its data waits for the end of every lease that it had granted.
    pub(crate) quarantine: bool,
    /// The knowledge that such a member must gain.
    pub(crate) repair: Repair,
    /// Whether holders write to the resource.
    pub(crate) writes: bool,
    /// How many messages may arrive twice.
    pub(crate) duplicates: u8,
    /// How many times a member loses its data.
    pub(crate) losses: u8,
    /// How many times a lease ends while its client counts on it: an operator's release by force,
    /// a clock that jumps.
    pub(crate) early_ends: u8,
}

impl Default for Rules {
    /// The protocol as it should be, two clients with a claim each, and nothing but delay, loss and
    /// reordering of messages.
    fn default() -> Self {
        Rules {
            claims: [1, 1, 0],
            store: Store::Reserves,
            write_back: WriteBack::WhereBehind,
            raise: Raise::IfSameGrant,
            quarantine: true,
            repair: Repair::FromOthers,
            writes: false,
            duplicates: 0,
            losses: 0,
            early_ends: 0,
        }
    }
}

impl Rules {
    /// Whether a member that granted exactly the token counts without a raise.
    pub(crate) fn grant_counts(&self) -> bool {
        self.write_back != WriteBack::Always
    }

    /// Whether leases end only after the hold of their client, as they do while clocks keep to the
    /// margin and nobody interferes.
    pub(crate) fn leases_last(&self) -> bool {
        self.early_ends == 0
    }
}
