//! The tokens of one Redis server, explored.
//!
//! One mark for all keys, and the server's clock, must give each holder of a key tokens above those
//! of all before it. [`stateright`] searches a small model to a depth of ten steps, or nine where
//! data are lost: three clients, one key, a few ticks of the clock, and answers, pushes and a
//! master that are lost.
//!
//! - A grant on a free key takes the tokens from `max(clock, mark + 1)` on, and the last of them
//!   becomes the mark.
//! - A renewal takes the holder's block on to `max(clock, mark + 1)`, the mark too.
//! - A release with somebody in line begins the next block behind the last token that the holder
//!   tells of, or as a grant where it tells none. It tells only once.
//! - A lease ends at the server after its holder's own hold is over, whose clock began earlier. A
//!   release by force does not wait for that.
//! - A replica that takes over is as the master was at some time, and has a later clock: a switch
//!   takes longer than a block is ahead of the clock. So does a restart without data. A clock that
//!   was set back has caught up with the mark by then: the two are not searched together. That it
//!   does catch up, `backend/register/tokens.rs` shows, as blocks ahead of the clock are small.
//!
//! Each rule has a switch, and a test which shows that the properties fail without it. Left out:
//! two keys (the mark is only further on), and who is served when.

use stateright::{Checker, HasDiscoveries, Model, Property};

/// Tokens of a grant for which nothing is looked at but whether the key is free.
const BLOCK: u8 = 2;

const CLIENTS: u8 = 3;

const GROWS: &str = "every grant has tokens above those before";
const STALE: &str = "a stale holder's tokens are below those of the grant after it";

#[derive(Clone, Debug)]
struct Rules {
    /// How far the clock goes.
    ticks: u8,
    /// How often it is set back, by three.
    set_back: u8,
    /// How often the server's data, or a part of them, is lost.
    losses: u8,
    /// Whether a renewal moves the mark.
    renewals_are_marked: bool,
    /// Whether a grant looks at the clock, not only at the mark.
    by_the_clock: bool,
    /// Whether the mark is looked at.
    by_the_mark: bool,
    /// Whether a release that is asked again tells no token.
    tells_once: bool,
}

const ALL: Rules = Rules {
    ticks: 5,
    set_back: 0,
    losses: 0,
    renewals_are_marked: true,
    by_the_clock: true,
    by_the_mark: true,
    tells_once: true,
};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Server {
    clock: u8,
    mark: u8,
    holder: Option<u8>,
    line: Vec<u8>,
}

/// The knowledge of a client about its claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Claim {
    None,
    Held {
        next: u8,
        last: u8,
    },
    /// It was released, with this last token told, and not answered.
    Leaving {
        told: u8,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    server: Server,
    /// The part of it that a replica has.
    replica: Option<Server>,
    claims: [Claim; CLIENTS as usize],
    /// The highest token under which somebody held the key.
    highest: u8,
    /// The first of the latest grant, and whose that was.
    latest: (u8, u8),
    set_back: u8,
    losses: u8,
    broken_order: bool,
    broken_stale: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    Attempt {
        client: u8,
        answered: bool,
    },
    Renew {
        client: u8,
        answered: bool,
    },
    /// The next task of the same process has the key.
    HandOn {
        client: u8,
    },
    Release {
        client: u8,
        tells: bool,
        answered: bool,
        heard: bool,
    },
    ReleaseAgain {
        client: u8,
        heard: bool,
    },
    Expire,
    Force {
        heard: bool,
    },
    Tick,
    SetBack,
    Replicate,
    Fail,
    Forget,
}

impl World {
    fn grants(&mut self, client: u8, first: u8, last: u8) {
        self.broken_order |= first <= self.highest;
        (self.highest, self.latest) = (self.highest.max(first), (first, client));
        self.claims[usize::from(client)] = Claim::Held { next: first + 1, last };
    }

