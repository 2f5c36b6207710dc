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
use std::time::Duration;

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
    /// [looked for](is_looked_for). Ends with the session, and knows nothing else of that.
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
                        until.get_or_insert(clock::now().plus(is_looked_for(timeout)));
                    }
                    _ => until = None,
                },
                () = over => break,
            }
        }
        tracing::warn!("the session at zookeeper is given up: no server was in reach");
        self.cut();
        liveness.end(End::GivenUp);
    }
}

/// The time for which a session of this timeout is looked for without a connection. It is nearly as
/// long as the server keeps it. The library's deadline is at least a timeout after the connection
/// went.
pub(in crate::zookeeper) fn is_looked_for(timeout: Duration) -> Duration {
    timeout - timeout / 20
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
