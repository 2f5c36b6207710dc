//! The members of a quorum that may grant, and what is to be done for those that may not.
//!
//! A member that lost its data has forgotten what it granted, and how far its tokens were. So two
//! things are asked of it:
//!
//! - It grants nothing until every lease that it may have granted is over: its *quarantine*. That
//!   is over when the member's clock says so *and* whoever repairs it has known of it for as long.
//!   A new machine or a new disk often loses the data and sets the clock anew.
//! - After that it grants only above a *minimum token*: the highest token that any of the others
//!   has reserved. They are read when the quarantine is over, as until then a grant of before may
//!   still be raising them. A majority of the others must be read: any grant of before that counted
//!   this member counted enough others to meet it there.
//!
//! Where a majority lost its data at once, nobody knows what it had granted. When all are past
//! their quarantine they begin again with what there is. That tokens grow then rests on the clocks.
//!
//! A quorum is *founded* where no member has an enrolment and nobody ever reserved a token. A store
//! that has run for longer than any lease holds no lease then, so it may grant at once.
//!
//! The model in `tests/tests/quorum_model/` explores these rules.

mod standing;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

pub(crate) use standing::{Identity, Standing};

use crate::backend::{Enrolment, Probe, SEEN_WITHIN};
use crate::ground::Plus as _;
use crate::proto::majority_of;

/// Members that were founded so short a while ago may have companions that were not reached yet.
const FOUNDING_WITHIN: Duration = Duration::from_secs(10);

/// A member that is kept away is probed again so often: its clock may be set anew.
const KEPT_AWAY_PROBES: Duration = Duration::from_secs(10);

/// The members of one quorum as they are known, and what to do for them.
///
/// Its driver asks [`plan`](Self::plan) what to send. It reports each answer to a probe by
/// [`saw`](Self::saw), and each probe that failed by [`missed`](Self::missed). Then it asks for the
/// next plan. A member that was written to is forgotten by [`unsee`](Self::unsee), and probed
/// again. [`standing`](Self::standing) says at any time whether a member may grant.
#[derive(Debug)]
pub(crate) struct Membership {
    identity: Identity,
    seats: Vec<Seat>,
}

/// One member as it is known.
#[derive(Debug, Default)]
struct Seat {
    seen: Option<Seen>,
    /// The last probe of it failed.
    failed: bool,
    /// The last enrolment that was seen, and when it was heard of first.
    met: Option<(u64, Instant)>,
    /// When it was heard first that the quarantine of its enrolment is over.
    past: Option<Instant>,
    /// It was seen to have an enrolment: without one it has lost it, and is not new.
    known: bool,
}

/// One probe.
#[derive(Debug)]
struct Seen {
    sent: Instant,
    heard: Instant,
    probe: Probe,
}

/// The work that is due now.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// These are to be probed.
    pub(crate) probes: Vec<usize>,
    /// These are to be enrolled.
    pub(crate) acts: Vec<Act>,
    /// When there is more to do though nothing was heard.
    pub(crate) next: Option<Instant>,
}

/// One enrolment to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Act {
    pub(crate) member: usize,
    /// It is written if the member is as it was seen then.
    pub(crate) seen: Probe,
    pub(crate) what: Enrol,
}

/// A write that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Enrol {
    /// It is new, as all are.
    Found { ready_at: Duration },
    /// It lost its data, or joins those that are there.
    Quarantine { ready_at: Duration },
    /// Its quarantine is over; `on_clocks` if too few others knew how far it was.
    Repair { token_min: u64, on_clocks: bool },
}

impl Identity {
    /// The standing of a member whose enrolment was `met` then: its quarantine lasts as long by the
    /// clock of this client, too.
    fn standing_since(&self, seen: &Seen, met: Option<(u64, Instant)>) -> Standing {
        let standing = self.standing(&seen.probe);
        let (Standing::Unrepaired, Some((_, met))) = (standing, met) else { return standing };
        let left = met.plus(self.quarantine()).saturating_duration_since(seen.heard);
        if left.is_zero() { standing } else { Standing::Early { left } }
    }
}

