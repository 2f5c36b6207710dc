//! Several processes and one register of the key between them, with requests that take their time,
//! and replies that get lost: what all of them together hold is looked at after each event.

use std::cell::{Cell, RefCell};

use proptest::prelude::*;

use super::super::*;
use super::world::{fault, ms};
use crate::backend::register::{Place as Card, Register, Turn};
use crate::backend::{Change, ClaimId, Renewal};
use crate::ground::clock;

const PROCESSES: usize = 3;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Request {
    Attempt,
    Renew,
    Downgrade,
}

/// The claim that a driver has open in one lane, and its requests.
#[derive(Debug, Default)]
struct Lane {
    claim: Option<(ClaimId, Terms)>,
    asking: Option<(Request, Instant)>,
    leaving: Option<(ClaimId, Option<u32>)>,
    looked_at: Option<Instant>,
}

#[derive(Debug)]
struct Process {
    cohort: Cohort<u32, u32>,
    lanes: Vec<Lane>,
    is_driven: bool,
    is_poked: bool,
    wait: Option<Instant>,
    driven_at: Option<Instant>,
    waiting: Vec<(u32, SeatId, Mode)>,
    told: Vec<(SeatId, Mode)>,
    guards: Vec<(u64, Mode)>,
}

/// The fate of a request.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fate {
    Served,
    /// It is served, and its reply is lost.
    Unheard,
    /// It does not arrive.
    Lost,
}

struct Fleet {
    processes: Vec<Process>,
    register: Register<ClaimId>,
    epoch: Instant,
    now: Instant,
    minted: Cell<u64>,
    names: u32,
}

impl Fleet {
    fn new() -> Self {
        let process = || Process {
            cohort: Cohort::new(),
            lanes: vec![Lane::default()],
            is_driven: false,
            is_poked: false,
            wait: None,
            driven_at: None,
            waiting: Vec::new(),
            told: Vec::new(),
            guards: Vec::new(),
        };
        let (processes, now) = ((0..PROCESSES).map(|_| process()).collect(), clock::now());
        let (register, minted, names) = (Register::default(), Cell::new(0), 0);
        Self { processes, register, epoch: now, now, minted, names }
    }

    fn name(&mut self) -> u32 {
        self.names += 1;
        self.names
    }

    fn apply(&mut self, at: usize, fx: Effects<u32, u32>) {
        let process = &mut self.processes[at];
        process.is_driven |= fx.spawn;
        process.is_poked |= fx.poke || fx.spawn;
        let more = fx.wake_more.into_iter().map(|waking| match waking {
            Waking::Wake(name) => name,
            Waking::End(name) => panic!("{name} watches a hold"),
        });
        for name in fx.wake.into_iter().map(|(_, name)| name).chain(more) {
            let at = process.waiting.iter().position(|(other, ..)| *other == name);
            let (_, seat, mode) = process.waiting.remove(at.expect("one who waits"));
            process.told.push((seat, mode));
        }
    }

    fn enter(&mut self, at: usize, mode: Mode, wait: Duration, queues: bool, lease: Duration) {
        let name = self.name();
        let terms = Terms { mode, tokens_max: 4, queues, ..Terms::exclusive(lease) };
        let ask = Ask {
            deadline: self.now + wait,
            budget: wait,
            admission: false,
            waiters_max: 8,
            hold_limit: None,
            linger: Duration::ZERO,
            min_hold: Duration::ZERO,
            handoffs_max: 3,
            slice: ms(20),
            name: Default::default(),
            terms,
        };
        let mut fx = Effects::none();
        let entry = self.processes[at].cohort.enter(&ask, self.now, || name, &mut fx);
        match entry {
            Entry::Granted(token) => self.processes[at].guards.push((token, mode)),
            Entry::Seated(seat) => self.processes[at].waiting.push((name, seat, mode)),
            _ => {}
        }
        self.apply(at, fx);
        if let Entry::Seated(seat) = entry
            && !matches!(self.processes[at].cohort.poll(seat, self.now, |_| {}), Verdict::Waiting)
        {
            self.processes[at].waiting.retain(|(other, ..)| *other != name);
        }
    }