    /// Tokens as the server reserves them.
    fn reserve(&mut self, rules: &Rules, used: Option<u8>) -> (u8, u8) {
        let Server { clock, mark, .. } = self.server;
        let clock = if rules.by_the_clock { clock } else { 0 };
        let mark = if rules.by_the_mark { mark + 1 } else { 0 };
        let first = used.map_or(clock.max(mark), |used| used + 1);
        let last = clock.max(mark).max(first + BLOCK - 1);
        self.server.mark = last;
        (first, last)
    }

    /// Gives the key to the head of the line; whether there was one.
    fn promote(&mut self, rules: &Rules, used: Option<u8>, heard: bool) -> bool {
        if self.server.line.is_empty() {
            self.server.holder = None;
            return false;
        }
        let head = self.server.line.remove(0);
        let (first, last) = self.reserve(rules, used);
        self.server.holder = Some(head);
        if heard {
            self.grants(head, first, last);
        }
        true
    }

    fn attempt(&mut self, rules: &Rules, client: u8, answered: bool) {
        let in_line = self.server.line.contains(&client);
        match self.server.holder {
            None if in_line && self.server.line[0] != client => {
                // It hands the key to the head, who asks again if it did not hear.
                self.promote(rules, None, false);
            }
            Some(holder) if holder != client => {
                if !in_line {
                    self.server.line.push(client);
                }
            }
            None | Some(_) => {
                self.server.line.retain(|other| *other != client);
                self.server.holder = Some(client);
                let (first, last) = self.reserve(rules, None);
                if answered {
                    self.grants(client, first, last);
                }
            }
        }
    }

    fn renew(&mut self, rules: &Rules, client: u8, answered: bool) {
        let Claim::Held { next, last } = self.claims[usize::from(client)] else { return };
        if self.server.holder != Some(client) {
            if answered {
                self.claims[usize::from(client)] = Claim::None;
            }
            return;
        }
        let to = self.server.clock.max(self.server.mark + 1);
        if rules.renewals_are_marked {
            self.server.mark = to;
        }
        if answered {
            self.claims[usize::from(client)] = Claim::Held { next, last: last.max(to) };
        }
    }

    fn withdraw(&mut self, rules: &Rules, client: u8, told: Option<u8>, heard: bool) {
        self.server.line.retain(|other| *other != client);
        if self.server.holder == Some(client) {
            self.promote(rules, told, heard);
        }
    }
}

