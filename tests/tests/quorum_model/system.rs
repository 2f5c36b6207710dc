//! The whole: members, clients and messages, and what each step does to them.

use crate::client::{CLIENTS_MAX, ClaimId, Client, Decision, Phase};
use crate::ledger::Ledger;
use crate::member::{Health, MEMBERS, Member, Readings, Set, Token};
use crate::network::{Message, Network};
use crate::rules::{Repair, Rules, Store};
use crate::step::Step;

/// A state of the whole.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct System {
    pub(crate) members: [Member; MEMBERS],
    /// The readings to repair each member.
    pub(crate) readings: [Readings; MEMBERS],
    pub(crate) clients: [Client; CLIENTS_MAX],
    /// The highest token granted when the first attempt of each client's claim arrived, plus one;
    /// 0 before.
    pub(crate) minimums: [Token; CLIENTS_MAX],
    pub(crate) network: Network,
    pub(crate) ledger: Ledger,
    /// The faults that may still come.
    pub(crate) duplicates: u8,
    pub(crate) losses: u8,
    pub(crate) early_ends: u8,
}

impl System {
    /// The beginning: every client with a claim to make has sent its first attempts.
    pub(crate) fn new(rules: &Rules) -> Self {
        let counters = match rules.store {
            Store::Reserves => [0; MEMBERS],
            Store::Numbers { counters } => counters,
        };
        let mut state = System {
            members: counters.map(Member::new),
            readings: [Readings::default(); MEMBERS],
            clients: rules.claims.map(Client::new),
            minimums: [0; CLIENTS_MAX],
            network: Network::default(),
            ledger: Ledger::default(),
            duplicates: rules.duplicates,
            losses: rules.losses,
            early_ends: rules.early_ends,
        };
        for client in 0..CLIENTS_MAX {
            state.open(client);
        }
        state
    }

    /// Whether `claim` is under way or held.
    pub(crate) fn is_open(&self, claim: ClaimId) -> bool {
        self.clients[usize::from(claim.client)].is_open(claim)
    }

    pub(crate) fn steps_of_client(&self, client: usize, steps: &mut Vec<Step>) {
        let one = &self.clients[client];
        if one.phase == Phase::Idle {
            return;
        }
        let heards = [0b011, 0b101, 0b110, 0b111];
        let decisions = heards.into_iter().filter(|&heard| one.can_decide(heard));
        steps.extend(decisions.map(|heard| Step::Decide { client, heard }));
        // To give up the last claim before any member granted is to do so right after the first did.
        let last = one.left == 0;
        let claim = self.claim_of(client);
        let granted = self.members.iter().any(|member| member.owner == Some(claim));
        if !last || granted || !matches!(one.phase, Phase::Asking { .. }) {
            steps.push(Step::GiveUp { client, heard: false });
        }
        if !last && matches!(one.phase, Phase::Asking { .. }) {
            steps.push(Step::GiveUp { client, heard: true });
        }
    }

    pub(crate) fn steps_of_member(&self, rules: &Rules, member: usize, steps: &mut Vec<Step>) {
        let one = &self.members[member];
        match one.owner {
            Some(claim) if !self.is_open(claim) => steps.push(Step::Free { member }),
            Some(_) if self.early_ends > 0 => steps.push(Step::EndEarly { member }),
            _ => {}
        }
        if self.losses > 0 && one.health == Health::Up {
            steps.push(Step::Lose { member });
        }
        if one.may_read(rules) {
            let others = (0..MEMBERS).filter(|&other| {
                self.members[other].health == Health::Up && !self.readings[member].has(other)
            });
            steps.extend(others.map(|other| Step::Read { member, other }));
        }
        if one.may_return(rules, &self.readings[member]) {
            steps.push(Step::Return { member });
        }
    }

