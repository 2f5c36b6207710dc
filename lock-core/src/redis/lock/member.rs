//! A claim at a member of a quorum, and the member itself. The member is probed over each new
//! connection before anything is attempted over it. It serves under its enrolment only (see
//! [`gate`](crate::redis::topology::gate)).

use std::time::Duration;

use redis::{Cmd, FromRedisValue as _, Value};

use super::claim::{CLAIM_LEASE, RedisClaim, millis};
use crate::backend::{Enrolment, Fault, FaultKind, MemberClaim, Probe, SEEN_WITHIN};
use crate::redis::protocol::names::QUORUM;
use crate::redis::protocol::script::{
    ENROL, PROBE, QUORUM_ATTEMPT, QUORUM_WITHDRAW, RAISE, Script,
};
use crate::redis::topology::Topology;
use crate::redis::topology::gate::{self, Pass};
use crate::redis::topology::single::Over;
use crate::redis::wire::fault;
use crate::redis::wire::request::{Call, Failure, Unserved};

/// The time by which the last token of a key outlives the last lease under it, at a member of a
/// quorum.
const FENCE_KEPT: Duration = Duration::from_secs(60 * 60);

/// The answer of a member's script where the enrolment is not the one that is stored.
const REFUSED: Value = Value::Int(-2);

impl RedisClaim {
    /// The pass under which a member of a quorum is asked; a lock of one server has none.
    pub(super) fn pass(&self) -> Option<Pass> {
        self.clock().and_then(|_| self.servers.gate.pass())
    }

    /// A call for the key at a server of a quorum, which needs more keys where it is enrolled.
    fn of_quorum(&self, script: &'static Script) -> Call {
        let command = script.of_quorum(&self.names, self.pass().is_some());
        Call { script, command, slot: 0 }
    }

    pub(super) fn attempt_of_quorum(&self, join: bool, clock: u64) -> Call {
        let mut call = self.of_quorum(&QUORUM_ATTEMPT);
        call.command
            .arg(self.owner())
            .arg(millis(self.lease()))
            .arg(self.tokens_max)
            .arg(u8::from(join))
            .arg(millis(CLAIM_LEASE))
            .arg(millis(self.claim_lease()))
            .arg(millis(self.lease() + FENCE_KEPT))
            .arg(clock);
        call
    }

    pub(super) fn withdrawal_of_quorum(&self, clock: u64) -> Call {
        let mut call = self.of_quorum(&QUORUM_WITHDRAW);
        call.command.arg(self.owner()).arg(self.tokens_max).arg(clock);
        call
    }

    /// Asks a member of a quorum, which does nothing if it is not as it was probed.
    pub(super) async fn ask_member(&self, mut call: Call, pass: &Pass) -> Result<Value, Unserved> {
        let unready = || Unserved { fault: Failure::Other(fault::unready()), sent: None };
        let Some(only) = self.put_under(&mut call, pass) else { return Err(unready()) };
        match self.call_member(call, Some(only)).await {
            Ok(REFUSED) => Err(unready()),
            answer => answer,
        }
    }

    /// Withdraws from a member of a quorum. One that has to be probed first hands the key to
    /// nobody: that could be a grant that it must not make.
    pub(super) async fn leave_member(&self, call: Call, pass: &Pass) -> Result<Value, Unserved> {
        let mut under = call.clone();
        if let Some(only) = self.put_under(&mut under, pass) {
            match self.call_member(under, Some(only)).await {
                Err(unserved) if unserved.is_unready() => {}
                answer => return answer,
            }
        }
        let mut call = call;
        call.command.arg("");
        self.call_member(call, None).await
    }

    /// Adds what a member compares. Returns the connection over which it was probed: the call may go
    /// over no other, but for those of a pool. `None` where the member is shut.
    fn put_under(&self, call: &mut Call, pass: &Pass) -> Option<Over> {
        let Pass::Under { enrolment, incarnation, connection } = pass else { return None };
        call.command.arg(&**enrolment);
        if self.servers.has_pool() {
            call.command.arg(&**incarnation);
        }
        Some(*connection)
    }

