//! The verbs of one claim at a quorum.
//!
//! Each verb polls what is under way at the members, and returns when their votes decide. What is
//! under way then stays in the claim, for the next verb to poll; nobody is woken for it meanwhile.
//! When the claim goes, a task in the background ends what is left to do.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::runtime::{Handle, Id};

use super::Members;
use super::member::{self, Command, Event, Served, Waits};
use crate::backend::{
    Attempt, Backend, Change, Claim, ClaimId, Fault, FaultKind, Grant, MemberClaim, Renewal, Terms,
    Withdrawal,
};
use crate::ground::{
    FAULT_PAUSES, Plus as _,
    clock::{self, Alarm},
};
use crate::key::Key;
use crate::proto::{GRACE_MIN, Renewed, Ruling, Votes};
use crate::token::TokenBlock;

/// The longest time of one verb. Members bound their own requests at 2 s, and say why.
const VERB_WITHIN: Duration = Duration::from_millis(2_250);

/// A minority is kept for this long, and for up to twice as long again at random: longer than the
/// members' pushes of one hand-off are apart.
const MINORITY_KEPT: Duration = Duration::from_millis(20);

/// A claim on a key at all members of a quorum.
pub struct QuorumClaim<B> {
    members: Arc<Members<B>>,
    key: Key,
    id: ClaimId,
    terms: Terms,
    votes: Votes,
    /// Each member's claim, once it was asked for anything.
    places: Vec<Option<Served>>,
    /// The waiters for them.
    waits: Arc<Waits>,
    /// The runtime in which they were polled last.
    polled_in: Option<Id>,
    /// How often a member was given back, or lost. It is joined by another claim then: what was
    /// asked for the last one may arrive there later still.
    rejoins: u32,
    held: bool,
    /// A push has come that the engine has not asked about.
    is_told: bool,
    /// So has an answer that counts where the claim waits: the verb that it was for is over.
    late: bool,
    /// How long this round keeps a minority at least.
    minority_max: Duration,
    /// How long a majority took to answer the last attempt.
    took: Duration,
    /// The reason why a member has not forgotten the claim yet.
    stays: Option<Fault>,
    /// A member that was told to leave has said that it held the key.
    released: bool,
    /// The members that held it when they were told to leave, and how many of them have said that
    /// they did not: it was taken away.
    believed: Vec<usize>,
    denied: usize,
}

impl<B: Backend<Claim: MemberClaim>> QuorumClaim<B> {
    pub(super) fn new(members: Arc<Members<B>>, key: &Key, id: ClaimId, terms: Terms) -> Self {
        let count = members.all.len();
        Self {
            key: key.clone(),
            id,
            terms,
            votes: Votes::new(count),
            places: (0..count).map(|_| None).collect(),
            waits: Arc::default(),
            polled_in: None,
            rejoins: 0,
            held: false,
            is_told: false,
            late: false,
            minority_max: minority_max(),
            took: Duration::ZERO,
            stays: None,
            released: false,
            believed: Vec::new(),
            denied: 0,
            members,
        }
    }

    fn tell(&mut self, member: usize, command: Command) {
        let served = self.places[member].get_or_insert_with(|| {
            let id = place_of(self.id, self.rejoins);
            let claim = self.members.all[member].claim(&self.key, id, self.terms);
            Served::new(&self.members, member, claim, self.waits.clone())
        });
        self.votes.sent(member, clock::now());
        served.ask(command);
    }

    /// Ends the claim at a member where it is over.
    fn forget(&mut self, member: usize) {
        // One that was lost may have been told to leave meanwhile, and says that it did.
        if self.places[member].take_if(|served| !served.is_busy()).is_some() {
            self.rejoins += 1;
        }
    }

    /// Asks all members where the claim may stand elsewhere than was heard last.
    fn ask(&mut self, now: Instant, count: u64) {
        for member in self.worth_asking(self.votes.to_ask(now), now) {
            self.tell(member, Command::Attempt { clock: count });
        }
    }

