//! Attempts whose effect is not known.

use std::sync::Arc;

use crate::backend::Fault;
use crate::redis::topology::Topology;
use crate::redis::wire::request::{Call, Sent};

/// The number of attempts without an answer that are remembered, the latest ones. Those before were
/// sent to a server that has hung for so long that another may have taken its place.
const DOUBTS_MAX: usize = 8;

/// The connections over which attempts were sent whose effect is not known. Those may take effect
/// later still, and only there is a withdrawal sure to come after them.
#[derive(Debug, Default)]
pub(in crate::redis) struct Doubts(Vec<Arc<Sent>>);

impl Doubts {
    pub(in crate::redis) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// One more failed so: if it may have an effect all the same, it is kept.
    pub(in crate::redis) fn keep(&mut self, fault: &Fault, sent: Option<Arc<Sent>>) {
        if let Some(sent) = sent.filter(|_| fault.is_transient()) {
            keep_latest(&mut self.0, sent, DOUBTS_MAX);
        }
    }

    /// Sends a withdrawal behind each of them. Nobody waits for it: such a connection is slow or dead.
    /// If the attempt still takes effect, the withdrawal undoes it then.
    pub(in crate::redis) fn undo(self, servers: &Arc<Topology>, withdrawal: &Call) {
        for sent in self.0 {
            let (servers, call) = (servers.clone(), withdrawal.clone());
            let mut connection = sent.connection.clone();
            drop(sent.runtime.spawn(async move {
                drop(servers.call_behind(&mut connection, &call).await);
            }));
        }
    }
}

fn keep_latest<T>(all: &mut Vec<T>, next: T, max: usize) {
    if all.len() >= max {
        all.remove(0);
    }
    all.push(next);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_too_many_doubts_the_latest_are_kept() {
        let mut doubts = Vec::new();
        (0..10).for_each(|number| keep_latest(&mut doubts, number, 8));
        assert_eq!(doubts, [2, 3, 4, 5, 6, 7, 8, 9]);
    }
}
