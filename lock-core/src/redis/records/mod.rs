//! Idempotency records on one Redis server, on the master that sentinels name, or on a cluster.
//!
//! | key | type | holds | lives |
//! |---|---|---|---|
//! | `idem:{<id>}` | string | one record, or the mark of an abort | its `in_flight_ttl` or `record_ttl`; a mark 5 min |
//!
//! A record has a head of 192 bytes that begins with `idem1`, and its payload; see `record.lua`.
//! All times are the server's.
//!
//! - `peek.lua`, `claim.lua`, `complete.lua`, `abort.lua`: one script for each verb.
//! - `record.lua`: their reader and writer of records. `rights.lua`: the check of a user's rights.
//! - `script`: the scripts, put together. `reply`: their answers.

mod reply;
mod script;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, FromRedisValue as _, Value};

use self::script::{ABORT, CLAIM, COMPLETE, PEEK, RIGHTS};
use super::protocol::script::Script;
use super::protocol::slots;
use super::schemes::STORES;
use super::topology::cluster::{Cluster, Target};
use super::topology::origin::{Meant, Origin};
use super::topology::probe;
use super::wire::connection::Connection;
use super::wire::fault;
use super::wire::pool::RedisPool;
use super::wire::request::{Call, Failure, REQUEST_WITHIN, Request, Unserved};
use super::wire::runtime::needs_runtime;
#[cfg(feature = "deadpool")]
use super::wire::runtime::needs_runtime_of_pools;
use super::wire::session::Session;
use crate::backend::{ClaimId, ConnectError, Fault, FaultKind, StoreUrl};
use crate::records::{
    BoxFuture, ClaimRecord, Claimed, Fingerprint, Found, MARK_TTL, OnUnknown, Outcome,
    RECORD_TTL_MAX, RecordId, RecordStore, Written,
};
use crate::token::FencingToken;

/// Idempotency records on one Redis server, 6.2 or later, or on a cluster. Clones share their
/// connections.
///
/// The server must not evict them (`maxmemory-policy noeviction`): a record that is gone early is
/// a request that runs twice. A failover that loses the last writes loses completions, too: what
/// they say has happened may run again. Of a server without persistence the records are gone when it
/// restarts. Use one server for the locks and the records, or two.
#[derive(Clone)]
pub struct RedisRecords {
    wire: Wire,
}

#[derive(Clone)]
enum Wire {
    Own(Arc<Connection>),
    Cluster(Arc<Cluster>),
    #[cfg_attr(not(feature = "deadpool"), expect(dead_code, reason = "there is no pool then"))]
    Pool(RedisPool),
}

impl RedisRecords {
    /// Connects, and checks that the server will serve every verb. The URLs `redis:`,
    /// `redis+unix:`, `redis+sentinel:` and `redis+cluster:` are those of
    /// [`LockClient::connect`](crate::LockClient::connect).
    ///
    /// # Errors
    ///
    /// [`ConnectError::Url`] for a malformed URL; [`ConnectError::Store`] when the server cannot
    /// be reached within 2 s, refuses the password, or lacks a right (each is named);
    /// [`ConnectError::NoRuntime`] outside of a Tokio runtime, and in one without timers. No error
    /// repeats the URL, as it may hold a password.
    ///
    /// # Cancel safety
    ///
    /// A connect that was begun ends by itself, within 2 s.
    pub async fn connect(url: &str) -> Result<Self, ConnectError> {
        needs_runtime()?;
        let connected = match Meant::by(&StoreUrl::parse(url, &STORES)?)? {
            Meant::Single(origin) => Self::connect_single(&origin).await,
            Meant::Cluster(target) => Self::connect_cluster(target).await,
        };
        connected.map_err(ConnectError::Store)
    }

    async fn connect_single(origin: &Origin) -> Result<Self, Fault> {
        let connection = Connection::plain(origin.route());
        connection.get(REQUEST_WITHIN).await?;
        probe::no_cluster(&connection).await?;
        let probe = format!("idem:{{probe-{}}}", ClaimId::random());
        Self { wire: Wire::Own(connection) }.checked(&probe, &[]).await
    }

    async fn connect_cluster(target: Target) -> Result<Self, Fault> {
        let session = Session::new(None);
        let cluster = Cluster::connect(target, session.clone()).await?;
        let (slot, refused) = cluster.refused(false).await?;
        let probe = format!("idem:{{{}}}:probe-{}", slots::tag_of(slot), session.id);
        Self { wire: Wire::Cluster(cluster) }.checked(&probe, &refused).await
    }

    /// Sends everything through the application's own pool, and checks that the server will serve
    /// every verb.
    ///
    /// # Errors
    ///
    /// The same as of [`connect`](Self::connect), and when the pool has no connection within 2 s.
    /// [`ConnectError::NoRuntime`] also in a runtime without I/O.
    ///
    /// # Cancel safety
    ///
    /// Nothing is left behind when it is dropped.
    #[cfg(feature = "deadpool")]
    pub async fn with_pool(pool: impl Into<RedisPool>) -> Result<Self, ConnectError> {
        needs_runtime_of_pools()?;
        let probe = format!("idem:{{probe-{}}}", ClaimId::random());
        let this = Self { wire: Wire::Pool(pool.into()) };
        this.checked(&probe, &[]).await.map_err(ConnectError::Store)
    }

    async fn checked(self, probe: &str, refused: &[&str]) -> Result<Self, Fault> {
        self.rights(probe, refused).await?;
        self.eviction(probe).await;
        Ok(self)
    }