    /// Over this connection only if one is given; a pool's cannot be told apart.
    async fn call_member(&self, call: Call, only: Option<Over>) -> Result<Value, Unserved> {
        if self.servers.has_pool() {
            return self.servers.call(call).await;
        }
        self.servers.call_over(&call, only).await.map(|(answer, _)| answer)
    }
}

impl MemberClaim for RedisClaim {
    fn count_from(&mut self, clock: u64) {
        self.more().clock = Some(clock);
    }

    async fn raise(&mut self, to: u64) -> Result<bool, Fault> {
        let mut call = self.of_quorum(&RAISE);
        call.command.arg(self.owner()).arg(to).arg(millis(self.lease() + FENCE_KEPT));
        let answer = match self.pass() {
            None => self.servers.call(call).await,
            Some(pass) => self.ask_member(call, &pass).await,
        };
        match answer {
            Ok(Value::Int(raised)) => Ok(raised == 1),
            Ok(_) => Err(fault::strange("a raise of the fence")),
            Err(unserved) => Err(unserved.fault.into_fault()),
        }
    }
}

pub(in crate::redis) async fn probe(servers: &Topology) -> Result<Probe, Fault> {
    if servers.gate.is_unprobed() {
        servers.probe().await?;
        servers.gate.is_probed();
    } else {
        // The conductor may have been first, and does not go through a pool.
        servers.try_pool().await?;
    }
    let mut command = PROBE.evalsha(QUORUM.len());
    command.arg(&QUORUM);
    let probe = Call { script: &PROBE, command, slot: 0 };
    let (answer, connection) = match servers.call_over(&probe, None).await {
        Ok(answer) => answer,
        Err(unserved) => {
            let fault = unserved.fault.into_fault();
            return Err(if fault.kind() == FaultKind::Refused { lacks_info(fault) } else { fault });
        }
    };
    let probe = read(answer)?;
    servers.gate.was_looked_at(connection, &probe.incarnation);
    Ok(probe)
}

fn lacks_info(fault: Fault) -> Fault {
    let what =
        format!("a member of a quorum needs the right +info beside those of a lock: {fault}");
    Fault::new(FaultKind::Refused, what)
}

fn read(answer: Value) -> Result<Probe, Fault> {
    type Parts = (Option<String>, Option<String>, u64, u64, String);
    let strange = || fault::strange("a probe of a member of a quorum");
    let (enrolment, highest, s, us, info) =
        Parts::from_redis_value(answer).map_err(|_| strange())?;
    let field = |name: &str| {
        info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
    };
    let foreign = |_| {
        let what = format!("what is stored at `{}` is no enrolment of a member", QUORUM[0]);
        Fault::new(FaultKind::ForeignValue, what)
    };
    let up_s: u64 = field("uptime_in_seconds").and_then(|up| up.parse().ok()).unwrap_or(0);
    Ok(Probe {
        enrolment: enrolment.map(|text| text.parse().map_err(foreign)).transpose()?,
        incarnation: field("run_id").ok_or_else(strange)?.to_owned(),
        now: Duration::from_secs(s) + Duration::from_micros(us),
        // Two clocks in whole seconds were taken from each other.
        up_for: Duration::from_secs(up_s.saturating_sub(1)),
        highest: match highest {
            Some(highest) => highest.parse().map_err(|_| strange())?,
            None => 0,
        },
    })
}

pub(in crate::redis) async fn enrol(
    servers: &Topology,
    seen: &Probe,
    enrolment: &Enrolment,
) -> Result<bool, Fault> {
    let mut command: Cmd = ENROL.evalsha(1);
    command
        .arg(QUORUM[0])
        .arg(seen.enrolment.as_ref().map(Enrolment::to_string).unwrap_or_default())
        .arg(enrolment.to_string())
        .arg(gate::incarnation_line(&seen.incarnation))
        .arg(u64::try_from(seen.now.as_micros()).unwrap_or(u64::MAX))
        .arg(u64::try_from(SEEN_WITHIN.as_micros()).unwrap_or(u64::MAX));
    let enrol = Call { script: &ENROL, command, slot: 0 };
    match servers.call_over(&enrol, None).await {
        Ok((Value::Int(written), _)) => Ok(written == 1),
        Ok(_) => Err(fault::strange("an enrolment")),
        Err(unserved) => Err(unserved.fault.into_fault()),
    }
}