    fn read(&mut self, at: usize, nth: usize) {
        let process = &mut self.processes[at];
        let (seat, mode) = process.told.remove(nth);
        match process.cohort.poll(seat, self.now, |_| panic!("it was told")) {
            Verdict::Granted(token) | Verdict::TooLate(token) => {
                process.guards.push((token, mode));
            }
            _ => {}
        }
    }

    fn release(&mut self, at: usize, nth: usize) {
        let (name, mut fx) = (self.name(), Effects::none());
        let (token, _) = self.processes[at].guards.remove(nth);
        drop(self.processes[at].cohort.release(token, || Some(name), self.now, &mut fx));
        self.apply(at, fx);
    }

    fn cancel(&mut self, at: usize, nth: usize) {
        let mut fx = Effects::none();
        let (_, seat, _) = self.processes[at].waiting.remove(nth);
        let _: Option<u32> = self.processes[at].cohort.cancel(seat, self.now, &mut fx);
        self.apply(at, fx);
    }

    fn downgrade(&mut self, at: usize, nth: usize) {
        let process = &mut self.processes[at];
        let (token, mode) = process.guards[nth];
        if process.cohort.downgrade(token).is_ok() && mode == Mode::Exclusive {
            process.guards[nth].1 = Mode::Shared;
            process.is_poked = true;
        }
    }

    /// Runs the driver of a process until all its lanes wait.
    fn drive(&mut self, at: usize) {
        while std::mem::take(&mut self.processes[at].is_poked) && self.processes[at].is_driven {
            self.processes[at].wait = None;
            self.processes[at].driven_at = Some(self.now);
            let (mut lane, mut is_idle) = (0, false);
            loop {
                while self.processes[at].lanes.len() <= lane {
                    self.processes[at].lanes.push(Lane::default());
                }
                let is_over = self.drive_lane(at, lane);
                is_idle = if lane == 0 { is_over } else { is_idle };
                let Process { cohort, lanes, .. } = &mut self.processes[at];
                let leaves = lanes.iter().any(|lane| lane.leaving.is_some());
                match cohort.next_lane(self.now, leaves) {
                    Some(next) => lane = next,
                    None => break,
                }
            }
            let Process { cohort, wait, lanes, .. } = &mut self.processes[at];
            is_idle &= lanes.iter().all(|lane| lane.leaving.is_none());
            *wait = wait.iter().copied().chain(cohort.wakes_at(self.now)).min();
            if is_idle && self.processes[at].cohort.retire(true) {
                let process = &mut self.processes[at];
                assert!(process.waiting.is_empty() && process.lanes.iter().all(Lane::is_over));
                assert!(process.cohort.opened() == 1 && process.cohort.holder().is_none());
                while !self.processes[at].told.is_empty() {
                    self.read(at, 0);
                }
                while !self.processes[at].guards.is_empty() {
                    self.release(at, 0);
                }
                let process = &mut self.processes[at];
                process.cohort = Cohort::new();
                process.lanes.truncate(1);
                (process.is_driven, process.wait, process.is_poked) = (false, None, false);
            }
        }
    }