    /// Without those that hang, as long as the others can make a majority.
    fn worth_asking(&self, asked: Vec<usize>, now: Instant) -> Vec<usize> {
        let health = &self.members.health;
        let well = self.votes.not_down().filter(|&member| !health[member].hangs(now)).count();
        if well < self.votes.majority() {
            return asked;
        }
        let worth = |&member: &usize| !health[member].hangs(now) || health[member].probe(now);
        asked.into_iter().filter(worth).collect()
    }

    fn hear(&mut self, member: usize, said: Event) {
        let now = clock::now();
        let pause = |failures| FAULT_PAUSES.pause(failures, clock::random_bits());
        match said {
            Event::Attempted(answer) => {
                self.late |= matches!(answer, Ok(Attempt::Granted(_)));
                self.votes.attempted(member, answer, now, pause);
            }
            Event::Renewed(answer) => {
                if matches!(answer, Ok(Renewal::Lost)) {
                    self.forget(member);
                }
                self.votes.renewed(member, answer);
            }
            Event::Raised(to, answer) => self.votes.raised(member, to, answer, now, pause),
            Event::Left(withdrawal) => {
                self.released |= withdrawal == Withdrawal::Released;
                let denies = withdrawal != Withdrawal::Released && self.believed.contains(&member);
                self.denied += usize::from(denies);
                self.late = true;
                self.forget(member);
                self.votes.left(member);
            }
            Event::Stays(fault) => self.stays = Some(fault),
            Event::GaveUp(fault) => {
                // A claim that is left there ends with its lease.
                self.forget(member);
                self.stays = Some(fault.clone());
                self.votes.gave_up(member, fault, now, pause);
            }
            Event::Changed => {
                self.is_told = true;
                self.votes.heard(member);
            }
        }
    }

    /// Polls the members, and hears what they say: those that have something to do, or `all`, as
    /// the others may push something.
    fn poll(&mut self, cx: &Context<'_>, all: bool) -> bool {
        self.waits.begin(cx.waker());
        let here = Handle::try_current().ok().map(|here| here.id());
        if here != self.polled_in {
            // Claims that wait for timers of another runtime look at the clock, and have timers of
            // this one.
            self.places.iter().flatten().for_each(Served::is_to_look);
            self.polled_in = here;
        }
        let mut heard = false;
        for member in 0..self.places.len() {
            while let Some(served) = &mut self.places[member]
                && (all || served.is_busy())
                && let Some(said) = served.poll()
            {
                heard = true;
                self.hear(member, said);
            }
        }
        heard
    }

    /// Polls those once that have something to do.
    async fn probe(&mut self) {
        poll_fn(|cx| {
            self.poll(cx, false);
            Poll::Ready(())
        })
        .await;
    }

    /// Waits until a member says something; `false` if none does until then.
    async fn listen(&mut self, mut alarm: Pin<&mut Alarm>, until: Instant) -> bool {
        alarm.as_mut().reset(until);
        let heard = poll_fn(|cx| {
            if self.poll(cx, false) {
                return Poll::Ready(true);
            }
            alarm.as_mut().poll(cx).map(|()| false)
        })
        .await;
        self.waits.end();
        heard
    }

    /// Hears what was answered since the last verb. Only `changed` hears what is pushed: a store
    /// may begin to listen when it is asked, and take what it is told of for all there is.
    async fn catch_up(&mut self) {
        self.probe().await;
        (self.is_told, self.late) = (false, false);
    }

    /// Has these members told to forget the claim, as soon as they can be.
    async fn leave(&mut self, members: Vec<usize>) {
        let count = self.members.count.next();
        for member in members {
            self.votes.leaves(member);
            let within = self.terms.lease;
            self.tell(member, Command::Withdraw { clock: count, within });
        }
        self.probe().await;
    }

