//! The whole: the register, the parties and the messages, and what each step does to them.

mod store;
mod view;

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use super::Rules;
use crate::backend::Mode;
use crate::backend::register::Register;
use crate::ground::clock;
use crate::proto::lease::{LeaseClock, margin};

pub(super) const PARTIES: usize = 3;

const SECOND: Duration = Duration::from_secs(1);
const LEASE: Duration = Duration::from_secs(2);

/// The standing of a party's latest claim.
#[derive(Clone, Copy, Debug)]
enum Stand {
    /// It has none, or that one is over.
    Away,
    /// It waits. It knows when its last answered attempt was sent, and the last token told.
    Waiting(Option<(u8, u64)>),
    Holding {
        lease: LeaseClock,
        /// The time when its last renewal was sent.
        sent: u8,
        token: u64,
        mode: Mode,
        /// It asked for that and was not answered.
        downgrades: bool,
    },
}

#[derive(Clone, Copy, Debug)]
struct Party {
    stand: Stand,
    /// The number of claims that it has opened, and of those that it will.
    opened: u8,
    left: u8,
    is_dead: bool,
}

/// A party's claim, by the number of each.
type Name = (u8, u8);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Verb {
    Attempt,
    Renew,
    Downgrade,
    Withdraw,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Message {
    Request(Name, Verb, u8),
    /// The answer to a request that was sent then: a token, and the seconds that it is good for.
    Granted(Name, u8, u64, u8),
    Downgraded(Name, u8, u64, u8),
    /// The answer "blocked", with the last token given.
    Blocked(Name, u8, u64),
    Lost(Name),
    Pushed(Name, u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Open(usize),
    Ask(usize),
    Renew(usize),
    Downgrade(usize),
    End(usize),
    Die(usize),
    Deliver(usize),
    DeliverAndKeep(usize),
    Lose(usize),
    Tick,
}

/// The faults that were seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Broken {
    pub(super) revived: bool,
    pub(super) tokens: bool,
    pub(super) order: bool,
    pub(super) left_alone: bool,
}

/// The events that were seen at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Seen {
    pub(super) writer_after: bool,
    pub(super) pushed: bool,
    pub(super) beside_downgraded: bool,
}

/// A state of the whole.
#[derive(Clone, Debug)]
pub(super) struct World {
    register: Register<Name>,
    /// The token that the store keeps of a register that it forgot.
    kept: u64,
    now: u8,
    parties: [Party; PARTIES],
    network: Vec<Message>,
    /// The numbers of events that may still happen.
    renewals: u8,
    downgrades: u8,
    losses: u8,
    doubles: u8,
    crashes: u8,
    /// The highest tokens that somebody held the key under, and a writer.
    highest: u64,
    highest_writer: u64,
    pub(super) broken: Broken,
    pub(super) seen: Seen,
}

/// The party's own clock, which is slow.
fn own(now: u8) -> Instant {
    static BEGIN: OnceLock<Instant> = OnceLock::new();
    *BEGIN.get_or_init(clock::now) + SECOND * u32::from(now) * 99 / 100
}

impl Message {
    fn name(&self) -> Name {
        match *self {
            Self::Request(name, ..)
            | Self::Granted(name, ..)
            | Self::Downgraded(name, ..)
            | Self::Blocked(name, ..)
            | Self::Lost(name)
            | Self::Pushed(name, ..) => name,
        }
    }
}

impl World {
    pub(super) fn new(rules: &Rules) -> Self {
        let party = |left| Party { stand: Stand::Away, opened: 0, left, is_dead: false };
        Self {
            register: Register::default(),
            kept: 0,
            now: 0,
            parties: rules.claims.map(party),
            network: Vec::new(),
            renewals: rules.renewals,
            downgrades: rules.downgrades,
            losses: rules.losses,
            doubles: rules.doubles,
            crashes: rules.crashes,
            highest: 0,
            highest_writer: 0,
            broken: Broken::default(),
            seen: Seen::default(),
        }
    }

    fn now(&self) -> Duration {
        SECOND * u32::from(self.now)
    }

    fn name(&self, party: usize) -> Name {
        (party as u8, self.parties[party].opened)
    }

