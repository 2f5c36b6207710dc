//! The answers of the store of a [`World`], and what the machine knows by them.

use super::super::*;
use super::world::{Request, World, fault, ms};
use crate::backend::{Attempt, Change, FaultKind, Grant, Renewal};

impl World {
    fn grant(&mut self, count: u64, wanted: bool) -> Grant {
        let tokens = TokenBlock::new(self.given + 1, self.given + count);
        self.given += count;
        let lease = match &self.cohort.place {
            Phase::Asking(asking) => asking.terms.lease,
            Phase::Held(held) => held.lease,
            Phase::Vacant => panic!("a grant without a claim"),
        };
        let grant = Grant::new(tokens, lease / self.part);
        Grant { wanted, revoke_requested: self.revoke, ..grant }
    }

    fn know(&mut self, wanted: bool) {
        self.wanted = match (wanted, self.wanted) {
            (true, None) => Some((self.now, 0)),
            (true, known) => known,
            (false, _) => None,
        };
    }

    /// The store answers the request under way: served with so many tokens (none at all only to a
    /// renewal), or refused (blocked, lost), or not at all.
    pub(super) fn answer(&mut self, answer: Option<(u64, bool)>, served: bool) {
        let Some((request, sent)) = self.asking.take() else { return };
        let mut fx = Effects::none();
        let least = u64::from(request == Request::Attempt);
        let grant = answer.map(|(tokens, wanted)| self.grant(tokens.max(least), wanted));
        if let (Some(grant), true) = (grant, served) {
            if request == Request::Attempt {
                (self.wanted, self.revoked) = (None, false);
            }
            self.know(grant.wanted);
            self.revoked |= grant.revoke_requested;
            self.spent = grant.tokens.left() == 0;
        }
        match request {
            Request::Attempt => {
                let answer = match (grant, served) {
                    (Some(grant), true) => Ok(Attempt::Granted(grant)),
                    (Some(_), false) => Ok(Attempt::Blocked { ahead: Some(1), recheck: ms(50) }),
                    (None, _) => Err(fault()),
                };
                self.cohort.attempted(0, sent, answer, self.now, |_| ms(30), &mut fx);
            }
            Request::Renew => {
                let answer = match (grant, served) {
                    (Some(grant), true) => Ok(Renewal::Held(grant)),
                    (Some(_), false) => Ok(Renewal::Lost),
                    (None, _) => Err(fault()),
                };
                self.refilled = matches!(&self.cohort.place, Phase::Held(it) if it.refilling);
                self.cohort.renewed(0, sent, answer, self.now, &mut fx);
            }
        }
        self.apply(fx);
        (self.poked, self.refilled) = (true, false);
    }

    /// The store answers the attempt under way with just this.
    pub(super) fn answer_attempt(&mut self, answer: Result<Attempt, Fault>) {
        let (_, sent) = self.asking.take().expect("an attempt under way");
        let mut fx = Effects::none();
        self.cohort.attempted(0, sent, answer, self.now, |_| ms(30), &mut fx);
        self.apply(fx);
        self.poked = true;
    }

    /// Another server takes the place of the one that was asked.
    pub(super) fn supersede(&mut self) {
        let fault = Fault::new(FaultKind::Superseded, "elsewhere");
        match self.asking {
            Some((Request::Attempt, _)) => self.answer_attempt(Err(fault)),
            _ => {
                let (_, sent) = self.asking.take().expect("a renewal under way");
                let mut fx = Effects::none();
                self.cohort.renewed(0, sent, Err(fault), self.now, &mut fx);
                self.apply(fx);
                (self.poked, self.pushed) = (true, true);
            }
        }
    }

    /// The withdrawal under way ends.
    pub(super) fn left(&mut self) {
        if let Some(reply) = self.leaving.take() {
            if let Some(release) = reply {
                self.answered(release);
            }
            self.poked = true;
        }
    }

    pub(super) fn push(&mut self) {
        self.push_of(Change::Here);
    }

    /// The store pushes something.
    pub(super) fn push_of(&mut self, change: Change) {
        if self.asking.is_none() && self.driven {
            self.cohort.changed(0, change, self.now);
            (self.poked, self.pushed) = (true, true);
        }
    }
}