    fn drive_lane(&mut self, at: usize, lane: usize) -> bool {
        for _ in 0..100 {
            let mut fx = Effects::none();
            let Process { cohort, lanes, .. } = &mut self.processes[at];
            let leaves = lanes.iter().any(|lane| lane.leaving.is_some());
            let open = &mut lanes[lane];
            open.looked_at = Some(self.now);
            let leaving = open.leaving.is_some() || (leaves && open.claim.is_none());
            let asking = open.asking.is_some();
            let step = cohort.step(lane, self.now, asking, leaving, &mut fx);
            match step {
                Step::Open(terms) => {
                    assert!(open.claim.is_none() && !asking);
                    self.names += 1;
                    open.claim = Some((ClaimId::from_bits(self.names.into()), terms));
                    open.asking = Some((Request::Attempt, self.now));
                }
                Step::Attempt => open.asking = Some((Request::Attempt, self.now)),
                Step::Renew | Step::Downgrade => {
                    assert!(!asking, "two requests of one claim at once");
                    let is_renewal = matches!(step, Step::Renew);
                    let request = if is_renewal { Request::Renew } else { Request::Downgrade };
                    cohort.renewing(lane, self.now);
                    open.asking = Some((request, self.now));
                }
                Step::Leave { reply, .. } => {
                    assert!(!asking && !leaving);
                    open.leaving = open.claim.take().map(|(claim, _)| (claim, reply));
                }
                Step::Inspect => {}
                Step::Forget => open.claim = None,
                Step::Wait { until, .. } => {
                    assert!(until.is_none_or(|until| until > self.now), "it waits for what was");
                    if lane == 0 {
                        self.processes[at].wait = until;
                    }
                    self.apply(at, fx);
                    return false;
                }
                Step::Stop => {
                    self.apply(at, fx);
                    return true;
                }
            }
            self.apply(at, fx);
        }
        panic!("the driver spins: {:?}", self.processes[at])
    }