    /// The modes in which parties believe to hold the key, the dead until their time is over.
    pub(super) fn believers(&self) -> impl Iterator<Item = Mode> + '_ {
        self.parties.iter().filter_map(|party| match party.stand {
            Stand::Holding { lease, mode, .. } if lease.is_valid(own(self.now)) => Some(mode),
            _ => None,
        })
    }

    pub(super) fn is_compatible(&self) -> bool {
        let modes: Vec<_> = self.believers().collect();
        modes.len() < 2 || modes.iter().all(|mode| *mode == Mode::Shared)
    }

    fn is_asking(&self, name: Name) -> bool {
        self.network.iter().any(|message| {
            let is_request =
                matches!(message, Message::Request(_, verb, _) if *verb != Verb::Withdraw);
            message.name() == name && (is_request || !matches!(message, Message::Pushed(..)))
        })
    }

    pub(super) fn steps(&self, rules: &Rules, steps: &mut Vec<Step>) {
        for (at, party) in self.parties.iter().enumerate().filter(|(_, party)| !party.is_dead) {
            let is_asking = self.is_asking(self.name(at));
            match party.stand {
                Stand::Away if party.left > 0 => steps.push(Step::Open(at)),
                Stand::Away => {}
                Stand::Waiting(told) => {
                    steps.push(Step::End(at));
                    let is_due = told.is_none_or(|(sent, _)| sent < self.now && rules.asks_again);
                    if !is_asking && is_due {
                        steps.push(Step::Ask(at));
                    }
                }
                Stand::Holding { sent, mode, downgrades, .. } => {
                    steps.push(Step::End(at));
                    if !is_asking && !downgrades && self.renewals > 0 && sent < self.now {
                        steps.push(Step::Renew(at));
                    }
                    let may = mode == Mode::Exclusive && self.downgrades > 0;
                    if !is_asking && (downgrades || may) {
                        steps.push(Step::Downgrade(at));
                    }
                }
            }
            if self.crashes > 0 && !matches!(party.stand, Stand::Away) {
                steps.push(Step::Die(at));
            }
        }
        for at in 0..self.network.len() {
            steps.push(Step::Deliver(at));
            if self.doubles > 0 {
                steps.push(Step::DeliverAndKeep(at));
            }
            if self.losses > 0 {
                steps.push(Step::Lose(at));
            }
        }
        if self.now < rules.seconds {
            steps.push(Step::Tick);
        }
    }

    pub(super) fn does(&mut self, rules: &Rules, step: Step) {
        match step {
            Step::Open(at) => {
                let party = &mut self.parties[at];
                (party.opened, party.left) = (party.opened + 1, party.left - 1);
                party.stand = Stand::Waiting(None);
                self.ask(at, Verb::Attempt);
            }
            Step::Ask(at) => self.ask(at, Verb::Attempt),
            Step::Renew(at) => {
                self.renewals -= 1;
                self.ask(at, Verb::Renew);
            }
            Step::Downgrade(at) => self.downgrade(rules, at),
            Step::End(at) => self.end(at),
            Step::Die(at) => {
                self.crashes -= 1;
                self.parties[at].is_dead = true;
            }
            Step::Deliver(at) => {
                let message = self.network.remove(at);
                self.deliver(rules, message);
            }
            Step::DeliverAndKeep(at) => {
                self.doubles -= 1;
                self.deliver(rules, self.network[at]);
            }
            Step::Lose(at) => {
                self.losses -= 1;
                self.network.remove(at);
            }
            Step::Tick => self.tick(),
        }
        if rules.ended_is_ended {
            self.throw_away();
        }
        self.network.sort_unstable();
    }

    /// A party that finds its time over has no claim any more.
    fn tick(&mut self) {
        self.now += 1;
        for at in 0..PARTIES {
            let Party { stand, is_dead, .. } = self.parties[at];
            match stand {
                Stand::Holding { lease, .. } if !lease.is_valid(own(self.now)) => {
                    if is_dead {
                        self.parties[at].stand = Stand::Away;
                    } else {
                        self.end(at);
                    }
                }
                _ => {}
            }
        }
    }

    /// Messages to a claim that has ended, or to a dead party, are as good as lost.
    fn throw_away(&mut self) {
        let parties = self.parties;
        self.network.retain(|message| {
            let (party, claim) = message.name();
            let to = parties[usize::from(party)];
            let is_open = !to.is_dead && claim == to.opened && !matches!(to.stand, Stand::Away);
            is_open || matches!(message, Message::Request(..))
        });
    }

    fn ask(&mut self, at: usize, verb: Verb) {
        self.network.push(Message::Request(self.name(at), verb, self.now));
    }

    fn downgrade(&mut self, rules: &Rules, at: usize) {
        let Stand::Holding { mode, downgrades, .. } = &mut self.parties[at].stand else { return };
        if !*downgrades {
            self.downgrades -= 1;
        }
        *downgrades = true;
        if rules.reader_at_once {
            *mode = Mode::Shared;
        }
        self.ask(at, Verb::Downgrade);
    }

    fn end(&mut self, at: usize) {
        self.parties[at].stand = Stand::Away;
        self.ask(at, Verb::Withdraw);
    }

    fn deliver(&mut self, rules: &Rules, message: Message) {
        if let Message::Request(name, verb, sent) = message {
            return self.serve(rules, name, verb, sent);
        }
        let name = message.name();
        let at = usize::from(name.0);
        let stand = self.parties[at].stand;
        let is_open = name == self.name(at) && !matches!(stand, Stand::Away);
        if self.parties[at].is_dead || (rules.ended_is_ended && !is_open) {
            return;
        }
        match message {
            Message::Granted(_, sent, token, for_s)
            | Message::Downgraded(_, sent, token, for_s) => {
                let from = if rules.counts_from_send { sent } else { self.now };
                let is_downgrade = matches!(message, Message::Downgraded(..));
                self.granted(rules, name, (from, sent, for_s), token, is_downgrade);
            }
            Message::Blocked(_, sent, latest) => {
                if let Stand::Waiting(told) = stand {
                    self.parties[at].stand = Stand::Waiting(told.max(Some((sent, latest))));
                }
            }
            Message::Lost(_) => self.parties[at].stand = Stand::Away,
            Message::Pushed(_, token) => {
                let Stand::Waiting(Some((sent, latest))) = stand else { return };
                let from = if rules.pushed_from_send { sent } else { self.now };
                if token > latest || !rules.pushed_is_new {
                    self.granted(rules, name, (from, sent, 2), token, false);
                    self.seen.pushed |= matches!(self.parties[at].stand, Stand::Holding { .. });
                }
            }
            Message::Request(..) => {}
        }
    }

    /// The store grants the key, or goes on to. One that comes too late is of no use.
    fn granted(
        &mut self,
        rules: &Rules,
        name: Name,
        (from, sent, for_s): (u8, u8, u8),
        mut token: u64,
        is_downgrade: bool,
    ) {
        let at = usize::from(name.0);
        let mut good = SECOND * u32::from(for_s);
        if !rules.has_margin {
            good += margin(good) * 2;
        }
        let mut new = LeaseClock::start(own(from), good);
        let (mut of, mut mode, mut downgrades) = (sent, rules.modes[at], false);
        let is_ended = name != self.name(at) || matches!(self.parties[at].stand, Stand::Away);
        if let Stand::Holding { lease, sent: last, token: under, mode: has, downgrades: asked } =
            self.parties[at].stand
        {
            new = lease;
            new.renewed(own(from), good);
            // An older answer may come after a newer one.
            (of, token) = (last.max(sent), token.max(under));
            (mode, downgrades) = (has, asked && !is_downgrade);
        }
        if is_downgrade {
            mode = Mode::Shared;
        }
        if !new.is_valid(own(self.now)) {
            return;
        }
        self.broken.revived |= is_ended;
        let was = self.parties[at].stand;
        self.parties[at].stand = Stand::Holding { lease: new, sent: of, token, mode, downgrades };
        self.note(was, token, mode);
    }

    /// Somebody holds the key under this token, from now on or as before.
    fn note(&mut self, was: Stand, token: u64, mode: Mode) {
        if !matches!(was, Stand::Holding { token: same, .. } if same == token) {
            let above = if mode == Mode::Exclusive { self.highest } else { self.highest_writer };
            self.broken.tokens |= token <= above;
            self.seen.writer_after |= mode == Mode::Exclusive && self.highest > 0;
        }
        self.highest = self.highest.max(token);
        if mode == Mode::Exclusive {
            self.highest_writer = self.highest_writer.max(token);
        }
        let is_downgraded = |party: &Party| {
            matches!(party.stand, Stand::Holding { downgrades: false, token, mode: Mode::Shared, .. }
                if token == self.highest_writer)
        };
        self.seen.beside_downgraded |=
            self.parties.iter().any(is_downgraded) && self.believers().count() > 1;
    }

    /// Whether all who wait and live come to hold the key. From here on nothing is lost or late,
    /// and a holder gives it back.
    pub(super) fn ends_well(&self, rules: &Rules) -> bool {
        let waits = |party: &Party| !party.is_dead && matches!(party.stand, Stand::Waiting(_));
        let mut wait: Vec<_> = (0..PARTIES).filter(|at| waits(&self.parties[*at])).collect();
        if wait.is_empty() {
            return true;
        }
        let mut world = self.clone();
        for _ in 0..8 {
            while !world.network.is_empty() {
                world.does(rules, Step::Deliver(0));
            }
            for at in 0..PARTIES {
                match world.parties[at].stand {
                    Stand::Holding { .. } if !world.parties[at].is_dead => {
                        wait.retain(|it| *it != at);
                        world.does(rules, Step::End(at));
                    }
                    Stand::Waiting(_) if rules.asks_again && waits(&world.parties[at]) => {
                        world.does(rules, Step::Ask(at));
                    }
                    _ => {}
                }
            }
            if wait.is_empty() {
                return true;
            }
            world.does(rules, Step::Tick);
        }
        false
    }
}
