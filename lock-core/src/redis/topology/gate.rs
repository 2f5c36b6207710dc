//! On which terms a member of a quorum is asked. It is probed over each new connection before
//! anything is attempted over it, and serves under its enrolment only.
//!
//! A restart ends all connections, so a server that may have lost writes is always probed first:
//! its `run_id` is another then, whatever it kept. A deletion by hand shows in the scripts, which
//! compare the enrolment.
//!
//! Scripts that are sent over a connection of a pool compare the `run_id` as well, as that connection
//! was not probed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::single::Over;
use crate::backend::Enrolment;

/// What was seen of a member of a quorum, and on which terms it is asked now.
#[derive(Debug, Default)]
pub(in crate::redis) struct Gate {
    state: Mutex<State>,
    /// Whether its rights were checked.
    probed: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    /// How it is served; `None` if it is no member.
    pass: Option<Pass>,
    /// The connection over which it was probed last.
    probed: Option<Over>,
}

/// On which terms a member is asked.
#[derive(Debug, Clone)]
pub(in crate::redis) enum Pass {
    Shut,
    Under {
        enrolment: Arc<str>,
        /// The line of `INFO server` that shows its incarnation.
        incarnation: Arc<str>,
        /// The connection over which that was seen.
        connection: Over,
    },
}

impl Gate {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(in crate::redis) fn pass(&self) -> Option<Pass> {
        self.state().pass.clone()
    }

    pub(in crate::redis) fn serve_under(&self, enrolment: Option<&Enrolment>) {
        let mut state = self.state();
        state.pass = Some(match (enrolment, state.probed) {
            (Some(enrolment), Some(connection)) => Pass::Under {
                enrolment: enrolment.to_string().into(),
                incarnation: incarnation_line(&enrolment.incarnation).into(),
                connection,
            },
            _ => Pass::Shut,
        });
    }

    /// It was probed over this connection.
    pub(in crate::redis) fn was_looked_at(&self, over: Over) {
        self.state().probed = Some(over);
    }

    /// Whether nothing was checked yet.
    pub(in crate::redis) fn is_unprobed(&self) -> bool {
        !self.probed.load(Ordering::Acquire)
    }

    pub(in crate::redis) fn is_probed(&self) {
        self.probed.store(true, Ordering::Release);
    }
}

/// The line of `INFO server` that shows its incarnation.
pub(in crate::redis) fn incarnation_line(incarnation: &str) -> String {
    format!("run_id:{incarnation}")
}