    /// Asks the register, and pushes what it wakes.
    fn turn<A>(&mut self, ask: impl FnOnce(&mut Register<ClaimId>, &Turn<'_, ClaimId>) -> A) -> A {
        let (minted, woken) = (&self.minted, RefCell::new(Vec::new()));
        let mint = |_: Option<u64>, count: u32| {
            let first = minted.get() + 1;
            minted.set(minted.get() + u64::from(count));
            TokenBlock::new(first, minted.get())
        };
        let wake = |claim: &ClaimId| woken.borrow_mut().push(*claim);
        let now = self.now - self.epoch;
        let turn = Turn { now, mint: &mint, wake: &wake, may_grant: true };
        let answer = ask(&mut self.register, &turn);
        for claim in woken.into_inner() {
            for process in &mut self.processes {
                let is_it = |lane: &Lane| lane.claim.is_some_and(|(other, _)| other == claim);
                if let Some(lane) = process.lanes.iter().position(is_it) {
                    process.cohort.changed(lane, Change::Here, self.now);
                    process.is_poked = true;
                }
            }
        }
        answer
    }

    /// The request under way in a lane ends.
    fn serve(&mut self, at: usize, lane: usize, fate: Fate) {
        if self.processes[at].lanes[lane].asking.is_some() {
            self.serve_asked(at, lane, fate);
        } else if let Some((claim, _)) = self.processes[at].lanes[lane].leaving {
            // It goes on until it was served.
            if fate != Fate::Lost {
                self.turn(|register, turn| register.withdraw(claim, turn));
                self.processes[at].lanes[lane].leaving = None;
                self.processes[at].cohort.look_at(lane);
                self.processes[at].is_poked = true;
            }
        }
    }

    fn serve_asked(&mut self, at: usize, lane: usize, fate: Fate) {
        let open = &mut self.processes[at].lanes[lane];
        let Some((request, sent)) = open.asking.take() else { return };
        let Some((claim, Terms { lease, mode, tokens_max, queues, .. })) = open.claim else {
            panic!("a request without a claim")
        };
        let mut fx = Effects::none();
        if request == Request::Attempt {
            let card = Card { claim, mode, lease, tokens_max, due: None, with: claim };
            let answer = match fate {
                Fate::Lost => Err(fault()),
                _ => self
                    .turn(|register, turn| register.attempt(card, queues, turn))
                    .map_err(|other| Fault::other_limit(other.0)),
            };
            let answer = if fate == Fate::Unheard { Err(fault()) } else { answer };
            let cohort = &mut self.processes[at].cohort;
            cohort.attempted(lane, sent, answer, self.now, |_| ms(30), &mut fx);
        } else {
            let answer = match fate {
                Fate::Lost => Err(fault()),
                _ => Ok(self.turn(|register, turn| match request {
                    Request::Downgrade => register.downgrade(claim, lease, turn),
                    _ => register.renew(claim, lease, true, turn),
                })),
            };
            let answer: Result<Renewal, _> =
                if fate == Fate::Unheard { Err(fault()) } else { answer };
            self.processes[at].cohort.renewed(lane, sent, answer, self.now, &mut fx);
        }
        self.apply(at, fx);
        self.processes[at].is_poked = true;
    }

    /// Time goes on, and each driver is woken when it wants to be.
    fn advance(&mut self, by: Duration) {
        let end = self.now + by;
        loop {
            let next = self.processes.iter().filter_map(|process| process.wait).min();
            let Some(next) = next.filter(|next| *next <= end) else { break };
            self.now = next.max(self.now);
            for at in 0..PROCESSES {
                if self.processes[at].wait.is_some_and(|wait| wait <= self.now) {
                    self.processes[at].is_poked = true;
                    self.drive(at);
                }
            }
            self.check();
        }
        self.now = end;
    }

    /// Nobody who was not poked has anything to do. Who holds the key, all together, is compatible.
    fn check(&mut self) {
        for process in &mut self.processes {
            process.rests(self.now);
            process.asks_soon(self.now);
        }
        let mut held = Vec::new();
        for process in &self.processes {
            let of = |holder: &Holder| {
                process.cohort.held_until(holder.token, self.now)?;
                // As its guard believes, once there is one.
                let guard = process.guards.iter().find(|(token, _)| *token == holder.token);
                let mode = guard.map(|(_, mode)| *mode);
                let mode = mode.or_else(|| process.cohort.mode_of(holder.token))?;
                Some((holder.token, mode, process.cohort.slot_of(holder.token)))
            };
            held.extend(process.cohort.holders().filter_map(of));
            process.check();
        }
        let Some((_, mode, _)) = held.first().copied() else { return };
        assert!(held.iter().all(|(_, other, _)| *other == mode), "{held:?}");
        let most = match mode {
            Mode::Exclusive => 1,
            Mode::Shared => usize::MAX,
            Mode::Permit { of } => of as usize,
        };
        assert!(held.len() <= most, "{held:?}");
        for (at, (token, _, slot)) in held.iter().enumerate() {
            for (other, _, other_slot) in &held[at + 1..] {
                assert_ne!(token, other);
                assert!(mode == Mode::Shared || slot != other_slot, "{held:?}");
            }
        }
    }

    /// Everything goes well from here on, and all come to rest.
    fn finish(&mut self) {
        for _ in 0..2_000 {
            for at in 0..PROCESSES {
                self.drive(at);
                while !self.processes[at].told.is_empty() {
                    self.read(at, 0);
                }
                if !self.processes[at].guards.is_empty() {
                    self.release(at, 0);
                }
                self.drive(at);
                for lane in 0..self.processes[at].lanes.len() {
                    self.serve(at, lane, Fate::Served);
                }
                self.drive(at);
                self.check();
            }
            self.advance(ms(5));
            if self.processes.iter().all(|process| !process.is_driven) {
                break;
            }
        }
        assert!(self.processes.iter().all(|it| !it.is_driven), "{:?}", self.processes);
        assert!(self.register.is_idle(self.now - self.epoch), "{:?}", self.register);
    }
}

impl Process {
    /// Nothing is left undone. What time alone has changed since a lane was looked at, as the end of a
    /// slice, is for its timer.
    fn rests(&mut self, now: Instant) {
        if !self.is_driven || self.is_poked || self.driven_at != Some(now) {
            return;
        }
        let leaves = self.lanes.iter().any(|lane| lane.leaving.is_some());
        for (at, lane) in self.lanes.iter().enumerate() {
            let leaving = lane.leaving.is_some() || (leaves && lane.claim.is_none());
            let asking = lane.asking.is_some();
            let (mut fx, then) = (Effects::none(), lane.looked_at.unwrap_or(now));
            let step = self.cohort.step(at, then, asking, leaving, &mut fx);
            assert!(
                matches!(step, Step::Wait { .. } | Step::Stop),
                "left undone in lane {at}: {step:?}, {self:?}"
            );
            assert!(!fx.poke, "it pokes itself");
            assert_eq!(fx.changes.granted, 0, "somebody could have had it");
        }
    }

