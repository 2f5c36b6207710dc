//! Requests of an operator.

use std::time::Duration;

use redis::{FromRedisValue as _, Value};

use crate::backend::Fault;
use crate::key::Key;
use crate::redis::lock::operator::{WAITERS_SHOWN_MAX, holder_as, waiter_as};
use crate::redis::protocol::names;
use crate::redis::protocol::redisson::RLock;
use crate::redis::protocol::script::{REDISSON_FORCE_RELEASE, REDISSON_INSPECT};
use crate::redis::topology::Topology;
use crate::redis::topology::clients::LOOK_PAUSE;
use crate::redis::wire::fault;
use crate::redis::wire::request::Call;
use crate::view::Inspection;

/// The holder of a key, and our claims that wait. Waiters in Java are not told.
pub(super) async fn inspect(servers: &Topology, key: &Key) -> Result<Inspection, Fault> {
    let rlock = RLock::new(key);
    let mut command = REDISSON_INSPECT.evalsha(2);
    command.arg(rlock.lock()).arg(rlock.waiting()).arg(WAITERS_SHOWN_MAX);
    let call = Call { script: &REDISSON_INSPECT, command, slot: 0 };
    let answer = servers.call(call).await.map_err(|unserved| unserved.fault.into_fault())?;
    let (held, left_ms, waiting) = <(Vec<Vec<u8>>, i64, Vec<Vec<u8>>)>::from_redis_value(answer)
        .map_err(|_| fault::strange("an inspection"))?;
    let left = u64::try_from(left_ms).ok().map(Duration::from_millis);
    let owners = held.iter().chain(&waiting);
    servers.look_for(0, owners.filter_map(|owner| names::session_of(owner)), LOOK_PAUSE).await;
    let holders: Vec<_> = held.iter().map(|owner| holder_as(servers, owner, left)).collect();
    let waiters = waiting.iter().map(|owner| waiter_as(servers, owner)).collect();
    Ok(Inspection::new(holders, waiters))
}

/// Takes a key away from whoever holds it; `false` if nobody does.
pub(super) async fn force_release(servers: &Topology, key: &Key) -> Result<bool, Fault> {
    let rlock = RLock::new(key);
    let until = servers.until(0).await?;
    let mut command = REDISSON_FORCE_RELEASE.evalsha(1);
    command.arg(rlock.lock()).arg(rlock.channel()).arg(until);
    let call = Call { script: &REDISSON_FORCE_RELEASE, command, slot: 0 };
    match servers.call(call).await {
        Ok(Value::Int(released @ (0 | 1))) => Ok(released == 1),
        Ok(_) => Err(fault::strange("a forced release")),
        Err(unserved) => Err(unserved.fault.into_fault()),
    }
}