    /// Others have the key, or too few members answer: what this has of it keeps the others
    /// waiting as they keep this one waiting.
    async fn give_way(&mut self, now: Instant) -> Option<Duration> {
        if !self.terms.queues {
            // Requests still under way would not be seen any more.
            self.leave(self.votes.to_leave()).await;
            return None;
        }
        let back = self.votes.give_back(now, self.minority_kept());
        if !back.is_empty() {
            self.minority_max = minority_max();
            self.leave(back).await;
        }
        self.votes.minority_left(now, self.minority_kept())
    }

    /// A minority is kept for longer than it takes to see that another was given back.
    fn minority_kept(&self) -> Duration {
        self.minority_max.max(self.took * 2)
    }

    fn granted(
        &mut self,
        tokens: TokenBlock,
        until: Instant,
        began: Instant,
        wanted: bool,
        handed_on: bool,
    ) -> Grant {
        self.held = true;
        self.members.count.has_seen(tokens.last().unwrap_or(0));
        // The members were asked a moment later than the quorum.
        let valid_for = until.saturating_duration_since(began).min(self.terms.lease);
        Grant { wanted, handed_on, ..Grant::new(tokens, valid_for) }
    }
}

/// The id of one of a claim's places: its own, and for those after a member was given back another
/// end.
fn place_of(claim: ClaimId, nth: u32) -> ClaimId {
    ClaimId::from_bits(claim.bits() ^ u128::from(nth))
}

/// [`MINORITY_KEPT`] and what chance adds.
fn minority_max() -> Duration {
    let part = f64::from(clock::random_bits()) / f64::from(u32::MAX);
    MINORITY_KEPT + (MINORITY_KEPT * 2).mul_f64(part)
}

impl<B: Backend<Claim: MemberClaim>> Claim for QuorumClaim<B> {
    async fn attempt(&mut self) -> Result<Attempt, Fault> {
        let began = clock::now();
        let end = began.plus(VERB_WITHIN);
        let mut alarm = pin!(clock::alarm(end));
        self.catch_up().await;
        (self.held, self.released) = (false, false);
        self.votes.begin();
        let count = self.members.count.next();
        self.ask(began, count);
        loop {
            let now = clock::now();
            let until = match self.votes.attempt(began, now) {
                Ruling::Granted { tokens, until, wanted, handed_on } => {
                    let grant = self.granted(tokens, until, began, wanted, handed_on);
                    return Ok(Attempt::Granted(grant));
                }
                Ruling::Blocked { ahead, recheck } => {
                    // Answers heard so far are part of this.
                    self.late = false;
                    self.took = now.saturating_duration_since(began);
                    let left = self.give_way(now).await;
                    if !self.terms.queues {
                        // Nobody need withdraw what was told "blocked".
                        self.hand_over();
                    }
                    let recheck = left.map_or(recheck, |left| left.min(recheck));
                    return Ok(Attempt::Blocked { ahead, recheck });
                }
                Ruling::Down => {
                    self.give_way(now).await;
                    return Err(self.votes.why_down());
                }
                Ruling::Raise { members, to } => {
                    for member in members {
                        self.tell(member, Command::Raise { to });
                    }
                    None
                }
                Ruling::Wait(until) => until,
            };
            if now >= end {
                self.give_way(now).await;
                return Err(self.votes.why_down());
            }
            self.listen(alarm.as_mut(), until.unwrap_or(end).min(end)).await;
            // A member has forgotten an earlier place of this claim meanwhile.
            for member in self.worth_asking(self.votes.outside(), clock::now()) {
                self.tell(member, Command::Attempt { clock: count });
            }
        }
    }

    async fn changed(&mut self) -> Change {
        // A member that joins the others while they hold is no is_told.
        poll_fn(|cx| {
            self.poll(cx, true);
            let is_news = self.is_told || (self.late && !self.held);
            if is_news { Poll::Ready(Change::Here) } else { Poll::Pending }
        })
        .await
    }