    /// A waiter who could be let in beside those who hold the key, but for the wish of another
    /// process, is not left to wait for longer than that process would: it may have given up.
    fn asks_soon(&self, now: Instant) {
        let Some(held) = self.cohort.held_in(0).filter(|held| held.holder.is_some()) else {
            return;
        };
        let head = self.cohort.line.first();
        let waits = head.is_some_and(|head| held.mode == Mode::Shared && held.suits(&head.ask));
        let is_good = !held.is_over() && !held.has_failed() && !held.is_used_up() && !self.is_poked;
        if waits && is_good && self.is_driven && self.lanes[0].asking.is_none() {
            let soon = now + held::ASK_AGAIN;
            assert!(self.wait.is_some_and(|wait| wait <= soon), "it is left to wait: {self:?}");
        }
    }

    /// Its claims are of one mode, no more than that has, and ask for nobody who left.
    fn check(&self) {
        let terms: Vec<_> = self.lanes.iter().filter_map(|lane| Some(lane.claim?.1)).collect();
        let Some(Terms { mode, .. }) = terms.first() else { return };
        let most = if let Mode::Permit { of } = mode { *of as usize } else { 1 };
        assert!(terms.len() <= most && terms.iter().all(|other| other.mode == *mode), "{terms:?}");
        // One that is to leave waits for the claim that leaves before it.
        let asks = |lane: &&Lane| {
            matches!(lane.asking, Some((Request::Attempt, _))) || lane.leaving.is_some()
        };
        let under_way = self.lanes.iter().filter(asks).count();
        let asking = self.cohort.asking();
        assert!(self.is_poked || asking <= self.waiting.len() + under_way, "in line for nobody");
        self.check_counts();
    }

