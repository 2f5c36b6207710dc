//! Withdrawals that were not answered. They are tried again until the store answers or the lease
//! has ended, whatever became of the caller.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::cell::{KeyCell, ReleaseReply};
use super::{clock, observe};
use crate::backend::{DynClaim, Fault, Withdrawal};
use crate::key::Key;
use crate::proto::{FAULT_PAUSES, ReleaseAnswer};

/// How long a release waits for the store before it says that its outcome is not known.
pub(crate) const RELEASE_WITHIN: Duration = Duration::from_secs(2);

/// Counts itself out even if its runtime drops it.
struct Counted(Arc<KeyCell>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.shared.leave_ends();
    }
}

/// Goes on trying; `fault` is what the first try, begun at `since`, met.
pub(super) fn in_background(
    cell: &Arc<KeyCell>,
    claim: Box<dyn DynClaim>,
    reply: Option<ReleaseReply>,
    fault: Fault,
    since: Instant,
    lease: Duration,
) {
    cell.shared.leave_begins();
    let counted = Counted(cell.clone());
    // Called by the driver only, so there is a runtime.
    tokio::spawn(async move {
        again(counted.0.key(), claim, reply, fault, since, lease).await;
        drop(counted);
    });
}

async fn again(
    key: &Key,
    mut claim: Box<dyn DynClaim>,
    mut reply: Option<ReleaseReply>,
    mut fault: Fault,
    since: Instant,
    lease: Duration,
) {
    let mut failures = 1;
    loop {
        let now = clock::now();
        let over = !fault.is_transient() || now >= since + lease;
        if over || now >= since + RELEASE_WITHIN {
            answer(&mut reply, ReleaseAnswer::Unknown(fault.clone()));
        }
        if over {
            return;
        }
        tokio::time::sleep(FAULT_PAUSES.pause(failures, clock::random_bits())).await;
        let span = observe::request::<Withdrawal>(key);
        match observe::asked(span, clock::now(), claim.withdraw()).await {
            // An earlier try took effect, and only its answer was lost.
            Ok(_) => return answer(&mut reply, ReleaseAnswer::Released),
            Err(next) => fault = next,
        }
        failures += 1;
    }
}

fn answer(reply: &mut Option<ReleaseReply>, answer: ReleaseAnswer) {
    if let Some(reply) = reply.take() {
        // The releasing task may be gone.
        drop(reply.send(answer));
    }
}
