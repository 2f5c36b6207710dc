//! The checks that the servers will serve every verb.

use std::collections::HashMap;
use std::sync::Arc;

use redis::{Cmd, FromRedisValue, Value};

use super::Topology;
use crate::backend::{Fault, FaultKind};
use crate::redis::wire::connection::Connection;
use crate::redis::wire::fault;
use crate::redis::wire::request::REQUEST_WITHIN;

/// Checks that the user may run every command of the scripts; names those that it may not.
pub(in crate::redis) async fn rights(servers: &Topology) -> Result<(), Fault> {
    let refused = match servers.cluster() {
        Some(cluster) => cluster.refused(true).await?.1,
        None => Vec::new(),
    };
    rights_beside(servers, &refused).await
}

/// The same, with what was refused already.
pub(in crate::redis) async fn rights_beside(
    servers: &Topology,
    refused: &[&str],
) -> Result<(), Fault> {
    let tried = Vec::<String>::from_redis_value(servers.refused().await?)
        .map_err(|_| fault::strange("the check of its rights"))?;
    let refused: Vec<_> = tried.iter().map(String::as_str).chain(refused.iter().copied()).collect();
    if refused.is_empty() {
        return Ok(());
    }
    let list: Vec<_> = refused.iter().map(|name| format!("+{name}")).collect();
    Err(Fault::new(
        FaultKind::Refused,
        format!("the redis user lacks rights: {} on {}", list.join(" "), servers.layout().reach()),
    ))
}

/// A node of a cluster answers for a part of the keys only.
pub(in crate::redis) async fn no_cluster(connection: &Arc<Connection>) -> Result<(), Fault> {
    let mut command = Cmd::new();
    command.arg("HELLO").arg(3);
    // A server that does not say, or does not know the command, is none.
    let Ok(answer) = connection.call(&command, REQUEST_WITHIN).await else { return Ok(()) };
    let hello = HashMap::<String, Value>::from_redis_value(answer).unwrap_or_default();
    if hello.get("mode") != Some(&Value::BulkString(b"cluster".to_vec())) {
        return Ok(());
    }
    let what = "the server is a node of a cluster: use `redis+cluster://`, which has no `layout`";
    Err(Fault::new(FaultKind::Refused, what))
}

/// Warns when the server may throw a held lock away to make room.
pub(in crate::redis) async fn eviction(servers: &Topology) {
    let mut command = Cmd::new();
    command.arg("INFO").arg("memory");
    let info = match servers.send_main(&command).await {
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

/// Warns when a master that is cut off from its replicas goes on to grant.
pub(in crate::redis) async fn min_replicas(servers: &Topology) {
    let mut command = Cmd::new();
    command.arg("INFO").arg("replication");
    let info = match servers.send_main(&command).await {
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

/// Whether a master that has lost its replicas refuses to write, by its `INFO replication`. Only a
/// master that needs some shows how many it has of those that it needs.
fn refuses_alone(info: &str) -> bool {
    info.lines().any(|line| line.starts_with("min_slaves_good_slaves:"))
}

/// The policy by which the server makes room, if it does, by its `INFO memory`.
pub(in crate::redis) fn evicting(info: &str) -> Option<&str> {
    let field = |name: &str| {
        let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.unwrap_or_default().trim()
    };
    let policy = field("maxmemory_policy");
    let evicts = field("maxmemory") != "0" && !matches!(policy, "" | "noeviction");
    evicts.then_some(policy)
}

/// Checks that the application's pool leads to the database that pushes and renewals use.
pub(in crate::redis) async fn pool(servers: &Topology) -> Result<(), Fault> {
    let name = servers.probe_key();
    let mut set = Cmd::new();
    set.arg("SET").arg(name).arg(&*servers.session.id).arg("PX").arg(1_000);
    let sent = servers.send_pooled(&set).await;
    sent.map_err(|wrong| wrong.unserved.fault.into_fault())?;
    let mut get = Cmd::new();
    get.arg("GET").arg(name);
    let seen = servers.send_main(&get).await.map_err(|error| error.fault.into_fault())?;
    if seen == Value::BulkString(servers.session.id.as_bytes().to_vec()) {
        return Ok(());
    }
    Err(Fault::new(
        FaultKind::Refused,
        "the pool leads to another server or database than the URL: renewals would miss its locks",
    ))
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
