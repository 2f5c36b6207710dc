//! A server as a member of a quorum: it is looked at over each new connection before anything is
//! attempted over it, and serves under its enrolment only.
//!
//! A restart ends all connections, so a server that may have lost writes is always looked at first:
//! its `run_id` is another then, whatever it kept. A deletion by hand shows in the scripts, which
//! compare the enrolment.
//!
//! What is sent over a connection that was not looked at has its scripts compare the `run_id` as
//! well: over one of a pool, and over that of the other side than the last look, whose turn to look
//! may never come (see `sides`).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::{Cmd, FromRedisValue, Value};

use super::fault;
use super::names::QUORUM;
use super::node::Node;
use super::one::Over;
use super::script::{ENROL, LOOK};
use crate::backend::{Enrolment, Fault, FaultKind, Look, SEEN_WITHIN};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Gate {
    state: Mutex<State>,
    /// Whether its rights were checked.
    probed: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    /// How it is served; `None` if it is no member.
    pass: Option<Pass>,
    /// The connection over which it was looked at last.
    looked: Option<Over>,
}

/// On which terms a member is asked.
#[derive(Debug, Clone)]
pub(super) enum Pass {
    Shut,
    Under {
        enrolment: Arc<str>,
        /// The line of `INFO server` that shows its life.
        life: Arc<str>,
        /// The connection over which that was seen.
        connection: Over,
    },
}

impl Gate {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn pass(&self) -> Option<Pass> {
        self.state().pass.clone()
    }

    pub(super) fn serve_under(&self, enrolment: Option<&Enrolment>) {
        let mut state = self.state();
        state.pass = Some(match (enrolment, state.looked) {
            (Some(enrolment), Some(connection)) => Pass::Under {
                enrolment: enrolment.to_string().into(),
                life: life_line(&enrolment.life).into(),
                connection,
            },
            _ => Pass::Shut,
        });
    }

    /// Whether nothing was checked yet.
    pub(super) fn is_unprobed(&self) -> bool {
        !self.probed.load(Ordering::Acquire)
    }

    pub(super) fn is_probed(&self) {
        self.probed.store(true, Ordering::Release);
    }
}

pub(super) fn unready() -> Fault {
    Fault::new(FaultKind::Unready, "a member of the quorum has to be looked at first")
}

fn life_line(life: &str) -> String {
    format!("run_id:{life}")
}

/// What a script of a member says when the enrolment is not the one that is stored.
pub(super) fn is_refused(answer: &Value) -> bool {
    matches!(answer, Value::Int(-2))
}

pub(super) async fn look(node: &Node) -> Result<Look, Fault> {
    if node.gate.is_unprobed() {
        node.probe().await?;
        node.gate.is_probed();
    }
    let mut command = LOOK.evalsha(QUORUM.len());
    command.arg(&QUORUM);
    let (answer, connection) = match node.call_numbered(&LOOK, command).await {
        Ok(answer) => answer,
        Err(unserved) => {
            let fault = unserved.fault.into_fault();
            return Err(if fault.kind() == FaultKind::Refused { lacks_info(fault) } else { fault });
        }
    };
    let look = read(answer)?;
    node.gate.state().looked = Some(connection);
    Ok(look)
}

fn lacks_info(fault: Fault) -> Fault {
    let what =
        format!("a member of a quorum needs the right +info beside those of a lock: {fault}");
    Fault::new(FaultKind::Refused, what)
}

fn read(answer: Value) -> Result<Look, Fault> {
    type Parts = (Option<String>, Option<String>, u64, u64, String);
    let strange = || fault::strange("a look at a member of a quorum");
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
    Ok(Look {
        enrolment: enrolment.map(|text| text.parse().map_err(foreign)).transpose()?,
        life: field("run_id").ok_or_else(strange)?.to_owned(),
        now: Duration::from_secs(s) + Duration::from_micros(us),
        // Two clocks in whole seconds were taken from each other.
        up_for: Duration::from_secs(up_s.saturating_sub(1)),
        highest: match highest {
            Some(highest) => highest.parse().map_err(|_| strange())?,
            None => 0,
        },
    })
}

pub(super) async fn enrol(node: &Node, seen: &Look, enrolment: &Enrolment) -> Result<bool, Fault> {
    let mut command: Cmd = ENROL.evalsha(1);
    command
        .arg(QUORUM[0])
        .arg(seen.enrolment.as_ref().map(Enrolment::to_string).unwrap_or_default())
        .arg(enrolment.to_string())
        .arg(life_line(&seen.life))
        .arg(u64::try_from(seen.now.as_micros()).unwrap_or(u64::MAX))
        .arg(u64::try_from(SEEN_WITHIN.as_micros()).unwrap_or(u64::MAX));
    match node.call_numbered(&ENROL, command).await {
        Ok((Value::Int(written), _)) => Ok(written == 1),
        Ok(_) => Err(fault::strange("an enrolment")),
        Err(unserved) => Err(unserved.fault.into_fault()),
    }
}
