//! The client library's own task of a session, and its end.
//!
//! The library looks for a server again until a deadline of its own. It knows that the deadline is
//! over by a timer that it polls beside each connect. A connect that fails at once, for want of a
//! route or of a descriptor, leaves the timer unpolled, and behind the deadline there is no pause: one
//! poll of the task goes on for as long as there is no route. Every session of the process would stand
//! still with it. So its task is ended here before that deadline, when the server has counted the
//! session out, or is about to.

use std::future::{Future, pending, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use spawns_core::{Spawn, Task, enter};
use tokio::task::AbortHandle;
use zookeeper_client::{SessionState, StateWatcher};

use super::liveness::{End, Liveness};
use crate::backend::io::Home;
use crate::ground::{Plus as _, clock, lock};

/// The task that serves the connection of a session.
#[derive(Debug)]
pub(in crate::zookeeper) struct Link(Option<AbortHandle>);

impl Link {
    /// Runs `connect` with what it spawns on the thread of sessions; the task that it spawned last
    /// serves the connection.
    pub(in crate::zookeeper) async fn of<T>(
        home: &Home,
        connect: impl Future<Output = T>,
    ) -> (T, Self) {
        let spawner = OnHome { home, last: Mutex::new(None) };
        let mut connect = pin!(connect);
        let output = poll_fn(|cx| {
            let _scope = enter(&spawner);
            connect.as_mut().poll(cx)
        })
        .await;
        let last = lock(&spawner.last).take();
        (output, Self(last))
    }

    /// Ends it where it waits: it is not heard of again.
    pub(in crate::zookeeper) fn cut(&self) {
        if let Some(task) = &self.0 {
            task.abort();
        }
    }

    /// Cuts it, and gives the session up, when there was no connection for as long as the session is
    /// [looked for](looked_for_until). Ends with the session, and knows nothing else of that.
    pub(in crate::zookeeper) async fn watch(
        self: Arc<Self>,
        liveness: Arc<Liveness>,
        mut state: StateWatcher,
        timeout: Duration,
    ) {
        let mut until = None;
        loop {
            let over = async {
                match until {
                    Some(until) => clock::alarm(until).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                biased;
                state = state.changed() => match state {
                    state if state.is_terminated() => return,
                    SessionState::Disconnected => {
                        let heard = liveness.last_heard();
                        until.get_or_insert(looked_for_until(clock::now(), heard, timeout));
                    }
                    _ => {
                        // A server has taken the session up again.
                        liveness.heard(clock::now());
                        until = None;
                    }
                },
                () = over => break,
            }
        }
        tracing::warn!("the session at zookeeper is given up: no server was in reach");
        self.cut();
        liveness.end(End::GivenUp);
    }
}

/// Until when a session of this timeout is looked for that has no connection from `now` on.
///
/// That is nearly as long as the server keeps it. The library's deadline is 7/5 of a timeout after
/// the server was last heard. A server that falls silent is left long after that, so the silence
/// counts too: of a short session it is up to three fifths.
pub(in crate::zookeeper) fn looked_for_until(
    now: Instant,
    last_heard: Instant,
    timeout: Duration,
) -> Instant {
    now.plus(timeout - timeout / 20).min(last_heard.plus(timeout * 13 / 10))
}

struct OnHome<'a> {
    home: &'a Home,
    last: Mutex<Option<AbortHandle>>,
}

impl Spawn for OnHome<'_> {
    fn spawn(&self, task: Task) {
        let running = self.home.spawn(Box::into_pin(task.future));
        *lock(&self.last) = Some(running.abort_handle());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zookeeper::target::silence;

    /// How long the library of this version takes to leave a silent server, and its deadline, both
    /// from the last word of the server.
    fn library(asked: Duration, granted: Duration) -> (Duration, Duration) {
        let silence = silence(asked);
        let tick = if silence > granted * 3 / 5 { granted / 20 } else { silence / 8 };
        (tick * 9, granted * 7 / 5)
    }

    #[test]
    fn a_session_is_given_up_before_the_library_loops_and_not_before_the_server_does() {
        let heard = clock::now();
        for (asked_ms, granted_ms) in [
            (100, 4_000),
            (100, 800),
            (2_000, 2_000),
            (4_000, 4_000),
            (10_000, 10_000),
            (10_000, 4_000),
            (10_000, 3_334),
            (40_000, 4_000),
            (600_000, 40_000),
            (600_000, 2_000),
        ] {
            let (asked, granted) =
                (Duration::from_millis(asked_ms), Duration::from_millis(granted_ms));
            let (left, deadline) = library(asked, granted);
            // A connection that breaks is left at once, a silent one late.
            for gone in [Duration::ZERO, left] {
                let until = looked_for_until(heard + gone, heard, granted) - heard;
                assert!(until < deadline, "{asked:?} {granted:?} {gone:?}: {until:?}");
                assert!(until >= granted * 19 / 20, "{asked:?} {granted:?} {gone:?}: {until:?}");
            }
        }
    }
}
