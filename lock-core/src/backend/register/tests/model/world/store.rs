//! The store: the register has its turn, and what comes of it is looked at and sent.

use std::cell::Cell;

use super::*;
use crate::backend::register::{Place, Turn};
use crate::backend::{Attempt, ClaimId, Grant, Renewal};
use crate::token::TokenBlock;

/// The time that a place in line lives unless its claim asks again.
const DUE: Duration = Duration::from_secs(2);

fn id((party, claim): Name) -> ClaimId {
    ClaimId::from_bits((u128::from(party) << 8) | u128::from(claim))
}

fn fits(modes: impl Iterator<Item = Mode>, mode: Mode) -> bool {
    let mut modes = modes;
    modes.all(|other| other == Mode::Shared && mode == Mode::Shared)
}

impl World {
    /// The register has its turn.
    pub(super) fn serve(&mut self, rules: &Rules, name: Name, verb: Verb, sent: u8) {
        let (before, line) = (self.owners(), self.line());
        let mode = rules.modes[usize::from(name.0)];
        let due = Some(self.now() + DUE);
        let place =
            |mode| Place { claim: id(name), mode, lease: LEASE, tokens_max: 1, due, with: name };
        let for_s = |grant: Grant| grant.valid_for.as_secs() as u8;
        let may_grant = verb != Verb::Withdraw || rules.serves_line;
        let reply = self.turn(may_grant, |register, turn| match verb {
            Verb::Attempt => {
                let set_aside = match mode {
                    Mode::Shared if !rules.stands_behind => std::mem::take(&mut register.line),
                    _ => Default::default(),
                };
                let answer = register.attempt(place(mode), true, turn);
                set_aside.into_iter().rev().for_each(|it| register.line.push_front(it));
                match answer.ok()? {
                    Attempt::Granted(grant) => {
                        let token = grant.tokens.last()?;
                        Some(Message::Granted(name, sent, token, for_s(grant)))
                    }
                    Attempt::Blocked { .. } => {
                        Some(Message::Blocked(name, sent, register.last().unwrap_or(0)))
                    }
                }
            }
            Verb::Renew => Some(match register.renew(id(name), LEASE, true, turn) {
                Renewal::Held(grant) => {
                    Message::Granted(name, sent, grant.tokens.last()?, for_s(grant))
                }
                Renewal::Lost => Message::Lost(name),
            }),
            Verb::Downgrade if rules.keeps_place => {
                Some(match register.downgrade(id(name), LEASE, turn) {
                    Renewal::Held(grant) => {
                        Message::Downgraded(name, sent, grant.tokens.last()?, for_s(grant))
                    }
                    Renewal::Lost => Message::Lost(name),
                })
            }
            Verb::Downgrade => {
                register.withdraw(id(name), turn);
                let _ = register.attempt(place(Mode::Shared), true, turn);
                None
            }
            Verb::Withdraw => {
                register.withdraw(id(name), turn);
                None
            }
        });
        self.network.extend(reply);
        self.look(rules, name, &before, &line);
    }

    fn turn<A>(
        &mut self,
        may_grant: bool,
        ask: impl FnOnce(&mut Register<Name>, &Turn<'_, Name>) -> A,
    ) -> A {
        let kept = Cell::new(self.kept);
        let mint = |last: Option<u64>, _| {
            let token = last.unwrap_or(kept.get()) + 1;
            TokenBlock::new(token, token)
        };
        let turn = Turn { now: self.now(), mint: &mint, wake: &|_| {}, may_grant };
        ask(&mut self.register, &turn)
    }

    fn owners(&self) -> Vec<(Name, Mode)> {
        self.register.owners(self.now()).map(|it| (it.place.with, it.place.mode)).collect()
    }

    /// Those whose place in line is theirs yet.
    fn line(&self) -> Vec<Name> {
        let now = self.now();
        let line = self.register.line().filter(|place| place.due.is_none_or(|due| now < due));
        line.map(|place| place.with).collect()
    }

    /// Looks at what a turn has come to, pushes its grants, and forgets a register that is idle.
    fn look(&mut self, rules: &Rules, asked: Name, before: &[(Name, Mode)], line: &[Name]) {
        let (owners, waits) = (self.owners(), self.line());
        let place = |name: &Name| line.iter().position(|it| it == name);
        for owner in self.register.owners(self.now()) {
            let name = owner.place.with;
            if before.iter().any(|(had, _)| *had == name) {
                continue;
            }
            let at = place(&name).unwrap_or(usize::MAX);
            self.broken.order |= waits.iter().any(|it| place(it).is_some_and(|it| it < at));
            if name != asked {
                self.network.push(Message::Pushed(name, owner.tokens.last().unwrap_or(0)));
            }
        }
        let head = self.register.line().next().map(|place| place.mode);
        let modes = || owners.iter().map(|(_, mode)| *mode);
        self.broken.left_alone |= head.is_some_and(|head| fits(modes(), head));
        if self.register.is_idle(self.now()) {
            let last = self.register.last().unwrap_or(self.kept);
            self.kept = if rules.keeps_last { last } else { 0 };
            self.register = Register::default();
        }
    }
}
