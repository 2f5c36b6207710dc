//! One member's claim, in a task of its own: a member that hangs holds up nobody, and its requests
//! run to their end whatever becomes of the others.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

use super::Members;
use super::council::Council;
use crate::backend::{
    Attempt, Enrolment, Fault, FaultKind, Grant, MemberClaim, Renewal, Withdrawal,
};
use crate::engine::clock;
use crate::proto::{FAULT_PAUSES, FenceRange};

/// What the quorum asks of a member.
#[derive(Debug)]
pub(super) enum Command {
    Attempt {
        clock: u64,
    },
    Renew {
        clock: u64,
    },
    Raise {
        to: u64,
    },
    /// Leave, and go on trying for so long.
    Withdraw {
        clock: u64,
        within: Duration,
    },
}

/// What a member says.
#[derive(Debug)]
pub(super) enum Said {
    Attempted(Result<Attempt, Fault>),
    Renewed(Result<Renewal, Fault>),
    Raised(u64, Result<bool, Fault>),
    /// Nothing of the claim is there any more.
    Left(Withdrawal),
    /// It could not be told to forget the claim, and is asked again.
    Stays(Fault),
    /// It could not be told within a lease.
    GaveUp(Fault),
    /// It pushed something.
    Changed,
}

pub(super) type Report = (usize, Said);

/// Which member of which quorum.
#[derive(Debug)]
pub(super) struct Place<B> {
    pub(super) members: Arc<Members<B>>,
    pub(super) member: usize,
}

/// Serves commands in their order until nobody can give any more.
pub(super) async fn serve<B>(
    place: Place<B>,
    mut claim: impl MemberClaim,
    mut commands: UnboundedReceiver<Command>,
    reports: UnboundedSender<Report>,
) {
    let member = place.member;
    // Something was asked since the last push: the claim may have something to tell.
    let mut listens = false;
    // The member could not be asked: it is told of when it can.
    let mut unready = false;
    loop {
        let command = tokio::select! {
            biased;
            command = commands.recv() => command,
            _ = claim.changed(), if listens => {
                listens = false;
                drop(reports.send((member, Said::Changed)));
                continue;
            }
            () = place.is_good(), if unready => {
                unready = false;
                drop(reports.send((member, Said::Changed)));
                continue;
            }
        };
        let said = match command {
            None => return,
            Some(Command::Attempt { clock }) => {
                let answer = place.attempt(&mut claim, clock).await;
                let is_good = |council: &Arc<Council>| council.good(member).is_some();
                unready = answer.is_err() && place.council().is_some_and(|it| !is_good(it));
                Said::Attempted(answer)
            }
            Some(Command::Renew { clock }) => {
                claim.count_from(clock);
                Said::Renewed(place.ask(claim.renew()).await)
            }
            Some(Command::Raise { to }) => Said::Raised(to, place.ask(claim.raise(to)).await),
            Some(Command::Withdraw { clock, within }) => {
                unready = false;
                claim.count_from(place.clock(clock));
                let until = clock::now() + within;
                leave(&place, &mut claim, until, &reports).await
            }
        };
        listens = !matches!(said, Said::Left(_) | Said::GaveUp(_));
        // The quorum may be gone; what is left to do is done all the same.
        drop(reports.send((member, said)));
    }
}

impl<B> Place<B> {
    fn council(&self) -> Option<&Arc<Council>> {
        self.members.council.as_ref()
    }

    /// Runs a request to its end, and notes whether the store has answered.
    async fn ask<T>(&self, request: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
        let health = &self.members.health[self.member];
        let sent = clock::now();
        health.asked(sent);
        let answer = request.await;
        // A refusal is an answer as well.
        let silent = |fault: &Fault| fault.kind() == FaultKind::Transient;
        if answer.as_ref().is_err_and(silent) {
            // It may be gone, or started anew: found out and mended though nobody asks again.
            if let Some(council) = self.council()
                && let Some(enrolment) = council.good(self.member)
            {
                council.unsee(self.member, &enrolment);
            }
        } else {
            health.answered();
            if let Some(council) = self.council() {
                council.seats[self.member].answers(sent);
            }
        }
        answer
    }

    async fn is_good(&self) {
        match self.council() {
            Some(council) => council.is_good(self.member).await,
            None => std::future::pending().await,
        }
    }

    /// Attempts where the member may be asked, and once more if it says that it must be looked at
    /// first: its connection is a new one.
    async fn attempt(&self, claim: &mut impl MemberClaim, clock: u64) -> Result<Attempt, Fault> {
        let Some(council) = self.council() else {
            claim.count_from(clock);
            return self.ask(claim.attempt()).await;
        };
        let mut unready = None;
        for _ in 0..2 {
            let enrolment = council.admit(self.member).await?;
            claim.count_from(above(&enrolment, clock));
            match self.ask(claim.attempt()).await {
                Err(fault) if fault.kind() == FaultKind::Unready => {
                    council.unsee(self.member, &enrolment);
                    unready = Some(fault);
                }
                Ok(Attempt::Granted(grant)) => {
                    if !council.is_still(self.member, &enrolment) {
                        let what = "a member lost its data while it was asked";
                        return Err(Fault::new(FaultKind::Unready, what));
                    }
                    return cut(grant, &enrolment).map(Attempt::Granted);
                }
                answer => return answer,
            }
        }
        Err(unready.unwrap_or_else(|| Fault::new(FaultKind::Unready, "it was not looked at")))
    }

    /// Where a block of tokens ends that the member reserves.
    fn clock(&self, clock: u64) -> u64 {
        let floor = self.council().map_or(0, |council| council.seats[self.member].floor());
        clock.max(floor + 1)
    }
}

fn floor(enrolment: &Enrolment) -> u64 {
    enrolment.floor.unwrap_or(0)
}

fn above(enrolment: &Enrolment, clock: u64) -> u64 {
    clock.max(floor(enrolment) + 1)
}

/// A member that was restored may remember less of a key than its floor: its tokens begin there.
fn cut(grant: Grant, enrolment: &Enrolment) -> Result<Grant, Fault> {
    let (Some(first), Some(last)) = (grant.fences.first(), grant.fences.last()) else {
        return Ok(grant);
    };
    let fences = FenceRange::new(first.max(floor(enrolment) + 1), last);
    if fences.left() == 0 {
        let what = "a member holds the key for this claim by a grant that it had lost";
        return Err(Fault::new(FaultKind::Unready, what));
    }
    Ok(Grant { fences, ..grant })
}

/// Withdraws, again and again for as long as the lease may last.
async fn leave<B>(
    place: &Place<B>,
    claim: &mut impl MemberClaim,
    until: Instant,
    reports: &UnboundedSender<Report>,
) -> Said {
    let mut failures = 0;
    loop {
        match place.ask(claim.withdraw()).await {
            // An earlier try took effect, and only its answer was lost.
            Ok(_) if failures > 0 => return Said::Left(Withdrawal::Released),
            Ok(withdrawal) => return Said::Left(withdrawal),
            Err(fault) if !fault.is_transient() || clock::now() >= until => {
                return Said::GaveUp(fault);
            }
            Err(fault) => {
                failures += 1;
                drop(reports.send((place.member, Said::Stays(fault))));
            }
        }
        tokio::time::sleep(FAULT_PAUSES.pause(failures, clock::random_bits())).await;
    }
}
