//! The notes of an observer who sees everything at once, and the resource that the lock protects.

use crate::member::Token;
use crate::rules::Rules;

/// The facts that the properties are about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Ledger {
    /// How many grants counted so far.
    pub(crate) grants: u8,
    /// The tokens granted, bit `i` for token `i`. Only the highest is kept where they must grow
    /// with every grant: it tells all then.
    tokens: u32,
    /// The highest token that the resource accepted.
    accepted: Token,
    /// The latest grant of which it accepted a write.
    writer: u8,
    pub(crate) broken: Broken,
}

/// The properties that were broken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Broken {
    /// A grant with a token that is not above that of the grant before.
    pub(crate) order: bool,
    /// A grant with a token that is not above those granted before it was asked for.
    pub(crate) real_time: bool,
    /// A token granted twice.
    pub(crate) twice: bool,
    /// A write accepted after one of a later grant.
    pub(crate) stale_write: bool,
    /// A write refused while its holder held the lock.
    pub(crate) lost_write: bool,
}

impl Ledger {
    /// Notes a grant with `token`, asked for when `token_min` was the highest token granted; gives
    /// its number, from 1.
    pub(crate) fn grant(&mut self, rules: &Rules, token: Token, token_min: Token) -> u8 {
        self.broken.order |= token <= self.newest();
        self.broken.real_time |= token <= token_min;
        self.broken.twice |= self.tokens & (1 << token) != 0;
        if rules.leases_last() && token > self.newest() {
            self.tokens = 0;
        }
        self.tokens |= 1 << token;
        self.grants += 1;
        self.grants
    }

    /// The highest token granted; 0 if none was.
    pub(crate) fn newest(&self) -> Token {
        self.tokens.checked_ilog2().map_or(0, |bit| bit as Token)
    }

    /// A write with `token` reaches the resource, which accepts it unless it has seen a higher one.
    /// `held` tells whether grant number `grant` is held at this moment.
    pub(crate) fn write(&mut self, token: Token, grant: u8, held: bool) {
        if self.refuses(token) {
            self.broken.lost_write |= held;
            return;
        }
        self.broken.stale_write |= grant < self.writer;
        self.accepted = token;
        self.writer = self.writer.max(grant);
    }

    /// Whether the resource refuses a write with `token`.
    pub(crate) fn refuses(&self, token: Token) -> bool {
        token < self.accepted
    }
}
