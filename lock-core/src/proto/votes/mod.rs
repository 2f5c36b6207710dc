//! The answers of a quorum's members to one claim, and what they come to.
//!
//! The store of a quorum is each majority of its members. A claim holds the key while a majority
//! holds it for the claim, and two majorities share a member, so two claims cannot.
//!
//! Each member counts its own grants of the key, in tokens. When a majority has granted, the
//! claim's tokens begin above those of every member of it. So they are above every token under
//! which the key was held before, *if* the counters of a majority had reached those tokens. Each
//! claim sees to that before it counts as granted: members whose counter is behind are
//! [raised](Ruling::Raise). A member refuses that to a claim that does not hold the key there any
//! more. Raising costs no round trip where the members ended their blocks at one clock, as those do
//! that are told one.
//!
//! A claim that is granted by a minority while others hold the rest would wait for them as they
//! wait for it. It [gives the minority back](Votes::give_back) after a random time.

mod seat;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use seat::{Part, Seat, Share, Standing};

use crate::backend::{Attempt, Fault, FaultKind, Renewal};
use crate::ground::Plus as _;
use crate::proto::majority_of;
use crate::token::TokenBlock;

/// A member that has not answered when a majority has is waited for as long again, and for this
/// long at least.
pub(crate) const GRACE_MIN: Duration = Duration::from_millis(5);

/// The answers of a quorum's members to one claim.
///
/// - An attempt is [`begin`](Self::begin), then [`sent`](Self::sent) for each member
///   [`to_ask`](Self::to_ask), then [`attempted`](Self::attempted) or [`raised`](Self::raised) for
///   each answer. After each of them comes [`attempt`](Self::attempt), which says what they come
///   to.
/// - A renewal goes from [`renewal_begins`](Self::renewal_begins) through
///   [`renewed`](Self::renewed) to [`renewal`](Self::renewal).
/// - A withdrawal goes from [`leaves`](Self::leaves) to [`left`](Self::left).
#[derive(Debug)]
pub(crate) struct Votes {
    seats: Vec<Seat>,
    /// Since when a minority of members is held.
    minority_since: Option<Instant>,
    /// When a majority had told of the attempt under way where the claim stands.
    spoken: Option<Instant>,
    /// The hold was renewed, or was to be: what a member grants from now on was not part of it.
    renewing: bool,
}

/// The sum of the votes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ruling {
    /// Held until then, under these tokens.
    Granted { tokens: TokenBlock, until: Instant, wanted: bool, handed_on: bool },
    /// Granted once these members count to this token.
    Raise { members: Vec<usize>, to: u64 },
    /// More answers are needed; after this time what there is has to do.
    Wait(Option<Instant>),
    /// Others hold the key.
    Blocked { ahead: Option<u32>, recheck: Duration },
    /// Too few members answer.
    Down,
}

/// The sum of the answers to a renewal.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Renewed {
    Held {
        until: Instant,
        wanted: bool,
    },
    Lost,
    /// More answers are needed.
    Wait,
    /// Too few answered; what was held is held until its time is over.
    Unknown,
}

impl Votes {
    pub(crate) fn new(members: usize) -> Self {
        Self {
            seats: (0..members).map(|_| Seat::new()).collect(),
            minority_since: None,
            spoken: None,
            renewing: false,
        }
    }

    /// An attempt begins.
    pub(crate) fn begin(&mut self) {
        (self.spoken, self.renewing) = (None, false);
        for seat in &mut self.seats {
            if let Standing::Granted(share) = &mut seat.standing {
                share.part = Part::Kept;
            }
        }
    }

    pub(crate) fn majority(&self) -> usize {
        majority_of(self.seats.len())
    }

    /// The members to ask where the claim stands: those that pushed something. If none did, all
    /// that may have changed their mind.
    pub(crate) fn to_ask(&self, now: Instant) -> Vec<usize> {
        let pushed = self.seats.iter().any(|seat| seat.heard);
        let due = |seat: &Seat| {
            seat.is_free()
                && match &seat.standing {
                    Standing::Outside => true,
                    Standing::Waits { ask_at, .. } => !pushed || seat.heard || *ask_at <= now,
                    // It may have been kept away until it pushed.
                    Standing::Down { ask_at, .. } => seat.heard || *ask_at <= now,
                    // Its time is over, or it was not renewed.
                    Standing::Granted(share) => share.until <= now,
                }
        };
        self.which(due)
    }

