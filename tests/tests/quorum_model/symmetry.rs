//! States that differ only by the numbers of members and clients are one.
//!
//! No step asks for a number, so what can follow from one of them can follow from the other. The
//! checker keeps one of each kind: the one in which clients and members are sorted by what is
//! known of each. Where that leaves a tie, two of a kind may be kept, which costs time only.

use std::array::from_fn;

use stateright::Representative;

use crate::client::{CLIENTS_MAX, ClaimId, Phase};
use crate::member::{MEMBERS, Member, Set, Token};
use crate::network::{Message, Network};
use crate::system::System;

impl Representative for System {
    fn representative(&self) -> Self {
        let mut state = self.clone();
        let clients: [_; CLIENTS_MAX] = from_fn(|client| state.client_key(client));
        let order = sorted(clients);
        if order != from_fn(|at| at) {
            state.reorder_clients(order);
        }
        let members: [_; MEMBERS] = from_fn(|member| state.member_key(member));
        let order = sorted(members);
        if order != from_fn(|at| at) {
            state.reorder_members(order);
        }
        state
    }
}

/// The numbers in the order of their keys.
fn sorted<K: Ord, const N: usize>(keys: [K; N]) -> [usize; N] {
    let mut order = from_fn(|at| at);
    order.sort_by(|a: &usize, b| keys[*a].cmp(&keys[*b]));
    order
}

/// Where each number went in `order`.
fn places<const N: usize>(order: [usize; N]) -> [usize; N] {
    let mut places = [0; N];
    for (place, was) in order.into_iter().enumerate() {
        places[was] = place;
    }
    places
}

fn moved<const N: usize>(set: Set, places: [usize; N]) -> Set {
    (0..N).filter(|was| set & (1 << was) != 0).map(|was| 1 << places[was]).sum()
}

impl System {
    /// All that is known of a client, but for the numbers of members.
    fn client_key(&self, client: usize) -> (u8, u8, Token, u8, [Token; MEMBERS], [u8; 5]) {
        let one = &self.clients[client];
        let (kind, known) = match one.phase {
            Phase::Idle => (0, [0; MEMBERS]),
            Phase::Asking { mut answers } => {
                answers.sort_unstable();
                (1, answers)
            }
            Phase::Raising { token, reached } => (2, [token, reached.count_ones() as u8, 0]),
            Phase::Holding { token } => (3, [token, 0, 0]),
        };
        let mut counts = [0; 5];
        for message in
            self.network.iter().filter(|message| usize::from(message.claim().client) == client)
        {
            counts[usize::from(message.kind())] += 1;
        }
        (one.round, one.left, one.seen, kind, known, counts)
    }

    fn reorder_clients(&mut self, order: [usize; CLIENTS_MAX]) {
        let places = places(order);
        let claim =
            |claim: ClaimId| ClaimId { client: places[usize::from(claim.client)] as u8, ..claim };
        self.clients = order.map(|was| self.clients[was]);
        self.minimums = order.map(|was| self.minimums[was]);
        for member in &mut self.members {
            member.owner = member.owner.map(claim);
            member.owes = moved(member.owes, places);
        }
        self.rewrite(|message| *message.claim_mut() = claim(message.claim()));
    }

    /// All that is known of a member.
    fn member_key(&self, member: usize) -> (Member, Token, [Token; CLIENTS_MAX], u64) {
        let known = from_fn(|client| match self.clients[client].phase {
            Phase::Asking { answers } => answers[member],
            Phase::Raising { reached, .. } => reached >> member & 1,
            _ => 0,
        });
        let messages = self.network.iter().filter(|message| message.member() == Some(member));
        let codes = messages.map(|message| {
            let claim = message.claim();
            1 << (message.kind() * 12 + claim.client * 4 + claim.round)
        });
        (self.members[member], self.readings[member].highest, known, codes.sum())
    }

    fn reorder_members(&mut self, order: [usize; MEMBERS]) {
        let places = places(order);
        self.members = order.map(|was| self.members[was]);
        self.readings = order.map(|was| self.readings[was]);
        for readings in &mut self.readings {
            readings.from = moved(readings.from, places);
        }
        for client in &mut self.clients {
            match &mut client.phase {
                Phase::Asking { answers } => *answers = order.map(|was| answers[was]),
                Phase::Raising { reached, .. } => *reached = moved(*reached, places),
                _ => {}
            }
        }
        self.rewrite(|message| {
            if let Some(member) = message.member_mut() {
                *member = places[usize::from(*member)] as u8;
            }
        });
    }

    fn rewrite(&mut self, change: impl Fn(&mut Message)) {
        let mut network = Network::default();
        for mut message in self.network.iter().copied() {
            change(&mut message);
            network.send(message);
        }
        self.network = network;
    }
}
