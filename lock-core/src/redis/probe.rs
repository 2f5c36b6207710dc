//! What is asked of the server apart from the verbs: whether it will serve them, who holds a key,
//! and to take it away.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, FromRedisValue, Value};

use super::fault;
use super::link::Link;
use super::names::{self, Names};
use super::node::Node;
use super::request::REQUEST_WITHIN;
#[cfg(feature = "deadpool")]
use super::request::Request;
use super::script::{FORCE_RELEASE, INSPECT, MEMBER_FORCE_RELEASE};
use crate::backend::{Fault, FaultKind};
use crate::engine::FENCES;
use crate::inspect::{Holder, Inspection, Waiter};
use crate::key::Key;
use crate::token::FencingToken;

/// Waiting claims that an inspection lists at most.
const WAITERS_SHOWN_MAX: usize = 100;

/// The longest part of a foreign value that an inspection shows.
const VALUE_SHOWN_MAX: usize = 64;

/// Whether the user may run every command of the scripts; names those that it may not.
pub(super) async fn rights(node: &Node) -> Result<(), Fault> {
    let refused = match node.cluster() {
        Some(cluster) => cluster.refused(true).await?.1,
        None => Vec::new(),
    };
    rights_beside(node, &refused).await
}

/// The same, with what was refused already.
pub(super) async fn rights_beside(node: &Node, refused: &[&str]) -> Result<(), Fault> {
    let tried = Vec::<String>::from_redis_value(node.refused().await?)
        .map_err(|_| fault::strange("the check of its rights"))?;
    let refused: Vec<_> = tried.iter().map(String::as_str).chain(refused.iter().copied()).collect();
    if refused.is_empty() {
        return Ok(());
    }
    let list: Vec<_> = refused.iter().map(|name| format!("+{name}")).collect();
    Err(Fault::new(
        FaultKind::Refused,
        format!(
            "the redis user lacks rights: {} on keys ~lock:* and channels &lock:push:*",
            list.join(" ")
        ),
    ))
}

/// A node of a cluster answers for a part of the keys only.
pub(super) async fn no_cluster(link: &Arc<Link>) -> Result<(), Fault> {
    let mut command = Cmd::new();
    command.arg("HELLO").arg(3);
    // A server that does not say, or does not know the command, is none.
    let Ok(answer) = link.call(&command, REQUEST_WITHIN).await else { return Ok(()) };
    let hello = HashMap::<String, Value>::from_redis_value(answer).unwrap_or_default();
    if hello.get("mode") != Some(&Value::BulkString(b"cluster".to_vec())) {
        return Ok(());
    }
    let what = "the server is a node of a cluster: use `redis+cluster://`";
    Err(Fault::new(FaultKind::Refused, what))
}

/// Warns when the server may throw a held lock away to make room.
pub(super) async fn eviction(node: &Node) {
    let mut command = Cmd::new();
    command.arg("INFO").arg("memory");
    let info = match node.send_main(&command).await {
        Ok(answer) => String::from_redis_value(answer).unwrap_or_default(),
        Err(_) => {
            tracing::debug!("no right to INFO: not checked whether redis may evict a held lock");
            return;
        }
    };
    if let Some(policy) = evicting(&info) {
        tracing::warn!(
            policy,
            "redis may evict a held lock when its memory is full: use maxmemory-policy noeviction"
        );
    }
}

/// Whether a server that sentinels name is the master. It may not be yet, or not any more.
pub(super) async fn master(connection: &mut MultiplexedConnection) -> Result<(), Fault> {
    let mut role = Cmd::new();
    role.arg("ROLE");
    match connection.send_packed_command(&role).await.and_then(Value::extract_error) {
        Ok(Value::Array(parts)) if parts.first() == Some(&Value::BulkString("master".into())) => {
            Ok(())
        }
        Ok(_) => {
            let what = "the server that the sentinels name is no master now";
            Err(Fault::new(FaultKind::Transient, what))
        }
        Err(error) => {
            let fault = fault::fault(error);
            if fault.kind() != FaultKind::Refused {
                return Err(fault);
            }
            // It refuses to write if it is none.
            tracing::debug!("no right to ROLE: not checked whether it is the master");
            Ok(())
        }
    }
}

/// Has the server tell over this connection which of the keys that are read over it, where that is
/// asked for, were written by others; whether it agreed. Without that a holder finds at its next
/// renewal that its key is gone.
pub(super) async fn track(connection: &mut MultiplexedConnection) -> Result<bool, Fault> {
    let mut track = Cmd::new();
    track.arg("CLIENT").arg("TRACKING").arg("ON").arg("OPTIN").arg("NOLOOP");
    match connection.send_packed_command(&track).await.and_then(Value::extract_error) {
        Err(error) if error.is_unrecoverable_error() => Err(fault::fault(error)),
        Err(error) => {
            tracing::debug!(%error, "no CLIENT TRACKING: a deletion by hand shows at a renewal");
            Ok(false)
        }
        Ok(_) => Ok(true),
    }
}