    /// The members where nothing of the claim is, and that were not told to forget it.
    pub(crate) fn outside(&self) -> Vec<usize> {
        self.which(|seat| seat.is_free() && matches!(seat.standing, Standing::Outside))
    }

    /// The members that have not failed to answer this claim.
    pub(crate) fn not_down(&self) -> impl Iterator<Item = usize> {
        let down = |seat: &Seat| matches!(seat.standing, Standing::Down { .. });
        (0..self.seats.len()).filter(move |&member| !down(&self.seats[member]))
    }

    /// A renewal begins: the members that hold the key for the claim, and have no request under
    /// way.
    ///
    /// A member that grants the key while it is held is part of the hold once a majority that was
    /// part of it before has renewed it since. Its grant alone proves nothing: between the loss of
    /// another member and this grant, somebody else may have held the key at both.
    pub(crate) fn renewal_begins(&mut self) -> Vec<usize> {
        self.renewing = true;
        for seat in &mut self.seats {
            if let Standing::Granted(share) = &mut seat.standing {
                share.fresh = false;
                if share.part == Part::New {
                    share.part = Part::Joining;
                }
            }
        }
        self.kept()
    }

    /// The members that hold the key for the claim, and have no request under way.
    fn kept(&self) -> Vec<usize> {
        self.which(|seat| seat.is_free() && matches!(seat.standing, Standing::Granted(_)))
    }

    /// The members where something of the claim may be, and that were not told to forget it.
    pub(crate) fn to_leave(&self) -> Vec<usize> {
        self.which(|seat| {
            let is_known = seat.sent.is_some() || !matches!(seat.standing, Standing::Outside);
            is_known && !seat.leaving
        })
    }

    /// How many members have nothing of the claim.
    pub(crate) fn gone(&self) -> usize {
        let has_none = |seat: &&Seat| !seat.leaving && matches!(seat.standing, Standing::Outside);
        self.seats.iter().filter(has_none).count()
    }

    /// The members that have answered the claim, and have no request under way.
    pub(crate) fn prompt(&self) -> Vec<usize> {
        self.which(|seat| {
            let answered = matches!(seat.standing, Standing::Waits { .. } | Standing::Granted(_));
            answered && seat.is_free()
        })
    }

    /// Whether this member was told to forget the claim, and has not said that it did.
    pub(crate) fn leaves_still(&self, member: usize) -> bool {
        self.seats[member].leaving
    }

    /// Whether some were told to forget the claim, and have not said that they did.
    pub(crate) fn is_leaving(&self) -> bool {
        self.seats.iter().any(|seat| seat.leaving)
    }

    fn which(&self, seat: impl Fn(&Seat) -> bool) -> Vec<usize> {
        (0..self.seats.len()).filter(|&member| seat(&self.seats[member])).collect()
    }

    /// A request was sent to a member.
    pub(crate) fn sent(&mut self, member: usize, now: Instant) {
        (self.seats[member].sent, self.seats[member].heard) = (Some(now), false);
    }

    /// A member is told to forget the claim.
    pub(crate) fn leaves(&mut self, member: usize) {
        self.seats[member].leaving = true;
    }

    /// A member pushed something.
    pub(crate) fn heard(&mut self, member: usize) {
        self.seats[member].heard = true;
    }

    /// A member answered an attempt, or did not; `pause` is how long to leave it alone then.
    pub(crate) fn attempted(
        &mut self,
        member: usize,
        answer: Result<Attempt, Fault>,
        now: Instant,
        pause: impl FnOnce(u32) -> Duration,
    ) {
        let seat = &mut self.seats[member];
        let Some(sent) = seat.sent.take() else { return };
        seat.standing = match answer {
            Ok(Attempt::Granted(grant)) => {
                let part = if self.renewing { Part::New } else { Part::Kept };
                Standing::Granted(Share { part, ..Share::new(grant, sent, 0) })
            }
            Ok(Attempt::Blocked { ahead, recheck }) => {
                Standing::Waits { ahead, ask_at: now.plus(recheck) }
            }
            Err(fault) => return seat.is_down(fault, now, pause),
        };
        seat.failures = 0;
    }