impl Membership {
    pub(crate) fn new(identity: Identity) -> Self {
        let seats = (0..identity.members).map(|_| Seat::default()).collect();
        Self { identity, seats }
    }

    pub(crate) fn identity(&self) -> &Identity {
        &self.identity
    }

    fn majority(&self) -> usize {
        majority_of(self.seats.len())
    }

    /// A member was seen to have an enrolment before.
    pub(crate) fn knows(&mut self, member: usize) {
        self.seats[member].known = true;
    }

    /// A member answered a probe that was sent at `sent`.
    pub(crate) fn saw(&mut self, member: usize, sent: Instant, heard: Instant, probe: Probe) {
        let seat = &mut self.seats[member];
        let nonce = probe.enrolment.as_ref().map(|enrolment| enrolment.nonce);
        seat.known |= nonce.is_some();
        seat.met = match (nonce, seat.met) {
            (Some(nonce), Some(met)) if met.0 == nonce => Some(met),
            (nonce, _) => nonce.map(|nonce| (nonce, heard)),
        };
        let seen = Seen { sent, heard, probe };
        let standing = self.identity.standing_since(&seen, seat.met);
        // It counts for this enrolment alone: a member is early again with another one.
        seat.past = (standing == Standing::Unrepaired).then(|| seat.past.unwrap_or(heard));
        seat.failed = false;
        seat.seen = Some(seen);
    }

    /// A member did not answer a probe.
    pub(crate) fn missed(&mut self, member: usize) {
        let seat = &mut self.seats[member];
        (seat.seen, seat.past, seat.failed) = (None, None, true);
    }

    /// A member may be no more as it was seen.
    pub(crate) fn unsee(&mut self, member: usize) {
        (self.seats[member].seen, self.seats[member].past) = (None, None);
    }

    pub(crate) fn standing(&self, member: usize) -> Option<Standing> {
        let seat = &self.seats[member];
        seat.seen.as_ref().map(|seen| self.identity.standing_since(seen, seat.met))
    }

    /// Two members that are one server: they have one enrolment.
    pub(crate) fn twins(&self) -> Option<(usize, usize)> {
        let nonce = |member: usize| self.enrolment(member).map(|enrolment| enrolment.nonce);
        let pairs = (0..self.seats.len()).flat_map(|one| (0..one).map(move |other| (other, one)));
        pairs.into_iter().find(|&(other, one)| nonce(one).is_some() && nonce(one) == nonce(other))
    }

    /// The enrolment that a member was seen to have.
    pub(crate) fn enrolment(&self, member: usize) -> Option<&Enrolment> {
        self.seats[member].seen.as_ref()?.probe.enrolment.as_ref()
    }

    /// Whether nothing can be done for a member until others answer, or are done with.
    pub(crate) fn is_stuck(&self, member: usize) -> bool {
        let is_blind = self.seats.iter().any(|seat| seat.failed);
        match self.standing(member) {
            Some(Standing::Vacant | Standing::Lost) => is_blind,
            Some(Standing::Unrepaired) => match self.token_min(member) {
                Ok(_) => false,
                Err(unread) => is_blind || unread.is_empty(),
            },
            _ => false,
        }
    }

    fn standings(&self) -> impl Iterator<Item = (usize, &Seen, Standing)> {
        self.seats.iter().enumerate().filter_map(|(member, seat)| {
            let seen = seat.seen.as_ref()?;
            Some((member, seen, self.identity.standing_since(seen, seat.met)))
        })
    }

