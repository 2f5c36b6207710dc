//! A member of the quorum: one independent server, seen through one key.

use crate::client::ClaimId;
use crate::rules::{Raise, Repair, Rules, Store};

/// How many members there are.
pub(crate) const MEMBERS: usize = 3;

/// How many of them decide.
pub(crate) const MAJORITY: u32 = 2;

/// A fencing token; 0 is none.
pub(crate) type Token = u8;

/// A set of members, or of clients: bit `i` is number `i`.
pub(crate) type Set = u8;

/// The data that a member keeps of the key.
///
/// The line of waiters is left out: who waits at a minority gives it back. A crash that keeps the
/// data is left out too, because a member that is down is one that takes no step for a while, and
/// the schedules in which it takes none are explored anyway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Member {
    /// The claim that holds the key here.
    pub(crate) owner: Option<ClaimId>,
    /// The answer that the owner was given, and is given again.
    answer: Token,
    /// The highest token reserved here. It outlives the owner.
    pub(crate) last: Token,
    /// The minimum that it was told when it was repaired: its tokens are above this, too.
    token_min: Token,
    /// The transactions of [`Store::Numbers`].
    counter: Token,
    /// The clients that may count on a lease from here. A quarantine waits for them, whatever
    /// became of the lease itself.
    pub(crate) owes: Set,
    pub(crate) health: Health,
    /// It lost its data and is back. For the properties only.
    pub(crate) returned: bool,
}

/// Whether a member answers.
///
/// `Up => Quarantined` when it loses its data, `Quarantined => Up` when all leases that it had
/// granted are over and it has a minimum token. In quarantine it answers nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Health {
    Up,
    Quarantined,
}

/// The readings from the others to repair a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Readings {
    /// The members read.
    pub(crate) from: Set,
    /// The highest `last` or minimum token among them.
    pub(crate) highest: Token,
}

impl Readings {
    /// Notes how far `member` is.
    pub(crate) fn note(&mut self, member: usize, last: Token) {
        self.from |= 1 << member;
        self.highest = self.highest.max(last);
    }

    /// Whether `member` was read already.
    pub(crate) fn has(&self, member: usize) -> bool {
        self.from & (1 << member) != 0
    }

    fn suffice(&self, repair: Repair) -> bool {
        let read = self.from.count_ones();
        match repair {
            Repair::FromOthers | Repair::Early | Repair::Lingering | Repair::WithoutFloors => {
                read >= MAJORITY
            }
            Repair::CountingItself => read + 1 >= MAJORITY,
            Repair::None => true,
        }
    }
}

impl Member {
    /// A member that has seen nothing of the key; its transactions are at `counter`.
    pub(crate) fn new(counter: Token) -> Self {
        Member {
            owner: None,
            answer: 0,
            last: 0,
            token_min: 0,
            counter,
            owes: 0,
            health: Health::Up,
            returned: false,
        }
    }

    /// Whether an attempt of `claim` is granted.
    pub(crate) fn grants(&self, claim: ClaimId) -> bool {
        self.health == Health::Up && self.owner.is_none_or(|owner| owner == claim)
    }

    /// Whether a raise of `claim`, from `first` to `token`, is obeyed.
    pub(crate) fn obeys(&self, rules: &Rules, claim: ClaimId, first: Token, token: Token) -> bool {
        let owns = self.owner == Some(claim);
        self.health == Health::Up
            && match rules.raise {
                // It has the token already if this is a repetition.
                Raise::IfSameGrant => owns && [first, token].contains(&self.answer),
                Raise::IfNotBeyond => owns && self.last <= token,
                Raise::IfOwner => owns,
                Raise::Anyway => true,
            }
    }

    /// Grants the key to `claim`, with a token of at least `from`.
    pub(crate) fn attempt(&mut self, rules: &Rules, claim: ClaimId, from: Token) -> Token {
        if self.owner != Some(claim) {
            self.owner = Some(claim);
            self.answer = from.max(self.last.max(self.token_min) + 1);
            match rules.store {
                Store::Reserves => self.last = self.answer,
                Store::Numbers { .. } => {
                    self.counter += 1;
                    self.answer = self.answer.max(self.counter);
                }
            }
        }
        self.answer
    }

    /// Moves `last` up to `token`.
    pub(crate) fn raise(&mut self, claim: ClaimId, token: Token) {
        self.last = self.last.max(token);
        if self.owner == Some(claim) {
            self.answer = self.answer.max(token);
        }
    }

    /// The lease ends, or the withdrawal arrives.
    pub(crate) fn free(&mut self) {
        self.owner = None;
        self.answer = 0;
    }

    /// Notes that `client` counts on a lease from here.
    pub(crate) fn owe(&mut self, client: u8) {
        self.owes |= 1 << client;
    }

    /// Forgets that `client` counts on a lease from here: its claim is over.
    pub(crate) fn settle(&mut self, client: usize) {
        self.owes &= !(1 << client);
    }

    /// Loses its data.
    pub(crate) fn lose(&mut self) {
        *self = Member { owes: self.owes, health: Health::Quarantined, ..Member::new(0) };
    }

    /// Whether `last` of another may be read to repair this one.
    pub(crate) fn may_read(&self, rules: &Rules) -> bool {
        self.health == Health::Quarantined
            && rules.repair != Repair::None
            && (self.waited(rules) || rules.repair == Repair::Early)
    }

    /// The token that is read of it to repair another.
    pub(crate) fn reached(&self, rules: &Rules) -> Token {
        match rules.repair {
            Repair::WithoutFloors => self.last,
            _ => self.last.max(self.token_min),
        }
    }

    /// Whether it may grant again, given what was read.
    pub(crate) fn may_return(&self, rules: &Rules, readings: &Readings) -> bool {
        self.health == Health::Quarantined && self.waited(rules) && readings.suffice(rules.repair)
    }

    /// Grants again from now on.
    pub(crate) fn come_back(&mut self, readings: &Readings) {
        self.token_min = readings.highest;
        self.health = Health::Up;
        self.returned = true;
    }

    fn waited(&self, rules: &Rules) -> bool {
        !rules.quarantine || self.owes == 0
    }
}
