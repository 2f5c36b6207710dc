//! A client: it makes one claim after the other, and counts the members that granted.

use crate::member::{MAJORITY, MEMBERS, Set, Token};
use crate::rules::{Rules, WriteBack};

/// How many clients fit into a [`System`](crate::system::System).
pub(crate) const CLIENTS_MAX: usize = 3;

/// One claim of one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ClaimId {
    /// The number of the client.
    pub(crate) client: u8,
    /// The number of the claim among those of the client, from 1.
    pub(crate) round: u8,
}

/// Where a client stands.
///
/// `Idle => Asking` sends the attempts. `Asking => Raising` fixes the token once a majority has
/// granted, and sends the raises. `Raising => Holding` when a majority is known to have the token.
/// From everywhere `=> Idle`: released, refused, out of patience, or out of lease by its own clock.
/// It is idle only after its last claim: a claim that is opened later is one whose attempts take
/// longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    Idle,
    Asking {
        /// The token that each member granted with, be the answer here or under way; 0 is none.
        answers: [Token; MEMBERS],
    },
    Raising {
        token: Token,
        /// The members known to have it.
        reached: Set,
    },
    Holding {
        token: Token,
    },
}

/// The knowledge of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Client {
    /// The claims made so far.
    pub(crate) round: u8,
    /// The claims yet to be made.
    pub(crate) left: u8,
    /// The highest token ever seen.
    pub(crate) seen: Token,
    pub(crate) phase: Phase,
}

/// The requests of a client when it fixes the token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) token: Token,
    /// The answers of the members.
    pub(crate) answers: [Token; MEMBERS],
    /// The members to be raised.
    pub(crate) behind: Set,
    /// The members that have the token, and whose answers are under way.
    pub(crate) late: Set,
}

impl Client {
    /// A client that has not begun, and makes `claims` claims.
    pub(crate) fn new(claims: u8) -> Self {
        Client { round: 0, left: claims, seen: 0, phase: Phase::Idle }
    }

    /// Whether `claim` is the one under way or held.
    pub(crate) fn is_open(&self, claim: ClaimId) -> bool {
        self.phase != Phase::Idle && self.round == claim.round
    }

    /// Begins the next claim; gives the least token to ask for.
    pub(crate) fn open(&mut self) -> Token {
        self.round += 1;
        self.left -= 1;
        self.phase = Phase::Asking { answers: [0; MEMBERS] };
        self.seen + 1
    }

    /// `member` granted with `first`; true if that answer alone tells that it has the token.
    pub(crate) fn granted(&mut self, rules: &Rules, member: usize, first: Token) -> bool {
        match &mut self.phase {
            Phase::Asking { answers } => {
                answers[member] = first;
                false
            }
            Phase::Raising { token, .. } => *token == first && rules.grant_counts(),
            _ => false,
        }
    }

    /// Whether the answers of `heard` are a majority, so that the token can be fixed.
    pub(crate) fn can_decide(&self, heard: Set) -> bool {
        let Phase::Asking { answers } = self.phase else { return false };
        heard.count_ones() >= MAJORITY
            && (0..MEMBERS).all(|member| heard & (1 << member) == 0 || answers[member] != 0)
    }

    /// Fixes the token: the highest answer of `heard`. The other answers may arrive later.
    pub(crate) fn decide(&mut self, rules: &Rules, heard: Set) -> Decision {
        let Phase::Asking { answers } = self.phase else { return Decision::default() };
        let of = |set: Set| (0..MEMBERS).filter(move |member| set & (1 << member) != 0);
        let token = of(heard).map(|member| answers[member]).max().unwrap_or(0);
        self.seen = self.seen.max(token);
        if rules.write_back == WriteBack::Never {
            self.phase = Phase::Holding { token };
            return Decision::default();
        }
        let exact: Set = of(0b111)
            .filter(|&member| answers[member] == token && rules.grant_counts())
            .map(|member| 1 << member)
            .sum();
        self.phase = Phase::Raising { token, reached: heard & exact };
        self.count_majority();
        Decision { token, answers, behind: heard & !exact, late: exact & !heard }
    }

    /// Takes in that `member` has the token.
    pub(crate) fn reached(&mut self, member: usize) {
        if let Phase::Raising { reached, .. } = &mut self.phase {
            *reached |= 1 << member;
        }
        self.count_majority();
    }

    /// The token of a grant that counts.
    pub(crate) fn holds(&self) -> Option<Token> {
        match self.phase {
            Phase::Holding { token } => Some(token),
            _ => None,
        }
    }

    /// Ends the claim; with `heard`, the answers under way arrive before. What it learnt is of no
    /// use after the last one.
    pub(crate) fn give_up(&mut self, heard: bool) {
        if let Phase::Asking { answers } = self.phase {
            let highest = answers.iter().copied().max().unwrap_or(0);
            self.seen = if heard { self.seen.max(highest) } else { self.seen };
        }
        self.phase = Phase::Idle;
        if self.left == 0 {
            self.seen = 0;
        }
    }

    fn count_majority(&mut self) {
        match self.phase {
            Phase::Raising { token, reached } if reached.count_ones() >= MAJORITY => {
                self.phase = Phase::Holding { token };
            }
            _ => {}
        }
    }
}