    /// The work that is due at `now`.
    pub(crate) fn plan(&self, now: Instant) -> Plan {
        let mut plan = Plan::default();
        let fresh = |seen: &Seen| now < seen.sent.plus(SEEN_WITHIN);
        // Those that were not seen; those of which too little is known; those that have changed.
        let mut wanted: Vec<_> = self.seats.iter().map(|seat| seat.seen.is_none()).collect();
        for (member, seen, standing) in self.standings() {
            match standing {
                Standing::Good | Standing::Foreign => {}
                Standing::Early { left } => {
                    let over = seen.heard.plus(left.min(KEPT_AWAY_PROBES));
                    if over <= now {
                        wanted[member] = true;
                    } else {
                        plan.next = Some(plan.next.map_or(over, |next| next.min(over)));
                    }
                }
                Standing::Vacant | Standing::Lost => match self.enrol(seen, standing, &fresh) {
                    Some(what) if fresh(seen) => {
                        plan.acts.push(Act { member, seen: seen.probe.clone(), what });
                    }
                    _ => {
                        for (other, seen, _) in self.standings() {
                            wanted[other] |= !fresh(seen);
                        }
                    }
                },
                Standing::Unrepaired => match self.token_min(member) {
                    Ok((token_min, on_clocks)) if fresh(seen) => {
                        let what = Enrol::Repair { token_min, on_clocks };
                        plan.acts.push(Act { member, seen: seen.probe.clone(), what });
                    }
                    Ok(_) => wanted[member] = true,
                    Err(unread) => unread.into_iter().for_each(|other| wanted[other] = true),
                },
            }
        }
        plan.probes = (0..wanted.len()).filter(|&member| wanted[member]).collect();
        plan
    }

    /// How to enrol a member that has no enrolment of this incarnation.
    fn enrol(
        &self,
        seen: &Seen,
        standing: Standing,
        fresh: &impl Fn(&Seen) -> bool,
    ) -> Option<Enrol> {
        let Probe { now, up_for, .. } = seen.probe;
        let all_answer =
            self.standings().filter(|(_, seen, _)| fresh(seen)).count() == self.seats.len();
        if standing == Standing::Vacant && all_answer && self.is_founding() {
            let left = self.identity.quarantine().saturating_sub(up_for);
            return Some(Enrol::Found { ready_at: now.saturating_add(left) });
        }
        let ours = self.standings().filter(|(_, seen, standing)| {
            *standing != Standing::Foreign && seen.probe.enrolment.is_some()
        });
        // Any other list of members that has as many meets this one there.
        let is_ours = all_answer || ours.count() >= self.majority();
        is_ours
            .then(|| Enrol::Quarantine { ready_at: now.saturating_add(self.identity.quarantine()) })
    }

    /// Whether nothing was ever granted: no member has, or had, anything of this quorum but what
    /// its founding wrote a moment ago.
    fn is_founding(&self) -> bool {
        self.seats.iter().zip(self.standings()).all(|(seat, (_, seen, standing))| {
            let probe = &seen.probe;
            let is_new = match (&probe.enrolment, standing) {
                (None, _) => !seat.known,
                (Some(_), Standing::Lost | Standing::Foreign) => false,
                (Some(enrolment), _) => {
                    let founded_since = probe.now.saturating_sub(enrolment.ready_at);
                    enrolment.token_min == Some(0) && founded_since < FOUNDING_WITHIN
                }
            };
            is_new && probe.highest == 0
        })
    }

    /// The token that those of a member past its quarantine are above, or the members to be read
    /// first.
    fn token_min(&self, member: usize) -> Result<(u64, bool), Vec<usize>> {
        let Some(past) = self.seats[member].past else { return Err(vec![member]) };
        let is_read = |seen: &Seen| seen.sent >= past;
        let others = || self.standings().filter(|(other, _, _)| *other != member);
        let good =
            || others().filter(|(_, seen, standing)| is_read(seen) && *standing == Standing::Good);
        if good().count() >= self.majority() {
            return Ok((good().map(|(_, seen, _)| seen.probe.reached()).max().unwrap_or(0), false));
        }
        let unread: Vec<_> =
            others().filter(|(_, seen, _)| !is_read(seen)).map(|(other, _, _)| other).collect();
        if !unread.is_empty() {
            return Err(unread);
        }
        let can_begin = |(_, _, standing): (usize, &Seen, Standing)| {
            matches!(standing, Standing::Good | Standing::Unrepaired)
        };
        let all = self.standings().filter(|it| can_begin(*it)).count() == self.seats.len();
        if all {
            let highest = self.standings().map(|(_, seen, _)| seen.probe.reached()).max();
            return Ok((highest.unwrap_or(0), true));
        }
        Err(Vec::new())
    }
}