    /// A member answered a renewal, or did not.
    pub(crate) fn renewed(&mut self, member: usize, answer: Result<Renewal, Fault>) {
        let seat = &mut self.seats[member];
        let Some(sent) = seat.sent.take() else { return };
        match (answer, &seat.standing) {
            (Ok(Renewal::Held(grant)), Standing::Granted(share)) => {
                // The tokens are those of the grant: these would not be above those of others.
                let Share { tokens, handed_on, part, .. } = *share;
                let renewed = Share::new(grant, sent, share.counter);
                seat.standing = Standing::Granted(Share { tokens, handed_on, part, ..renewed });
            }
            (Ok(Renewal::Lost), _) => seat.standing = Standing::Outside,
            // Its hold goes on until its time is over.
            (Ok(Renewal::Held(_)), _) | (Err(_), _) => {}
        }
    }

    /// A member answered that its counter has reached `to`, or that the claim holds nothing there.
    pub(crate) fn raised(
        &mut self,
        member: usize,
        to: u64,
        answer: Result<bool, Fault>,
        now: Instant,
        pause: impl FnOnce(u32) -> Duration,
    ) {
        let seat = &mut self.seats[member];
        seat.sent = None;
        match (answer, &mut seat.standing) {
            (Ok(true), Standing::Granted(share)) => share.counter = share.counter.max(to),
            (Ok(true), _) => {}
            // Perhaps it was granted to this claim anew: asked again, and never left behind.
            (Ok(false), _) => seat.standing = Standing::Waits { ahead: None, ask_at: now },
            (Err(fault), _) => seat.is_down(fault, now, pause),
        }
    }

    /// A member has nothing of the claim any more.
    pub(crate) fn left(&mut self, member: usize) {
        self.seats[member] = Seat::new();
    }

    /// A member could not be told to forget the claim; what is left there ends with its lease.
    pub(crate) fn gave_up(
        &mut self,
        member: usize,
        fault: Fault,
        now: Instant,
        pause: impl FnOnce(u32) -> Duration,
    ) {
        self.left(member);
        self.seats[member].is_down(fault, now, pause);
    }

    fn shares(&self, now: Instant) -> impl Iterator<Item = (usize, &Share)> {
        self.seats.iter().enumerate().filter_map(move |(member, seat)| match &seat.standing {
            Standing::Granted(share) if !seat.leaving && now < share.until => Some((member, share)),
            _ => None,
        })
    }

    /// The members that hold the key for the claim.
    pub(crate) fn holders(&self, now: Instant) -> Vec<usize> {
        self.shares(now).map(|(member, _)| member).collect()
    }

    /// How many members hold the key for the claim.
    pub(crate) fn held(&self, now: Instant) -> usize {
        self.shares(now).count()
    }

    /// The instant until which a majority of these holds.
    fn until(&self, shares: impl Iterator<Item = Instant>) -> Option<Instant> {
        let mut untils: Vec<_> = shares.collect();
        untils.sort_unstable_by(|a, b| b.cmp(a));
        untils.get(self.majority() - 1).copied()
    }

    /// The ruling on an attempt that began at `began`.
    pub(crate) fn attempt(&mut self, began: Instant, now: Instant) -> Ruling {
        let majority = self.majority();
        let held = self.held(now);
        if held >= majority {
            self.minority_since = None;
            // A member whose answer comes later is not part of the hold before that is renewed.
            self.renewing = true;
            return self.grant(began, now);
        }
        self.minority_since = (held > 0).then(|| self.minority_since.unwrap_or(now));
        let open = self.seats.iter().filter(|seat| seat.is_open()).count();
        let spoke = self.seats.iter().filter(|seat| seat.spoke()).count();
        if spoke < majority {
            // A member that is down, or was not asked, says nothing of where the claim stands.
            return if spoke + open < majority { Ruling::Down } else { Ruling::Wait(None) };
        }
        // Those who are late are not waited for, once a majority has spoken.
        let spoken = *self.spoken.get_or_insert(now);
        let until = spoken.plus(spoken.saturating_duration_since(began).max(GRACE_MIN));
        if held + open >= majority && now < until {
            return Ruling::Wait(Some(until));
        }
        let ahead = self.seats.iter().filter_map(|seat| match seat.standing {
            Standing::Waits { ahead, .. } => ahead,
            _ => None,
        });
        let next = self.seats.iter().filter(|seat| seat.is_free()).filter_map(|seat| {
            match &seat.standing {
                Standing::Waits { ask_at, .. } | Standing::Down { ask_at, .. } => Some(*ask_at),
                Standing::Granted(share) => Some(share.until),
                Standing::Outside => None,
            }
        });
        let recheck = next.min().map_or(GRACE_MIN, |at| at.saturating_duration_since(now));
        Ruling::Blocked { ahead: ahead.max(), recheck: recheck.max(Duration::from_millis(1)) }
    }