    /// Checks that the user may run every command of the scripts; names those that it may not.
    async fn rights(&self, probe: &str, refused: &[&str]) -> Result<(), Fault> {
        let answer = self.call(on(&RIGHTS, probe)).await?;
        let tried = Vec::<String>::from_redis_value(answer)
            .map_err(|_| fault::strange("the check of its rights"))?;
        let refused: Vec<_> =
            tried.iter().map(String::as_str).chain(refused.iter().copied()).collect();
        if refused.is_empty() {
            return Ok(());
        }
        let list: Vec<_> = refused.iter().map(|name| format!("+{name}")).collect();
        let what = format!("the redis user lacks rights: {} on keys ~idem:*", list.join(" "));
        Err(Fault::new(FaultKind::Refused, what))
    }

    /// Warns when the server may throw a record away to make room.
    async fn eviction(&self, probe: &str) {
        let mut command = Cmd::new();
        command.arg("INFO").arg("memory");
        let info = match self.send(slots::slot_of(probe.as_bytes()), &command).await {
            Ok(answer) => String::from_redis_value(answer).unwrap_or_default(),
            Err(_) => {
                tracing::debug!("no right to INFO: not checked whether redis may evict a record");
                return;
            }
        };
        if let Some(policy) = probe::evicting(&info) {
            tracing::warn!(
                policy,
                "redis may evict an idempotency record when its memory is full, and what it \
                 remembers would run again: use maxmemory-policy noeviction"
            );
        }
    }

    async fn call(&self, call: Call) -> Result<Value, Fault> {
        let answer = match &self.wire {
            Wire::Cluster(cluster) => cluster.call(&call).await,
            _ => {
                let answer = self.send(call.slot, &call.command).await;
                match call.in_full(&answer) {
                    Some(command) => self.send(call.slot, &command).await,
                    None => answer,
                }
            }
        };
        answer.map_err(|unserved| of_records(unserved.fault))
    }

    /// Sends one command, in a cluster to the node that serves a slot.
    async fn send(&self, slot: u16, command: &Cmd) -> Result<Value, Unserved> {
        match &self.wire {
            Wire::Own(connection) => connection.call(command, REQUEST_WITHIN).await,
            Wire::Cluster(cluster) => cluster.send(slot, command).await,
            Wire::Pool(pool) => {
                let sent = pool.send(Request { command, replicas: None }).await;
                sent.map_err(|wrong| wrong.unserved)
            }
        }
    }
}

/// A fault of the server in terms of records.
fn of_records(failure: Failure) -> Fault {
    let fault = failure.into_fault();
    let what = match fault.kind() {
        FaultKind::ForeignValue => {
            "what is stored at the key of this record is no idempotency record of this version; \
             it was left as it is"
        }
        FaultKind::Refused if fault.to_string().contains("~lock:*") => {
            "the redis user may not use keys ~idem:*"
        }
        _ => return fault,
    };
    Fault::new(fault.kind(), what).with_source(fault)
}

/// A call for one record; the caller adds arguments.
fn on_record(script: &'static Script, id: RecordId) -> Call {
    on(script, &format!("idem:{{{id}}}"))
}

fn on(script: &'static Script, key: &str) -> Call {
    let mut command = script.evalsha(1);
    command.arg(key);
    Call { script, command, slot: slots::slot_of(key.as_bytes()) }
}

/// A token as the scripts have it.
fn digits(token: FencingToken) -> String {
    format!("{:020}", token.get())
}

fn millis(ttl: Duration) -> u64 {
    u64::try_from(ttl.min(RECORD_TTL_MAX).as_millis()).unwrap_or(u64::MAX).max(1)
}

impl RecordStore for RedisRecords {
    fn peek(&self, id: RecordId, fingerprint: Fingerprint) -> BoxFuture<'_, Result<Found, Fault>> {
        let mut call = on_record(&PEEK, id);
        call.command.arg(fingerprint.as_bytes());
        Box::pin(async move { reply::found(self.call(call).await?) })
    }

    fn claim<'a>(
        &'a self,
        id: RecordId,
        record: &'a ClaimRecord,
    ) -> BoxFuture<'a, Result<Claimed, Fault>> {
        let mut call = on_record(&CLAIM, id);
        let refuse = u8::from(record.on_unknown == OnUnknown::Refuse);
        call.command.arg(record.fingerprint.as_bytes()).arg(digits(record.token));
        call.command.arg(millis(record.ttl)).arg(refuse);
        Box::pin(async move { reply::claimed(self.call(call).await?) })
    }

    fn complete<'a>(
        &'a self,
        id: RecordId,
        token: FencingToken,
        outcome: &'a Outcome,
        ttl: Duration,
    ) -> BoxFuture<'a, Result<Written, Fault>> {
        let mut call = on_record(&COMPLETE, id);
        let (state, payload) = match outcome {
            Outcome::Payload(payload) => ("d", &payload[..]),
            Outcome::WithoutPayload => ("t", &[][..]),
        };
        call.command.arg(digits(token)).arg(state).arg(payload).arg(millis(ttl));
        Box::pin(async move { reply::written(self.call(call).await?) })
    }

    fn abort(&self, id: RecordId, token: FencingToken) -> BoxFuture<'_, Result<Written, Fault>> {
        let mut call = on_record(&ABORT, id);
        call.command.arg(digits(token)).arg(millis(MARK_TTL));
        Box::pin(async move { reply::written(self.call(call).await?) })
    }
}

impl fmt::Debug for RedisRecords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The connection's URL may hold a password.
        f.debug_struct("RedisRecords").finish_non_exhaustive()
    }
}
