//! One member's claim, in a task of its own: a member that hangs holds up nobody, and its requests
//! run to their end whatever becomes of the others.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

use super::Members;
use crate::backend::{Attempt, Claim, Fault, FaultKind, Renewal, Withdrawal};
use crate::engine::clock;
use crate::proto::FAULT_PAUSES;

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

impl<B> Place<B> {
    /// Runs a request to its end, and notes whether the store has answered.
    async fn ask<T>(&self, request: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
        let health = &self.members.health[self.member];
        health.asked(clock::now());
        let answer = request.await;
        // A refusal is an answer as well.
        let silent = |fault: &Fault| fault.kind() == FaultKind::Transient;
        if !answer.as_ref().is_err_and(silent) {
            health.answered();
        }
        answer
    }
}

/// Serves commands in their order until nobody can give any more.
pub(super) async fn serve<B>(
    place: Place<B>,
    mut claim: impl Claim,
    mut commands: UnboundedReceiver<Command>,
    reports: UnboundedSender<Report>,
) {
    let member = place.member;
    // Something was asked since the last push: the claim may have something to tell.
    let mut listens = false;
    loop {
        let command = tokio::select! {
            biased;
            command = commands.recv() => command,
            () = claim.changed(), if listens => {
                listens = false;
                drop(reports.send((member, Said::Changed)));
                continue;
            }
        };
        let said = match command {
            None => return,
            Some(Command::Attempt { clock }) => {
                claim.count_from(clock);
                Said::Attempted(place.ask(claim.attempt()).await)
            }
            Some(Command::Renew { clock }) => {
                claim.count_from(clock);
                Said::Renewed(place.ask(claim.renew()).await)
            }
            Some(Command::Raise { to }) => Said::Raised(to, place.ask(claim.raise(to)).await),
            Some(Command::Withdraw { clock, within }) => {
                claim.count_from(clock);
                let until = clock::now() + within;
                leave(&place, &mut claim, until, &reports).await
            }
        };
        listens = !matches!(said, Said::Left(_) | Said::GaveUp(_));
        // The quorum may be gone; what is left to do is done all the same.
        drop(reports.send((member, said)));
    }
}

/// Withdraws, again and again for as long as the lease may last.
async fn leave<B>(
    place: &Place<B>,
    claim: &mut impl Claim,
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