    /// Whether the arrival of `message` does anything. A request that is blocked or refused, or
    /// reaches a member in quarantine, is as good as lost.
    pub(crate) fn matters(&self, rules: &Rules, message: &Message) -> bool {
        match *message {
            Message::Attempt { claim, member, .. } => {
                self.members[usize::from(member)].grants(claim)
            }
            Message::Raise { claim, member, first, token } => {
                self.members[usize::from(member)].obeys(rules, claim, first, token)
            }
            _ => true,
        }
    }

    fn open(&mut self, client: usize) {
        if self.clients[client].left == 0 {
            return;
        }
        let from = self.clients[client].open();
        let claim = self.claim_of(client);
        for member in 0..MEMBERS as u8 {
            self.network.send(Message::Attempt { claim, member, from });
        }
    }

    pub(crate) fn deliver(&mut self, rules: &Rules, message: Message) {
        match message {
            Message::Attempt { claim, member, from } => {
                let at = usize::from(member);
                let first = self.members[at].attempt(rules, claim, from);
                if !self.is_open(claim) {
                    // Nobody waits for the answer, or counts on the lease.
                    return;
                }
                self.members[at].owe(claim.client);
                let client = usize::from(claim.client);
                if !rules.leases_last() && self.minimums[client] == 0 {
                    self.minimums[client] = self.ledger.newest() + 1;
                }
                if self.clients[client].granted(rules, at, first) {
                    self.network.send(Message::Granted { claim, member });
                }
            }
            Message::Raise { claim, member, token, .. } => {
                self.members[usize::from(member)].raise(claim, token);
                if self.is_open(claim) {
                    self.network.send(Message::Raised { claim, member });
                }
            }
            Message::Granted { claim, member } | Message::Raised { claim, member } => {
                self.at_client(rules, claim, |client| client.reached(usize::from(member)));
            }
            Message::Write { claim, token, grant } => {
                let held = self.clients[usize::from(claim.client)].holds().is_some()
                    && self.is_open(claim);
                self.ledger.write(token, grant, held);
            }
        }
    }

    pub(crate) fn decide(&mut self, rules: &Rules, client: usize, heard: Set) {
        let claim = self.claim_of(client);
        let mut decision = Decision::default();
        self.at_client(rules, claim, |client| decision = client.decide(rules, heard));
        let Decision { token, answers, behind, late } = decision;
        for member in 0..MEMBERS as u8 {
            if behind & (1 << member) != 0 {
                let first = answers[usize::from(member)];
                self.network.send(Message::Raise { claim, member, first, token });
            }
            if late & (1 << member) != 0 && self.clients[client].holds().is_none() {
                self.network.send(Message::Granted { claim, member });
            }
        }
    }

    /// Lets `claim` take something in; notes the grant if that makes it one.
    fn at_client(&mut self, rules: &Rules, claim: ClaimId, take_in: impl FnOnce(&mut Client)) {
        let client = &mut self.clients[usize::from(claim.client)];
        let held = client.holds().is_some();
        take_in(client);
        let Some(token) = client.holds().filter(|_| !held) else { return };
        let token_min = self.minimums[usize::from(claim.client)].saturating_sub(1);
        let grant = self.ledger.grant(rules, token, token_min);
        self.network.forget_answers(claim);
        if rules.writes {
            self.network.send(Message::Write { claim, token, grant });
        }
    }

    pub(crate) fn give_up(&mut self, client: usize, heard: bool) {
        self.network.forget_answers(self.claim_of(client));
        self.clients[client].give_up(heard);
        self.minimums[client] = 0;
        for member in &mut self.members {
            member.settle(client);
        }
        self.open(client);
    }

    pub(crate) fn lose(&mut self, rules: &Rules, member: usize) {
        self.losses -= 1;
        self.members[member].lose();
        if rules.repair != Repair::Lingering {
            self.readings[member] = Readings::default();
        }
    }

    pub(crate) fn come_back(&mut self, rules: &Rules, member: usize) {
        self.members[member].come_back(&self.readings[member]);
        if rules.repair != Repair::Lingering {
            self.readings[member] = Readings::default();
        }
    }

    fn claim_of(&self, client: usize) -> ClaimId {
        ClaimId { client: client as u8, round: self.clients[client].round }
    }
}
