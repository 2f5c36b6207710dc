//! What an operator asks: who holds a key and who waits, and to take it away.

use std::time::Duration;

use redis::FromRedisValue as _;
use redis::Value;

use crate::backend::Fault;
use crate::key::Key;
use crate::redis::protocol::names::{self, Names};
use crate::redis::protocol::script::{FORCE_RELEASE, INSPECT, QUORUM_FORCE_RELEASE};
use crate::redis::topology::Topology;
use crate::redis::wire::fault;
use crate::redis::wire::request::Call;
use crate::token::FencingToken;
use crate::view::{Holder, Inspection, Waiter};

/// The longest part of a foreign value that an inspection shows.
const VALUE_SHOWN_MAX: usize = 64;

/// Waiting claims that an inspection lists at most.
const WAITERS_SHOWN_MAX: usize = 100;

/// Who holds a key and who waits.
pub(in crate::redis) async fn inspect(servers: &Topology, key: &Key) -> Result<Inspection, Fault> {
    let names = Names::new(key);
    // Only a member of a quorum keeps the last token of a key.
    let fence = servers.gate.pass().map(|_| names.fence());
    let mut command = INSPECT.evalsha(2 + fence.iter().count());
    command.arg(names.lock()).arg(names.queue()).arg(fence).arg(WAITERS_SHOWN_MAX);
    let call = Call { script: &INSPECT, command, slot: servers.slot(&names) };
    let answer = servers.call(call).await.map_err(|error| error.fault.into_fault())?;
    type Parts = (Option<Vec<u8>>, i64, Option<String>, Vec<Vec<u8>>);
    let (holder, left_ms, fence, waiters) =
        Parts::from_redis_value(answer).map_err(|_| fault::strange("an inspection"))?;
    let holder = holder.map(|owner| {
        let ours = names::claim_of(&owner).is_some();
        let last = fence.and_then(|fence| fence.split_once(':')?.0.parse().ok());
        let token = last.filter(|_| ours).map(FencingToken::new);
        let left = u64::try_from(left_ms).ok().map(Duration::from_millis);
        Holder::new(shown(&owner), token, left)
    });
    Ok(Inspection::new(holder, waiters.iter().map(|owner| Waiter::new(shown(owner))).collect()))
}

/// Takes a key away from its holder, a client of another library too; `false` if nobody holds it.
pub(in crate::redis) async fn force_release(servers: &Topology, key: &Key) -> Result<bool, Fault> {
    let names = Names::new(key);
    let call = match servers.gate.pass() {
        None => servers.call_for(&FORCE_RELEASE, &names),
        // It hands the key to nobody: those in line ask again soon.
        Some(_) => {
            let mut command = QUORUM_FORCE_RELEASE.evalsha(2);
            command.arg(names.lock()).arg(names.queue());
            Call { script: &QUORUM_FORCE_RELEASE, command, slot: 0 }
        }
    };
    match servers.call(call).await {
        Ok(Value::Int(1 | 2)) => Ok(true),
        Ok(Value::Int(0)) => Ok(false),
        Ok(_) => Err(fault::strange("a forced release")),
        Err(unserved) => Err(unserved.fault.into_fault()),
    }
}

fn shown(owner: &[u8]) -> String {
    match names::claim_of(owner) {
        Some(claim) => claim.to_string(),
        None => owner.escape_ascii().map(char::from).take(VALUE_SHOWN_MAX).collect(),
    }
}
