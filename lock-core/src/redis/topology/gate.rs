//! The terms on which a member of a quorum is asked. The member is probed over each new connection
//! before anything is attempted over it, and serves under its enrolment only.
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

/// The last probe of a member of a quorum, and the terms on which it is asked now.
#[derive(Debug, Default)]
pub(in crate::redis) struct Gate {
    state: Mutex<State>,
    /// Whether its rights were checked.
    probed: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    /// The terms on which it is asked; `None` if it is no member.
    pass: Option<Pass>,
    /// The connection over which it was probed last, and its incarnation as that showed it.
    probed: Option<(Over, String)>,
}

/// The terms on which a member is asked.
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
        state.pass = Some(match (enrolment, &state.probed) {
            // One that was started anew between that probe and this enrolment has another: over this
            // connection nothing else would notice, as its scripts compare no more than the text.
            (Some(enrolment), Some((connection, seen))) if enrolment.incarnation == *seen => {
                Pass::Under {
                    enrolment: enrolment.to_string().into(),
                    incarnation: incarnation_line(seen).into(),
                    connection: *connection,
                }
            }
            _ => Pass::Shut,
        });
    }

    /// It was probed over this connection, in this incarnation.
    pub(in crate::redis) fn was_looked_at(&self, over: Over, incarnation: &str) {
        self.state().probed = Some((over, incarnation.to_owned()));
    }

    /// Whether its rights were not checked yet.
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn enrolment(incarnation: &str) -> Enrolment {
        Enrolment {
            quorum: "q".into(),
            members: 3,
            lease_max: Duration::from_secs(60),
            nonce: 7,
            incarnation: incarnation.into(),
            ready_at: Duration::ZERO,
            token_min: Some(0),
        }
    }

    /// The number of the connection over which a member may be asked, and what its scripts compare.
    fn open(gate: &Gate) -> Option<(u64, String)> {
        match gate.pass() {
            Some(Pass::Under { connection: Over(number), incarnation, .. }) => {
                Some((number, incarnation.to_string()))
            }
            _ => None,
        }
    }

    /// The answer to a probe may be told after the next probe was answered, by a server that was
    /// started anew meanwhile, and has its old enrolment still.
    #[test]
    fn an_enrolment_counts_only_over_a_connection_to_the_incarnation_that_it_is_of() {
        let gate = Gate::default();
        gate.serve_under(Some(&enrolment("a")));
        assert_eq!(open(&gate), None, "it was not looked at");
        gate.was_looked_at(Over(1), "a");
        gate.serve_under(Some(&enrolment("a")));
        assert_eq!(open(&gate), Some((1, "run_id:a".into())));
        gate.was_looked_at(Over(2), "b");
        assert_eq!(open(&gate), Some((1, "run_id:a".into())), "over the connection of before");
        gate.serve_under(Some(&enrolment("a")));
        assert_eq!(open(&gate), None);
        gate.serve_under(Some(&enrolment("b")));
        assert_eq!(open(&gate), Some((2, "run_id:b".into())));
        gate.serve_under(None);
        assert_eq!(open(&gate), None);
    }
}