    /// The counts over all lanes are those of the lanes.
    fn check_counts(&self) {
        let cohort = &self.cohort;
        let places = || (0..cohort.opened()).filter_map(|lane| cohort.place(lane));
        let held = |place: &Phase<u32>| matches!(place, Phase::Held(it) if it.holder.is_some());
        let asks = |place: &Phase<u32>| matches!(place, Phase::Asking(_));
        let in_line = |place: &Phase<u32>| matches!(place, Phase::Asking(it) if it.is_in_line());
        let renews = |place: &Phase<u32>| matches!(place, Phase::Held(it) if it.is_renewing());
        assert_eq!(cohort.asking(), places().filter(|place| asks(place)).count());
        assert_eq!(cohort.busy(), places().filter(|it| held(it) || in_line(it)).count());
        assert_eq!(cohort.is_renewing(), places().any(renews));
        assert_eq!(cohort.holder().is_some(), cohort.holders().next().is_some());
        assert_eq!(cohort.held_here(), cohort.holders().count());
        for holder in cohort.holders() {
            assert_eq!(cohort.hold_of(holder.token).map(|it| it.1.token), Some(holder.token));
        }
        for (lane, place) in places().enumerate() {
            assert!(place.mode().is_none_or(|mode| cohort.open_mode() == Some(mode)), "{lane}");
        }
    }
}

impl Lane {
    fn is_over(&self) -> bool {
        self.claim.is_none() && self.asking.is_none() && self.leaving.is_none()
    }
}

#[derive(Debug, Clone)]
enum Event {
    Enter { mode: Mode, wait: u64, queues: bool, lease: u64 },
    Read(usize),
    Release(usize),
    Cancel(usize),
    Downgrade(usize),
    Serve(usize, Fate),
    Drive,
    Advance(u64),
}

fn event() -> impl Strategy<Value = (usize, Event)> {
    let mode = prop_oneof![
        2 => Just(Mode::Shared),
        2 => Just(Mode::Exclusive),
        4 => Just(Mode::Permit { of: 3 }),
        1 => Just(Mode::Permit { of: 2 }),
    ];
    let lease = prop_oneof![4 => Just(900_u64), 1 => Just(1_800), 1 => Just(9_000)];
    let fate =
        prop_oneof![8 => Just(Fate::Served), 1 => Just(Fate::Unheard), 1 => Just(Fate::Lost)];
    let event = prop_oneof![
        6 => (mode, 1_u64..4_000, prop::bool::weighted(0.85), lease)
            .prop_map(|(mode, wait, queues, lease)| Event::Enter { mode, wait, queues, lease }),
        5 => (0_usize..8).prop_map(Event::Read),
        5 => (0_usize..8).prop_map(Event::Release),
        1 => (0_usize..8).prop_map(Event::Cancel),
        1 => (0_usize..8).prop_map(Event::Downgrade),
        9 => (0_usize..8, fate).prop_map(|(lane, fate)| Event::Serve(lane, fate)),
        3 => Just(Event::Drive),
        3 => (0_u64..60).prop_map(Event::Advance),
        1 => (60_u64..1_500).prop_map(Event::Advance),
    ];
    (0..PROCESSES, event)
}

fn happen(fleet: &mut Fleet, at: usize, event: &Event) {
    let process = &fleet.processes[at];
    let (told, waiting) = (process.told.len(), process.waiting.len());
    let (guards, lanes) = (process.guards.len(), process.lanes.len());
    match *event {
        Event::Enter { mode, wait, queues, lease } => {
            fleet.enter(at, mode, ms(wait), queues, ms(lease));
        }
        Event::Read(nth) if told > 0 => fleet.read(at, nth % told),
        Event::Release(nth) if guards > 0 => fleet.release(at, nth % guards),
        Event::Cancel(nth) if waiting > 0 => fleet.cancel(at, nth % waiting),
        Event::Downgrade(nth) if guards > 0 => fleet.downgrade(at, nth % guards),
        Event::Serve(nth, fate) => fleet.serve(at, nth % lanes, fate),
        Event::Drive => fleet.drive(at),
        Event::Advance(by) => fleet.advance(ms(by)),
        Event::Read(_) | Event::Release(_) | Event::Cancel(_) | Event::Downgrade(_) => {}
    }
}

fn cases() -> ProptestConfig {
    let config = ProptestConfig::default();
    ProptestConfig { cases: config.cases.max(1_000), failure_persistence: None, ..config }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn over_processes_only_compatible_holds_are_good_and_nothing_is_left(
        events in prop::collection::vec(event(), 1..200),
        at_once in any::<bool>(),
    ) {
        let mut fleet = Fleet::new();
        for (at, event) in events {
            happen(&mut fleet, at, &event);
            if at_once {
                (0..PROCESSES).for_each(|at| fleet.drive(at));
            }
            fleet.check();
        }
        fleet.finish();
    }
}

/// A claim that may wait is opened beside one of its process that leaves; one that may not is not.
#[test]
fn with_one_who_may_wait_those_before_it_have_their_claims_at_once() {
    let permit = Mode::Permit { of: 3 };
    let enter = |mode, wait, queues| Event::Enter { mode, wait, queues, lease: 900 };
    let mut fleet = Fleet::new();
    for event in [
        enter(permit, 940, false),
        enter(permit, 940, false),
        // The answer comes when the lease is over.
        Event::Advance(889),
        Event::Serve(1, Fate::Served),
        enter(Mode::Shared, 51, true),
    ] {
        happen(&mut fleet, 0, &event);
        fleet.drive(0);
        fleet.check();
    }
    fleet.finish();
}

/// A claim that was granted when nobody waited any more, and behind one that leaves still, has no
/// timer. Somebody comes by, and takes it.
#[test]
fn one_who_takes_a_claim_that_was_to_be_given_back_has_it_renewed() {
    let permit = Mode::Permit { of: 3 };
    let enter = |wait, lease| Event::Enter { mode: permit, wait, queues: false, lease };
    let mut fleet = Fleet::new();
    for event in [
        enter(1, 900),
        Event::Drive,
        Event::Serve(0, Fate::Served),
        Event::Read(0),
        Event::Advance(95),
        enter(206, 9_000),
        Event::Enter { mode: Mode::Shared, wait: 206, queues: true, lease: 900 },
        Event::Release(0),
        Event::Advance(3_205),
        Event::Serve(0, Fate::Served),
        Event::Drive,
        enter(1, 900),
    ] {
        happen(&mut fleet, 1, &event);
        fleet.check();
    }
    fleet.finish();
}
