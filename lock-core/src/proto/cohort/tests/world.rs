//! A driver and some waiters around the machine, on a virtual clock, that check at every turn what
//! must hold at all times. The store is in [`store`](super::store).

use std::collections::VecDeque;

use super::super::*;
use crate::backend::{FaultKind, Mode};
use crate::ground::clock;

pub(super) const LEASE: Duration = Duration::from_millis(900);
/// More turns than any step of the driver can need.
const TURNS_MAX: u32 = 1_000;

/// The terms of one who asks for this lease, and nothing else.
pub(super) fn lasting(lease: Duration) -> Terms {
    Terms { tokens_max: 8, ..Terms::exclusive(lease) }
}

/// The same, and that so many replicas acknowledge the grant in this time.
pub(super) fn replicated(lease: Duration, count: u32, timeout: Duration) -> Terms {
    let replicas = (count > 0).then_some(Replicas { count, timeout });
    Terms { replicas, ..lasting(lease) }
}

pub(super) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub(super) fn fault() -> Fault {
    Fault::new(FaultKind::Transient, "no answer")
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Request {
    Attempt,
    Renew,
}

/// Everything around one cohort. Waiters and releases are numbered.
#[derive(Debug)]
pub(super) struct World {
    pub(super) cohort: Cohort<u32, u32>,
    pub(super) now: Instant,
    /// Some want to share the key.
    pub(super) shares: bool,
    /// Holds that began and did not end, as those who watch were told.
    holds: usize,
    /// Until when the key stays taken, as its last holder wished.
    rests: Option<Instant>,
    pub(super) driven: bool,
    pub(super) poked: bool,
    /// The wait of the driver, with its end if it has one, and whether it listens for pushes.
    pub(super) wait: Option<Option<Instant>>,
    pub(super) listens: bool,
    pub(super) asking: Option<(Request, Instant)>,
    /// A withdrawal under way, and the release it answers.
    pub(super) leaving: Option<Option<u32>>,
    /// The leases of the claims that were opened.
    pub(super) opened: Vec<Duration>,
    /// When the store was asked who holds the key.
    pub(super) inspected: Vec<Instant>,
    /// A grant is good for this part of the lease of its claim.
    pub(super) part: u32,
    /// A renewal that was sent for those in line is being answered.
    pub(super) refilled: bool,
    /// In the line, in their order of arrival.
    pub(super) waiting: VecDeque<(u32, SeatId, Ask)>,
    /// With a verdict that was not read.
    pub(super) told: Vec<(u32, SeatId)>,
    /// Guards that were not released.
    pub(super) guards: Vec<u64>,
    /// Releases that were not answered.
    pub(super) unanswered: Vec<u32>,
    pub(super) timed_out: u32,
    /// Refusals because waiting was of no use.
    pub(super) refused: u32,
    /// The watchers of holds, and those of them that were told since.
    watching: Vec<u32>,
    pub(super) heard: Vec<u32>,
    names: u32,
    /// The last token that the store gave away, and the last that anybody was granted.
    pub(super) given: u64,
    granted: u64,
    /// Since when the machine knows that others wait, and the hand-offs since.
    pub(super) wanted: Option<(Instant, u32)>,
    handoffs: u64,
    /// The store's word in its answers: somebody asked the holder to give the key up.
    pub(super) revoke: bool,
    /// The machine knows so of its claim.
    pub(super) revoked: bool,
    /// The machine knows that the store has no more tokens for its claim.
    pub(super) spent: bool,
    /// The store pushed something since the last renewal.
    pub(super) pushed: bool,
}

/// An exclusive ask that may stand in line.
pub(super) fn ask(now: Instant, wait: Duration) -> Ask {
    Ask {
        deadline: now + wait,
        budget: wait,
        admission: false,
        waiters_max: 9,
        hold_limit: None,
        linger: Duration::ZERO,
        min_hold: Duration::ZERO,
        handoffs_max: 64,
        slice: ms(20),
        name: Default::default(),
        terms: lasting(LEASE),
    }
}

impl World {
    pub(super) fn new() -> Self {
        Self {
            cohort: Cohort::new(),
            now: clock::now(),
            shares: false,
            holds: 0,
            rests: None,
            driven: false,
            poked: false,
            wait: None,
            listens: false,
            asking: None,
            leaving: None,
            opened: Vec::new(),
            inspected: Vec::new(),
            part: 1,
            refilled: false,
            waiting: VecDeque::new(),
            told: Vec::new(),
            guards: Vec::new(),
            unanswered: Vec::new(),
            timed_out: 0,
            refused: 0,
            watching: Vec::new(),
            heard: Vec::new(),
            names: 0,
            given: 0,
            granted: 0,
            wanted: None,
            handoffs: 0,
            revoke: false,
            revoked: false,
            spent: false,
            pushed: false,
        }
    }

    pub(super) fn ask(&self, wait: Duration) -> Ask {
        ask(self.now, wait)
    }

    fn name(&mut self) -> u32 {
        self.names += 1;
        self.names
    }

    /// Does with the effects what the caller of the machine does, and checks them.
    pub(super) fn apply(&mut self, fx: Effects<u32, u32>) {
        assert!(!(fx.spawn && self.driven), "a second driver");
        self.holds += fx.changes.granted as usize;
        self.holds -= fx.changes.ended().count();
        assert_eq!(self.holds, self.cohort.holders().count(), "holds as counted");
        self.driven |= fx.spawn;
        self.poked |= fx.poke || fx.spawn;
        let mut readers = Vec::new();
        for waking in fx.wake_more {
            let name = match waking {
                Waking::Wake(name) => name,
                Waking::End(name) => {
                    self.watching.retain(|other| *other != name);
                    continue;
                }
            };
            if let Some(at) = self.watching.iter().position(|other| *other == name) {
                self.heard.push(self.watching.swap_remove(at));
                continue;
            }
            let at = self.waiting.iter().position(|(other, ..)| *other == name);
            let (name, seat, ask) = self.waiting.remove(at.expect("in line")).expect("in line");
            self.told.push((name, seat));
            if self.is_granted(seat) {
                self.is_next(at.expect("in line"), &ask);
                readers.push(ask);
            }
        }
        if let Some((_, next)) = fx.wake {
            let (name, seat, ask) = self.waiting.pop_front().expect("somebody in line was granted");
            assert_eq!(name, next, "the longest waiting is next");
            self.told.push((name, seat));
            self.is_next(0, &ask);
            readers.push(ask);
        }
        self.handed_on(&readers);
        if let Some((release, _)) = fx.reply {
            self.answered(release);
        }
        let tokens = self.cohort.holders().map(|holder| holder.token);
        let newest = tokens.max().unwrap_or(0);
        if self.holds == 1 && newest != self.granted && !readers.is_empty() {
            assert!(newest > self.granted, "token {newest} after {}", self.granted);
        }
        self.granted = self.granted.max(newest);
    }

    fn is_granted(&self, seat: SeatId) -> bool {
        let seat = self.cohort.line.get(seat);
        matches!(seat.map(|seat| &seat.state), Some(SeatState::Over(Verdict::Granted(_))))
    }

    /// Nobody who waits on stood before one who was granted the key and stood at `at`.
    fn is_next(&mut self, at: usize, ask: &Ask) {
        for (name, seat, _) in self.waiting.iter().take(at) {
            let state = self.cohort.line.get(*seat).map(|seat| &seat.state);
            assert!(!matches!(state, Some(SeatState::Waiting(_))), "{name} was overtaken");
        }
        self.has_what_was_asked_for(ask);
    }

    /// The claim has the mode that the one who is given it wants. It has a lease as long, and as
    /// many replicas have the grant.
    fn has_what_was_asked_for(&mut self, ask: &Ask) {
        assert!(self.rests.is_none_or(|until| self.now >= until), "granted while it rests");
        self.rests = (!ask.min_hold.is_zero()).then(|| self.now + ask.min_hold);
        let Phase::Held(held) = &self.cohort.place else { panic!("a grant without a claim") };
        assert_eq!(ask.terms.mode, held.mode, "{ask:?}");
        assert!(ask.terms.lease <= held.lease, "{ask:?}: only {:?}", held.lease);
        let has = held.replicas().map_or(0, |replicas| replicas.count);
        assert!(ask.terms.replicas.is_none_or(|wanted| wanted.count <= has), "{ask:?}: only {has}");
    }

    /// At least half of that lease is left, unless the store was asked for it just now.
    fn is_fresh_for(&self, ask: &Ask) {
        assert!(self.refilled || self.has_half_of(ask), "the rest of a lease for {ask:?}");
    }

    fn has_half_of(&self, ask: &Ask) -> bool {
        let Phase::Held(held) = &self.cohort.place else { panic!("a grant without a claim") };
        held.clock.has_half_of(ask.terms.lease, self.now)
    }

    /// The fairness bounds, for grants that came from other tasks here. Of several readers that
    /// were let in together, the store may have granted it to the first.
    fn handed_on(&mut self, granted: &[Ask]) {
        let handoffs = self.cohort.counters().handoffs_local;
        let passed = usize::try_from(handoffs - self.handoffs).expect("a few");
        self.handoffs = handoffs;
        assert!(passed <= granted.len());
        for ask in &granted[granted.len() - passed..] {
            self.is_fresh_for(ask);
            self.is_within_bounds(ask);
        }
    }

    fn is_within_bounds(&mut self, ask: &Ask) {
        assert!(!self.revoked, "handed on here though somebody asked for the key");
        if let Some((since, used)) = &mut self.wanted {
            assert!(*used < ask.handoffs_max, "{used} hand-offs while others wait");
            assert!(self.now - *since < ask.slice, "handed on after the slice");
            *used += 1;
        }
    }

    pub(super) fn answered(&mut self, release: u32) {
        let at = self.unanswered.iter().position(|other| *other == release);
        self.unanswered.swap_remove(at.expect("a release is answered once"));
    }

    pub(super) fn enter(&mut self, ask: Ask, waiters_max: usize) -> Entry {
        let ask = Ask { waiters_max, ..ask };
        let (name, mut fx) = (self.name(), Effects::none());
        let entry = self.cohort.enter(&ask, self.now, || name, &mut fx);
        match entry {
            Entry::Granted(token) => {
                assert!(self.waiting.is_empty(), "nobody is overtaken");
                self.has_what_was_asked_for(&ask);
                self.is_fresh_for(&ask);
                if self.cohort.holders().count() > 1 {
                    self.is_within_bounds(&ask);
                } else {
                    let kept = self.wanted.is_some() || self.revoked;
                    assert!(!kept, "an idle key that others want is not kept");
                }
                self.handoffs = self.cohort.counters().handoffs_local;
                self.guards.push(token);
            }
            Entry::Seated(seat) => {
                assert!(self.cohort.waiters() <= waiters_max, "more in line than it may join");
                self.waiting.push_back((name, seat, ask));
            }
            Entry::Full(waiters) => assert!(waiters >= waiters_max),
            Entry::Refused(overload) => {
                assert!(ask.admission && !self.waiting.is_empty(), "{overload:?}");
                self.refused += 1;
            }
            Entry::Closed | Entry::Retired => {}
        }
        self.apply(fx);
        if let Entry::Seated(seat) = entry {
            // As the future does: its first poll reads a verdict that was there at once.
            match self.cohort.poll(seat, self.now, |_| {}) {
                Verdict::Waiting => {}
                verdict => {
                    assert!(!ask.terms.queues, "refused at the door: {verdict:?}");
                    self.waiting.retain(|(other, ..)| *other != name);
                }
            }
        }
        entry
    }

    /// A woken waiter reads its verdict.
    pub(super) fn read(&mut self, index: usize) -> Verdict {
        let (_, seat) = self.told.remove(index);
        let over = |_: &mut _| panic!("it was told that its wait is over");
        let verdict = self.cohort.poll(seat, self.now, over);
        match verdict {
            Verdict::Granted(token) | Verdict::TooLate(token) => self.guards.push(token),
            Verdict::TimedOut(_) => self.timed_out += 1,
            Verdict::Refused(_) => self.refused += 1,
            Verdict::Waiting => panic!("woken for nothing"),
            Verdict::Unavailable(_) | Verdict::OtherLimit(_) | Verdict::Closed => {}
        }
        verdict
    }

    /// A waiter goes away, in line or told.
    pub(super) fn cancel(&mut self, index: usize) {
        let seat = if index < self.waiting.len() {
            self.waiting.remove(index).expect("in line").1
        } else {
            self.told.remove(index - self.waiting.len()).1
        };
        if self.is_granted(seat) {
            // Nothing was done under it.
            self.rests = None;
        }
        let mut fx = Effects::none();
        let _: Option<u32> = self.cohort.cancel(seat, self.now, &mut fx);
        self.apply(fx);
    }

    pub(super) fn release(&mut self, index: usize) {
        let (token, name) = (self.guards.remove(index), self.name());
        self.unanswered.push(name);
        let mut fx = Effects::none();
        let answer = self.cohort.release(token, || Some(name), self.now, &mut fx);
        self.apply(fx);
        if answer.is_some() {
            self.answered(name);
        }
    }

    /// Somebody has come, was granted the key by the store, and has let it go.
    pub(super) fn has_let_go(&mut self, ask: Ask) {
        self.enter(ask, super::tables::MAX);
        self.turn();
        self.answer(Some((10_000, false)), true);
        self.turn();
        self.read(0);
        self.release(0);
        self.turn();
    }

    /// The holder wants to know something of its hold.
    pub(super) fn watch(&mut self, index: usize, event: Event) -> u32 {
        let name = self.name();
        let back = self.cohort.watch(self.guards[index], event, &mut None, name);
        if back.is_none() {
            self.watching.push(name);
        }
        name
    }

    /// Runs the driver until it waits.
    pub(super) fn drive(&mut self) {
        if !self.driven {
            return;
        }
        self.poked = false;
        for _ in 0..TURNS_MAX {
            let (asking, leaving) = (self.asking.is_some(), self.leaving.is_some());
            let mut fx = Effects::none();
            let is_good = |held: &Held<u32>| {
                !held.is_over() && held.clock.is_valid(self.now) && !held.revoke_requested
            };
            let was_good = matches!(&self.cohort.place, Phase::Held(held) if is_good(held));
            let step = self.cohort.step(0, self.now, asking, leaving, &mut fx);
            self.apply(fx);
            match step {
                Step::Open(_) | Step::Attempt => {
                    assert!(!asking, "two requests of one claim at once");
                    if let Step::Open(Terms { lease, .. }) = step {
                        self.rests = None;
                        self.opened.push(lease);
                    }
                    self.asking = Some((Request::Attempt, self.now));
                }
                Step::Renew | Step::Downgrade => {
                    assert!(!asking, "two requests of one claim at once");
                    self.check_renewal();
                    self.asking = Some((Request::Renew, self.now));
                }
                Step::Leave { reply, .. } => {
                    assert!(!asking && !leaving, "it leaves while a request is under way");
                    let rests = self.rests.take().is_some_and(|until| self.now < until);
                    assert!(!(was_good && rests), "given back while it rests");
                    (self.leaving, self.wanted) = (Some(reply), None);
                    (self.revoked, self.spent) = (false, false);
                }
                Step::Inspect => self.inspected.push(self.now),
                Step::Forget => assert!(!asking),
                Step::Wait { until, listen } => {
                    (self.wait, self.listens) = (Some(until), listen);
                    return self.check_wait(until);
                }
                Step::Stop => return self.stop(),
            }
        }
        panic!("the driver spins");
    }

    /// A store without further tokens is not asked for them again.
    fn check_renewal(&mut self) {
        let Phase::Held(held) = &self.cohort.place else {
            panic!("it renews what it does not hold")
        };
        let head = self.waiting.front().filter(|_| held.has_room());
        let stale = head.is_some_and(|(_, _, ask)| !self.has_half_of(ask));
        let due = self.now >= held.clock.renew_at() || stale;
        // Or it asks whether the others want the key still, for whose sake somebody here waits.
        let asks = self.pushed || (self.wanted.is_some() && !self.waiting.is_empty());
        // Or whether the hold is there still: it was not renewed while it rested.
        let is_in_doubt = held.standing == Standing::Unconfirmed;
        let due = due || held.outlasts_its_lease() || is_in_doubt;
        assert!(due || !self.spent || asks, "a renewal for tokens that will not come");
        self.pushed = false;
    }

    /// No wake-up is lost, and no seat outlives its deadline.
    fn check_wait(&self, until: Option<Instant>) {
        assert!(until.is_none_or(|until| until > self.now), "it waits for what was");
        let answer_due = self.asking.is_some() || self.leaving.is_some();
        assert!(until.is_some() || answer_due, "it waits for nothing");
        for (_, _, ask) in &self.waiting {
            assert!(ask.deadline > self.now, "a seat without a verdict at its deadline");
            assert!(until.is_some_and(|until| until <= ask.deadline), "it oversleeps a deadline");
        }
        if let Phase::Held(Held { holder: Some(Holder { until: Some(limit), .. }), .. }) =
            &self.cohort.place
        {
            assert!(until.is_some_and(|until| until <= *limit), "it oversleeps a hold limit");
        }
        let in_line = matches!(self.cohort.place, Phase::Asking(_));
        assert!(answer_due || !in_line || !self.waiting.is_empty(), "in line for nobody");
        if let Phase::Held(held) = &self.cohort.place
            && held.holder.is_none()
            && !self.waiting.is_empty()
        {
            let is_given_back = held.is_over() || held.revoke_requested;
            if let Some(rested) = held.rests(self.now).filter(|_| !is_given_back) {
                assert!(until.is_some_and(|until| until <= rested), "it oversleeps a rest");
                return;
            }
            // After a fault the store is left alone for a ninth of the lease.
            let given_back = held.revoke_requested || (self.spent && held.tokens.left() == 0);
            let ninth = self.now + held.lease / 9;
            let soon = !given_back && until.is_some_and(|until| until <= ninth);
            assert!(answer_due || soon, "the lock is idle here, and somebody waits");
        }
    }

    fn stop(&mut self) {
        assert!(self.waiting.is_empty(), "it stops with somebody in line");
        assert!(self.asking.is_none() && self.leaving.is_none(), "it stops with a request");
        assert!(self.cohort.holder().is_none());
        assert!(matches!(self.cohort.place, Phase::Vacant));
        assert!(!self.cohort.has_watchers(), "watchers of a hold that is over");
        assert!(!self.cohort.retire(false), "only the driver may");
        assert!(self.cohort.retire(true));
        let entry = self.cohort.enter(&self.ask(ms(1)), self.now, || 0, &mut Effects::none());
        assert!(matches!(entry, Entry::Retired));
        // The verdicts that were told are read from the old one, as seats hold on to it.
        while !self.told.is_empty() {
            self.read(0);
        }
        while !self.guards.is_empty() {
            self.release(0);
        }
        let lost = self.cohort.more.iter().flat_map(|more| &more.lost).count();
        assert_eq!(lost, 0, "holds that were lost, and that no guard asks about any more");
        self.cohort = Cohort::new();
        (self.driven, self.poked, self.wait, self.handoffs) = (false, false, None, 0);
    }

    /// Lets the driver run if it was poked.
    pub(super) fn turn(&mut self) {
        while self.poked {
            self.drive();
        }
        self.check();
    }

    /// At most one guard is good at any time, but for readers.
    pub(super) fn check(&self) {
        let good = |token: &&u64| self.cohort.held_until(**token, self.now).is_some();
        let is_shared =
            matches!(&self.cohort.place, Phase::Held(held) if held.mode == Mode::Shared);
        assert!(is_shared || self.guards.iter().filter(good).count() <= 1, "two holders");
        assert_eq!(self.cohort.waiters(), self.waiting.len());
        let watched = |token| self.cohort.spot_of(token).is_some();
        let mut watchers = self.cohort.more.iter().flat_map(|more| more.watchers.keys());
        assert!(watchers.all(|(token, _)| watched(*token)));
        let busy = !self.waiting.is_empty() || !matches!(self.cohort.place, Phase::Vacant);
        assert!(!busy || self.driven, "nobody drives");
        if let (true, false, Some(until)) = (self.driven, self.poked, self.wait) {
            // The events since were no reason to wake the driver.
            self.check_wait(until);
        }
    }

    /// Time goes on, and the driver is woken at each instant that it waits for.
    pub(super) fn advance(&mut self, by: Duration) {
        let end = self.now + by;
        while let Some(Some(until)) = self.wait
            && self.driven
            && until <= end
        {
            self.now = until;
            self.drive();
            self.turn();
        }
        self.now = end;
        self.check();
    }

    /// Everything goes well from here on: all waiters are served, all releases answered, and the
    /// machine comes to rest.
    pub(super) fn finish(&mut self) {
        self.revoke = false;
        for _ in 0..10_000 {
            self.turn();
            if !self.driven {
                break;
            }
            while !self.told.is_empty() {
                self.read(0);
            }
            while !self.guards.is_empty() {
                self.release(0);
            }
            self.turn();
            self.answer(Some((3, false)), true);
            self.left();
            self.turn();
            self.advance(ms(10));
        }
        assert!(!self.driven, "it does not come to rest: {self:?}");
        assert!(self.waiting.is_empty() && self.unanswered.is_empty(), "{self:?}");
    }
}