    async fn renew(&mut self) -> Result<Renewal, Fault> {
        let began = clock::now();
        // Time for another try must be left, as where there is one server.
        let end = began.plus(VERB_WITHIN.min(self.terms.lease / 6));
        let mut alarm = pin!(clock::alarm(end));
        self.catch_up().await;
        let count = self.members.count.next();
        for member in self.votes.renewal_begins() {
            self.tell(member, Command::Renew { clock: count });
        }
        // Members that have come back are asked to hold the key too.
        self.ask(began, count);
        loop {
            let now = clock::now();
            match self.votes.renewal(now) {
                Renewed::Held { until, wanted } => {
                    // The tokens of the grant are all there are: more would have to be agreed on.
                    let none = TokenBlock::empty();
                    let grant = self.granted(none, until, began, wanted, false);
                    return Ok(Renewal::Held(grant));
                }
                Renewed::Lost => {
                    self.held = false;
                    return Ok(Renewal::Lost);
                }
                Renewed::Wait if now < end => {}
                Renewed::Wait | Renewed::Unknown => {
                    let what = "too few members of the quorum answered a renewal";
                    return Err(Fault::new(FaultKind::Transient, what));
                }
            }
            self.listen(alarm.as_mut(), end).await;
        }
    }

    async fn withdraw(&mut self) -> Result<Withdrawal, Fault> {
        let began = clock::now();
        let end = began.plus(VERB_WITHIN);
        let mut alarm = pin!(clock::alarm(end));
        self.catch_up().await;
        let held = std::mem::take(&mut self.held);
        let prompt = self.votes.prompt();
        let mut late = None;
        (self.believed, self.denied) = (self.votes.holders(clock::now()), 0);
        self.leave(self.votes.to_leave()).await;
        loop {
            if self.votes.gone() >= self.votes.majority() {
                // The next claim would else come to a member before that was told, and would have
                // to wait in line there for what is free.
                let now = clock::now();
                let grace = now.saturating_duration_since(began).max(GRACE_MIN);
                let until = *late.get_or_insert(now.plus(grace).min(end));
                if now < until && prompt.iter().any(|&member| self.votes.leaves_still(member)) {
                    self.listen(alarm.as_mut(), until).await;
                    continue;
                }
                // The others are told all the same, though nobody may poll this again.
                self.hand_over();
                // None where the hold was over before: what a member still had of it says nothing.
                let spare = self.believed.len().checked_sub(self.votes.majority());
                let is_good = spare.is_some_and(|spare| self.denied <= spare);
                let released = held && self.released && is_good;
                return Ok(if released { Withdrawal::Released } else { Withdrawal::NotHeld });
            }
            // Those that could not be told keep what they have until its lease ends.
            if !self.votes.is_leaving() || !self.listen(alarm.as_mut(), end).await {
                self.held = held;
                let unknown = || Fault::new(FaultKind::Transient, "no answer of the quorum");
                return Err(self.stays.take().unwrap_or_else(unknown));
            }
        }
    }
}

impl<B> QuorumClaim<B> {
    /// Has a task in the background end what members have to do; the claim is over at all.
    fn hand_over(&mut self) {
        let mut rest = Vec::new();
        for (member, place) in self.places.iter_mut().enumerate() {
            if let Some(served) = place.take() {
                self.rejoins += 1;
                self.votes.left(member);
                served.is_to_look();
                rest.extend(Some(served).filter(Served::is_busy));
            }
        }
        // Without a runtime, what is left ends with its lease.
        if !rest.is_empty()
            && let Ok(runtime) = Handle::try_current()
        {
            let waits = std::mem::take(&mut self.waits);
            drop(runtime.spawn(member::finish(rest, waits)));
        }
    }
}

impl<B> Drop for QuorumClaim<B> {
    fn drop(&mut self) {
        self.hand_over();
    }
}

impl<B> fmt::Debug for QuorumClaim<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuorumClaim")
            .field("key", &self.key)
            .field("id", &self.id)
            .field("held", &self.held)
            .field("votes", &self.votes)
            .finish_non_exhaustive()
    }
}