    fn grant(&self, began: Instant, now: Instant) -> Ruling {
        let firsts = self.shares(now).filter_map(|(_, share)| share.tokens.first());
        let lasts = self.shares(now).filter_map(|(_, share)| share.tokens.last());
        let tokens = match (firsts.max(), lasts.max()) {
            (Some(first), Some(last)) => TokenBlock::new(first, last),
            _ => TokenBlock::empty(),
        };
        let to = tokens.last().unwrap_or(0);
        let counted = || self.shares(now).filter(|(_, share)| share.counter >= to);
        match self.until(counted().map(|(_, share)| share.until_from(began))) {
            Some(until) => {
                let wanted = counted().any(|(_, share)| share.wanted);
                let handed_on = counted().any(|(_, share)| share.handed_on);
                Ruling::Granted { tokens, until, wanted, handed_on }
            }
            None => {
                let behind = self.shares(now).filter(|(_, share)| share.counter < to);
                let behind = behind.map(|(member, _)| member);
                // Those that were told are awaited.
                let members = behind.filter(|&member| self.seats[member].sent.is_none());
                Ruling::Raise { members: members.collect(), to }
            }
        }
    }

    /// The state of the renewal under way.
    pub(crate) fn renewal(&mut self, now: Instant) -> Renewed {
        let kept = || self.shares(now).filter(|(_, share)| share.part == Part::Kept);
        let renewed = kept().filter(|(_, share)| share.fresh);
        if let Some(until) = self.until(renewed.map(|(_, share)| share.until)) {
            let wanted = self.shares(now).any(|(_, share)| share.wanted);
            self.joined();
            return Renewed::Held { until, wanted };
        }
        if kept().count() < self.majority() {
            // Whatever comes: too few hold it still.
            return Renewed::Lost;
        }
        let open = |seat: &Seat| {
            seat.sent.is_some()
                && matches!(&seat.standing, Standing::Granted(share) if share.part == Part::Kept)
        };
        if self.seats.iter().any(open) { Renewed::Wait } else { Renewed::Unknown }
    }

    /// The hold was renewed: members that had granted the key before are part of it.
    fn joined(&mut self) {
        for seat in &mut self.seats {
            if let Standing::Granted(share) = &mut seat.standing
                && share.part == Part::Joining
            {
                share.part = Part::Kept;
            }
        }
    }

    /// The members to give back: a minority that was held for `minority_max`.
    pub(crate) fn give_back(&mut self, now: Instant, minority_max: Duration) -> Vec<usize> {
        match self.minority_since {
            Some(since) if now >= since.plus(minority_max) => {
                self.minority_since = None;
                self.kept()
            }
            _ => Vec::new(),
        }
    }

    /// How long from now until a minority is given back.
    pub(crate) fn minority_left(&self, now: Instant, minority_max: Duration) -> Option<Duration> {
        self.minority_since.map(|since| (since.plus(minority_max)).saturating_duration_since(now))
    }

    /// Why too few members answer: a refusal, if that is what most say.
    pub(crate) fn why_down(&self) -> Fault {
        let faults = || {
            self.seats.iter().filter_map(|seat| match &seat.standing {
                Standing::Down { fault, .. } => Some(fault),
                _ => None,
            })
        };
        let silent = self.seats.iter().filter(|seat| !seat.spoke()).count();
        let refused = faults().find(|fault| !fault.is_transient());
        let kind = match refused {
            // As long as the others could still make a majority it may pass.
            Some(fault) if self.seats.len() - self.refused() < self.majority() => fault.kind(),
            _ => FaultKind::Transient,
        };
        let what = format!(
            "{silent} of the {} members of the quorum do not answer{}",
            self.seats.len(),
            faults().next().map(|fault| format!(", one says: {fault}")).unwrap_or_default()
        );
        Fault::new(kind, what)
    }

    fn refused(&self) -> usize {
        let refused = |seat: &&Seat| matches!(&seat.standing, Standing::Down { fault, .. } if !fault.is_transient());
        self.seats.iter().filter(refused).count()
    }
}
