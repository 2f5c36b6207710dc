//! Being told: one watch of a waiter on the node before it, or those of a holder on its own node
//! and on who comes behind.
//!
//! The watches are awaited by a task where the session lives, so that news is noted whoever comes to
//! look, and when.

use std::sync::Arc;
use std::time::Instant;

use tokio::task::JoinHandle;
use zookeeper_client::OneshotWatcher;

use super::about::REVOKE;
use super::session::{REQUEST_WITHIN, Session};
use crate::engine::clock;
use crate::proto::children;

/// The watches of one claim, and what they have told so far. Dropping it takes the watches off the
/// server.
#[derive(Debug)]
pub(super) struct Watch {
    task: Option<JoinHandle<()>>,
}

/// What a holder is told of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Events {
    /// That somebody is in line behind it.
    pub(super) behind: bool,
    /// That it was asked to give the key up. That its node is gone it is always told.
    pub(super) revocation: bool,
}

impl Watch {
    /// Ends with the node that the watch is on, when its data changes, or with the session.
    pub(super) fn on(session: &Session, watcher: OneshotWatcher) -> Self {
        let liveness = session.liveness.clone();
        let task = session.home.spawn(async move {
            tokio::select! {
                // First: a watch whose client is gone must not be asked.
                biased;
                () = liveness.over() => {}
                _ = watcher.changed() => {}
            }
        });
        Self { task: Some(task) }
    }

    /// Ends when there is news of this kind for the holder whose node is `name`.
    pub(super) fn of_holder(
        session: Arc<Session>,
        directory: Arc<str>,
        name: Arc<str>,
        events: Events,
    ) -> Self {
        let home = session.home.clone();
        let task = home.spawn(async move {
            let until = clock::now() + REQUEST_WITHIN;
            let own = own_node(&session, &directory, &name, events, until);
            let line = async {
                match events.behind {
                    true => line_behind(&session, &directory, &name, until).await.map(Some),
                    false => Some(None),
                }
            };
            let (Some(own), Some(line)) = tokio::join!(own, line) else { return };
            // A watch must not keep the session.
            let liveness = session.liveness.clone();
            drop(session);
            let behind = async {
                match line {
                    Some(line) => drop(line.changed().await),
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = liveness.over() => {}
                _ = own.changed() => {}
                () = behind => {}
            }
        });
        Self { task: Some(task) }
    }

    /// Whether there is news.
    pub(super) fn is_over(&self) -> bool {
        self.task.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits for news; resolves at once from then on. Cancel safe.
    pub(super) async fn over(&mut self) {
        if let Some(task) = &mut self.task {
            // A panic, which was printed, is news as well.
            drop(task.await);
            self.task = None;
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

/// A watch on the holder's own node, unless there is news already.
async fn own_node(
    session: &Session,
    directory: &str,
    name: &str,
    events: Events,
    until: Instant,
) -> Option<OneshotWatcher> {
    let path = format!("{directory}/{name}");
    let (data, watcher) = session.watch_data(&path, until).await.ok()?;
    (data != REVOKE || !events.revocation).then_some(watcher)
}

/// A watch on the line, unless somebody is behind the holder already.
async fn line_behind(
    session: &Session,
    directory: &str,
    name: &str,
    until: Instant,
) -> Option<OneshotWatcher> {
    let (children, watcher) = session.watch_children(directory, until).await.ok()?;
    let standing = children::standing(&children, name)?;
    (!standing.followed).then_some(watcher)
}
