//! The view by which a state is known.

use std::hash::{Hash, Hasher};

use smallvec::SmallVec;

use super::*;

impl World {
    /// The view by which a state is known: times from now on, and tokens by their order. The last
    /// two parties want the same, so their order does not count.
    fn view(&self) -> (Vec<u64>, [u8; 6], (Broken, Seen)) {
        let Self { now, renewals, downgrades, losses, doubles, crashes, .. } = *self;
        let view = self.seen_as([0, 1, 2]).min(self.seen_as([0, 2, 1]));
        let left = [now, renewals, downgrades, losses, doubles, crashes];
        (view, left, (self.broken, self.seen))
    }

    fn seen_as(&self, parties: [u8; PARTIES]) -> Vec<u64> {
        let (mut view, mut tokens) = (Vec::with_capacity(64), Vec::with_capacity(24));
        let ago = |sent: u8| u64::from(self.now - sent).min(3);
        let left = |until: Duration| until.saturating_sub(self.now()).as_secs();
        let named =
            |(party, claim): Name| u64::from(parties[usize::from(party)]) << 4 | u64::from(claim);
        let seen = |mode: Mode| u64::from(mode == Mode::Shared);
        for owner in self.register.owners(self.now()) {
            let place = &owner.place;
            view.extend([1, named(place.with), seen(place.mode), left(owner.until)]);
            tokens.push(owner.tokens.last().unwrap_or(0));
        }
        for place in self.register.line() {
            view.extend([2, named(place.with), place.due.map_or(9, left)]);
        }
        for party in parties.map(|at| &self.parties[usize::from(at)]) {
            let lives = u64::from(party.is_dead) << 8 | u64::from(party.opened << 4 | party.left);
            match party.stand {
                Stand::Away => view.extend([3, lives]),
                Stand::Waiting(told) => {
                    view.extend([4, lives, told.map_or(9, |(sent, _)| ago(sent))]);
                    tokens.push(told.map_or(0, |(_, latest)| latest));
                }
                Stand::Holding { lease, sent, token, mode, downgrades } => {
                    let left = lease.valid_until().saturating_duration_since(own(self.now));
                    let left = left.as_millis() as u64;
                    view.extend([5, lives, left, ago(sent), seen(mode), downgrades.into()]);
                    tokens.push(token);
                }
            }
        }
        let mut messages: SmallVec<[_; 12]> = self
            .network
            .iter()
            .map(|message| {
                let name = named(message.name());
                match *message {
                    Message::Request(_, Verb::Withdraw, _) => (name, 6, 0, 0, 0),
                    Message::Request(_, verb, sent) => (name, 7 + verb as u64, ago(sent), 0, 0),
                    Message::Granted(_, sent, token, for_s) => (name, 11, ago(sent), for_s, token),
                    Message::Downgraded(_, sent, token, for_s) => {
                        (name, 12, ago(sent), for_s, token)
                    }
                    Message::Blocked(_, sent, latest) => (name, 13, ago(sent), 0, latest),
                    Message::Lost(_) => (name, 14, 0, 0, 0),
                    Message::Pushed(_, token) => (name, 15, 0, 0, token),
                }
            })
            .collect();
        messages.sort_unstable();
        for (name, what, ago, for_s, token) in messages {
            view.extend([name, what, ago, for_s.into()]);
            tokens.push(token);
        }
        tokens.extend([self.highest, self.highest_writer, self.kept]);
        tokens.push(self.register.last().unwrap_or(0));
        let mut ranks: SmallVec<[_; 24]> = tokens.iter().copied().collect();
        ranks.sort_unstable();
        ranks.dedup();
        view.extend(tokens.iter().map(|token| ranks.partition_point(|it| it < token) as u64));
        view
    }
}

impl Hash for World {
    fn hash<H: Hasher>(&self, into: &mut H) {
        self.view().hash(into);
    }
}

impl PartialEq for World {
    fn eq(&self, other: &Self) -> bool {
        self.view() == other.view()
    }
}