/// Warns when a master that is cut off from its replicas goes on to grant.
pub(super) async fn min_replicas(node: &Node) {
    let mut command = Cmd::new();
    command.arg("INFO").arg("replication");
    let info = match node.send_main(&command).await {
        Ok(answer) => String::from_redis_value(answer).unwrap_or_default(),
        Err(_) => {
            tracing::debug!("no right to INFO: not checked whether min-replicas-to-write is set");
            return;
        }
    };
    if !refuses_alone(&info) {
        tracing::warn!(
            "redis has no min-replicas-to-write: a master that is cut off from its replicas and \
             from the sentinels goes on to grant locks that its successor grants, too"
        );
    }
}

/// Whether a master that has lost its replicas refuses to write, of its `INFO replication`: how
/// many it has of those that it needs is shown only where it needs any.
fn refuses_alone(info: &str) -> bool {
    info.lines().any(|line| line.starts_with("min_slaves_good_slaves:"))
}

/// The policy by which the server makes room, if it does, of its `INFO memory`.
pub(super) fn evicting(info: &str) -> Option<&str> {
    let field = |name: &str| {
        let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.unwrap_or_default().trim()
    };
    let policy = field("maxmemory_policy");
    let evicts = field("maxmemory") != "0" && !matches!(policy, "" | "noeviction");
    evicts.then_some(policy)
}

/// Whether the application's pool is of the same kind as the URL.
#[cfg(feature = "deadpool")]
pub(super) fn kind_of_pool(node: &Node) -> Result<(), Fault> {
    match node.has_pool_of_cluster() {
        Some(of_cluster) if of_cluster != node.cluster().is_some() => {
            let what = "of the URL and the pool one is of a cluster and the other is not";
            Err(Fault::new(FaultKind::Refused, what))
        }
        _ => Ok(()),
    }
}

/// Whether the application's pool leads to the database that pushes and renewals use.
#[cfg(feature = "deadpool")]
pub(super) async fn pool(node: &Node) -> Result<(), Fault> {
    if !node.has_pool() {
        return Ok(());
    }
    let name = node.probe_key();
    let mut set = Cmd::new();
    set.arg("SET").arg(name).arg(&*node.session).arg("PX").arg(1_000);
    let sent = node.send_pooled(Request { command: &set, replicas: None }).await;
    sent.map_err(|misled| misled.unserved.fault.into_fault())?;
    let mut get = Cmd::new();
    get.arg("GET").arg(name);
    let seen = node.send_main(&get).await.map_err(|error| error.fault.into_fault())?;
    if seen == Value::BulkString(node.session.as_bytes().to_vec()) {
        return Ok(());
    }
    Err(Fault::new(
        FaultKind::Refused,
        "the pool leads to another server or database than the URL: renewals would miss its locks",
    ))
}

/// Who holds a key and who waits.
pub(super) async fn inspect(node: &Node, key: &Key) -> Result<Inspection, Fault> {
    let names = Names::new(key);
    // Only a member of a quorum keeps the last token of a key.
    let fence = node.gate.pass().map(|_| names.fence());
    let mut command = INSPECT.evalsha(2 + fence.iter().count());
    command.arg(names.lock()).arg(names.queue()).arg(fence).arg(WAITERS_SHOWN_MAX);
    let answer = node.call(&INSPECT, command).await.map_err(|error| error.fault.into_fault())?;
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
pub(super) async fn force_release(node: &Node, key: &Key) -> Result<bool, Fault> {
    let (names, is_member) = (Names::new(key), node.gate.pass().is_some());
    let (script, mut command) = match is_member {
        false => (node.script(&FORCE_RELEASE), node.command(&FORCE_RELEASE, &names)),
        // It hands the key to nobody: those in line ask again soon.
        true => (&*MEMBER_FORCE_RELEASE, MEMBER_FORCE_RELEASE.of_quorum(&names, true)),
    };
    if is_member {
        command.arg(FENCES);
    }
    match node.call(script, command).await {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_master_that_writes_alone_is_known_by_what_it_does_not_show() {
        let alone = "# Replication\r\nrole:master\r\nconnected_slaves:2\r\n";
        assert!(!refuses_alone(alone));
        assert!(refuses_alone(&format!("{alone}min_slaves_good_slaves:2\r\n")));
    }
}