impl Model for Rules {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        let server = Server { clock: 1, mark: 0, holder: None, line: Vec::new() };
        vec![World {
            server,
            replica: None,
            claims: [Claim::None; CLIENTS as usize],
            highest: 0,
            latest: (0, 0),
            set_back: 0,
            losses: 0,
            broken_order: false,
            broken_stale: false,
        }]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        let both = [false, true];
        for client in 0..CLIENTS {
            match world.claims[usize::from(client)] {
                Claim::None => {
                    steps.extend(both.map(|answered| Step::Attempt { client, answered }));
                }
                Claim::Held { next, last } => {
                    steps.extend(both.map(|answered| Step::Renew { client, answered }));
                    if next <= last {
                        steps.push(Step::HandOn { client });
                    }
                    for (tells, answered) in [(true, true), (true, false), (false, true)] {
                        let release = |heard| Step::Release { client, tells, answered, heard };
                        steps.extend(both.map(release));
                    }
                }
                Claim::Leaving { .. } => {
                    steps.extend(both.map(|heard| Step::ReleaseAgain { client, heard }));
                }
            }
        }
        if world.server.holder.is_some() {
            steps.push(Step::Expire);
            steps.extend(both.map(|heard| Step::Force { heard }));
        }
        if world.server.clock < self.ticks {
            steps.push(Step::Tick);
        }
        if world.set_back < self.set_back && world.server.clock > 3 {
            steps.push(Step::SetBack);
        }
        if world.losses < self.losses {
            steps.extend([Step::Replicate, Step::Forget]);
            if world.replica.is_some() {
                steps.push(Step::Fail);
            }
        }
    }

    fn next_state(&self, last: &World, step: Step) -> Option<World> {
        let mut world = last.clone();
        // A switch, or a restart, takes longer than any block is ahead of the clock.
        let later = last.server.clock.max(last.server.mark) + 1;
        match step {
            Step::Attempt { client, answered } => world.attempt(self, client, answered),
            Step::Renew { client, answered } => world.renew(self, client, answered),
            Step::HandOn { client } => {
                let claim = &mut world.claims[usize::from(client)];
                let Claim::Held { next, last } = *claim else { return None };
                *claim = Claim::Held { next: next + 1, last };
                if world.server.holder == Some(client) {
                    world.broken_order |= next <= world.highest;
                    world.highest = world.highest.max(next);
                } else {
                    let (latest, by) = world.latest;
                    world.broken_stale |= by != client && next >= latest;
                    world.highest = world.highest.max(next);
                }
            }
            Step::Release { client, tells, answered, heard } => {
                let Claim::Held { last, .. } = world.claims[usize::from(client)] else {
                    return None;
                };
                world.claims[usize::from(client)] =
                    if answered { Claim::None } else { Claim::Leaving { told: last } };
                world.withdraw(self, client, tells.then_some(last), heard);
            }
            Step::ReleaseAgain { client, heard } => {
                let Claim::Leaving { told } = world.claims[usize::from(client)] else {
                    return None;
                };
                world.claims[usize::from(client)] = Claim::None;
                world.withdraw(self, client, (!self.tells_once).then_some(told), heard);
            }
            Step::Expire => {
                if let Some(holder) = world.server.holder.take() {
                    world.claims[usize::from(holder)] = Claim::None;
                }
            }
            Step::Force { heard } => {
                world.promote(self, None, heard);
            }
            Step::Tick => world.server.clock += 1,
            Step::SetBack => {
                world.server.clock -= 3;
                world.set_back += 1;
            }
            Step::Replicate => world.replica = Some(world.server.clone()),
            Step::Fail => {
                world.server = Server { clock: later, ..world.replica.take()? };
                world.losses += 1;
            }
            Step::Forget => {
                world.server = Server { clock: later, mark: 0, holder: None, line: Vec::new() };
                world.losses += 1;
            }
        }
        (world != *last).then_some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(GROWS, |_, world: &World| !world.broken_order),
            Property::always(STALE, |_, world: &World| !world.broken_stale),
            Property::sometimes("three grants", |_, world: &World| world.highest > 2 * BLOCK),
        ]
    }

    fn within_boundary(&self, world: &World) -> bool {
        world.highest < 16 && world.server.mark < 16
    }
}

fn holds(rules: Rules, depth: usize) {
    let checker = rules.checker().target_max_depth(depth).spawn_dfs().join();
    println!("{} states", checker.unique_state_count());
    checker.assert_properties();
}

fn refutes(rules: Rules, depth: usize) {
    let checker = rules
        .checker()
        .target_max_depth(depth)
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join();
    assert!(checker.discovery(GROWS).is_some() || checker.discovery(STALE).is_some());
}

#[test]
fn tokens_grow_over_expiry_hand_off_force_and_lost_answers() {
    holds(ALL, 12);
}

#[test]
fn they_grow_whatever_the_clock_does_while_the_data_are_there() {
    holds(Rules { set_back: 1, ..ALL }, 12);
}

#[test]
fn they_grow_over_a_loss_of_data_while_the_clock_goes_on() {
    holds(Rules { losses: 1, ..ALL }, 11);
}

#[test]
fn without_the_mark_a_clock_that_is_set_back_takes_them_back() {
    refutes(Rules { set_back: 1, by_the_mark: false, ..ALL }, 9);
}

#[test]
fn without_the_clock_a_loss_of_data_takes_them_back() {
    refutes(Rules { losses: 1, by_the_clock: false, ..ALL }, 8);
}

#[test]
fn a_renewal_that_leaves_the_mark_gives_the_next_holder_tokens_that_are_used() {
    refutes(Rules { renewals_are_marked: false, ..ALL }, 9);
}

#[test]
fn a_last_token_that_is_told_twice_is_given_twice_after_a_failover() {
    refutes(Rules { losses: 1, tells_once: false, ..ALL }, 12);
}
