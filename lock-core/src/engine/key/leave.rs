//! Withdrawals that were not answered. They are tried again until the store answers or the lease
//! has ended, whatever became of the caller.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::host::{Host, ReleaseReply};
use crate::backend::{DynClaim, Fault, Withdrawal};
use crate::engine::observe::Asked;
use crate::ground::{FAULT_PAUSES, Plus as _, clock, foreign};
use crate::key::Key;
use crate::proto::ReleaseAnswer;

/// How long a release waits for the store before it says that its outcome is not known.
pub(crate) const RELEASE_WITHIN: Duration = Duration::from_secs(2);

/// Goes on trying; `fault` is what the first try, begun at `since`, met.
pub(super) fn in_background<K: Host>(
    cell: &Arc<K>,
    claim: Box<dyn DynClaim>,
    reply: Option<ReleaseReply>,
    fault: Fault,
    since: Instant,
    lease: Duration,
) {
    let key = cell.key().clone();
    cell.in_background(async move {
        let mut reply = reply;
        let too_long = clock::sleep_until(since.plus(RELEASE_WITHIN));
        let unknown = ReleaseAnswer::Unknown(fault.clone());
        let mut leaving = pin!(again(&key, claim, fault, since.plus(lease)));
        tokio::select! {
            biased;
            answer = &mut leaving => return tell(&mut reply, answer),
            () = too_long => tell(&mut reply, unknown),
        }
        leaving.await;
    });
}

async fn again(
    key: &Key,
    mut claim: Box<dyn DynClaim>,
    mut fault: Fault,
    until: Instant,
) -> ReleaseAnswer {
    let (mut failures, mut past) = (1, Past::of(&fault));
    while fault.is_transient() && clock::now() < until {
        tokio::time::sleep(FAULT_PAUSES.pause(failures, clock::random_bits())).await;
        let answer;
        (claim, answer) = Asked::new(key, claim.withdraw(), clock::now()).await;
        match answer {
            Ok(Withdrawal::Released) => return ReleaseAnswer::Released,
            Ok(not_held) => {
                past.is_elsewhere |= not_held == Withdrawal::Elsewhere;
                return past.not_held(fault);
            }
            Err(next) => {
                past.add(&next);
                fault = next;
            }
        }
        failures += 1;
    }
    ReleaseAnswer::Unknown(fault)
}

/// The effects that the tries so far may have had.
#[derive(Debug, Clone, Copy)]
struct Past {
    /// One was sent, and may have taken effect.
    is_sent: bool,
    /// There has been another server since.
    is_elsewhere: bool,
}

impl Past {
    fn of(fault: &Fault) -> Self {
        Self { is_sent: !fault.is_unsent(), is_elsewhere: fault.is_superseded() }
    }

    fn add(&mut self, fault: &Fault) {
        let Self { is_sent, is_elsewhere } = Self::of(fault);
        self.is_sent |= is_sent;
        self.is_elsewhere |= is_elsewhere;
    }

    /// The answer where the claim is found not to hold the key.
    fn not_held(self, fault: Fault) -> ReleaseAnswer {
        match (self.is_sent, self.is_elsewhere) {
            (false, _) => ReleaseAnswer::NotHeld,
            // An earlier try took effect, and only its answer was lost.
            (true, false) => ReleaseAnswer::Released,
            // Or its server did not live to hand the grant itself on to this one.
            (true, true) => ReleaseAnswer::Unknown(fault),
        }
    }
}

fn tell(reply: &mut Option<ReleaseReply>, answer: ReleaseAnswer) {
    if let Some(reply) = reply.take() {
        // The releasing task may be gone.
        foreign::answer(reply, answer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::FaultKind;

    #[test]
    fn a_claim_found_gone_was_released_only_if_a_try_was_sent_to_the_same_server() {
        let sent = || Fault::new(FaultKind::Transient, "no answer");
        let unsent = || sent().unsent();
        let moved = || Fault::new(FaultKind::Superseded, "elsewhere");
        let cases = [
            (vec![sent()], "Released"),
            (vec![unsent()], "NotHeld"),
            (vec![unsent(), unsent()], "NotHeld"),
            (vec![unsent(), sent()], "Released"),
            (vec![sent(), unsent()], "Released"),
            (vec![moved()], "Unknown"),
            (vec![sent(), moved().unsent()], "Unknown"),
            (vec![moved().unsent()], "NotHeld"),
        ];
        for (faults, expected) in cases {
            let mut past = Past::of(&faults[0]);
            faults.iter().for_each(|fault| past.add(fault));
            let answer = format!("{:?}", past.not_held(sent()));
            assert!(answer.starts_with(expected), "{faults:?}: {answer}");
        }
    }
}
