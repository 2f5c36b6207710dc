//! One member's claim, in a task of its own: a member that hangs holds up nobody, and its requests
//! run to their end whatever becomes of the others.

use std::time::{Duration, Instant};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

use crate::backend::{Attempt, Claim, Fault, Renewal, Withdrawal};
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

/// Serves commands in their order until nobody can give any more.
pub(super) async fn serve(
    member: usize,
    mut claim: impl Claim,
    mut commands: UnboundedReceiver<Command>,
    reports: UnboundedSender<Report>,
) {
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
                Said::Attempted(claim.attempt().await)
            }
            Some(Command::Renew { clock }) => {
                claim.count_from(clock);
                Said::Renewed(claim.renew().await)
            }
            Some(Command::Raise { to }) => Said::Raised(to, claim.raise(to).await),
            Some(Command::Withdraw { clock, within }) => {
                claim.count_from(clock);
                let until = clock::now() + within;
                leave(member, &mut claim, until, &reports).await
            }
        };
        listens = !matches!(said, Said::Left(_) | Said::GaveUp(_));
        // The quorum may be gone; what is left to do is done all the same.
        drop(reports.send((member, said)));
    }
}

/// Withdraws, again and again for as long as the lease may last.
async fn leave(
    member: usize,
    claim: &mut impl Claim,
    until: Instant,
    reports: &UnboundedSender<Report>,
) -> Said {
    let mut failures = 0;
    loop {
        match claim.withdraw().await {
            // An earlier try took effect, and only its answer was lost.
            Ok(_) if failures > 0 => return Said::Left(Withdrawal::Released),
            Ok(withdrawal) => return Said::Left(withdrawal),
            Err(fault) if !fault.is_transient() || clock::now() >= until => {
                return Said::GaveUp(fault);
            }
            Err(fault) => {
                failures += 1;
                drop(reports.send((member, Said::Stays(fault))));
            }
        }
        tokio::time::sleep(FAULT_PAUSES.pause(failures, clock::random_bits())).await;
    }
}
