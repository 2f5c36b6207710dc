//! Being told: one watch of a waiter on the node that it waits for, or those of a holder on its own
//! node and on who comes behind.
//!
//! The watches are awaited by a task where the session lives, so that news is noted whoever comes to
//! look, and when.

use std::future::pending;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use zookeeper_client::OneshotWatcher;

use super::about;
use super::session::{Answer, REQUEST_WITHIN, Session};
use crate::engine::clock;
use crate::proto::children::{Line, Permits};

/// Before a holder looks again who came, where those who come need not have to wait: one look for
/// all who come and go meanwhile.
const LOOK_PAUSE: Duration = Duration::from_millis(50);

/// The watches of one claim, and what they have told so far. Dropping it takes the watches off the
/// server.
#[derive(Debug)]
pub(super) struct Watch {
    task: Option<JoinHandle<()>>,
}

/// Where a holder sees who waits.
#[derive(Debug)]
pub(super) struct Behind {
    /// The directory with the line.
    pub(super) line: Arc<str>,
    pub(super) holder: Holder,
}

/// Who looks.
#[derive(Debug)]
pub(super) enum Holder {
    /// Whoever comes waits for it: one change of the line says it all.
    Alone(Arc<str>),
    /// The reader with this node, behind whom others may come who do not wait.
    Reader(Arc<str>),
    /// One with a permit of so many in this directory.
    Permit { leases: Arc<str>, of: u32 },
}

impl Watch {
    /// Ends when the watch tells something, or with the session.
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

    /// Ends when there is news for the holder with the node at `own`: that this is gone or changed,
    /// and, where it is to look for them, that somebody waits `behind` it. Ends at once if it was
    /// asked to give the key up, and that `is_news`.
    pub(super) fn of_holder(
        session: Arc<Session>,
        own: String,
        behind: Option<Behind>,
        is_news: bool,
    ) -> Self {
        let home = session.home.clone();
        let task = home.spawn(async move {
            let until = clock::now() + REQUEST_WITHIN;
            let own = own_node(&session, &own, is_news, until);
            let first = async {
                match &behind {
                    Some(behind) => behind.watch(&session, until).await.map(Some),
                    None => Some(None),
                }
            };
            let (Some(own), Some(first)) = tokio::join!(own, first) else { return };
            // A watch must not keep the session.
            let (liveness, weak) = (session.liveness.clone(), Arc::downgrade(&session));
            drop(session);
            let somebody = async {
                let (Some(behind), Some(mut watcher)) = (behind, first) else {
                    return pending().await;
                };
                loop {
                    watcher.changed().await;
                    if matches!(behind.holder, Holder::Alone(_)) {
                        return;
                    }
                    tokio::time::sleep(LOOK_PAUSE).await;
                    let Some(session) = weak.upgrade() else { return };
                    let until = clock::now() + REQUEST_WITHIN;
                    let Some(next) = behind.watch(&session, until).await else { return };
                    watcher = next;
                }
            };
            tokio::select! {
                biased;
                () = liveness.over() => {}
                _ = own.changed() => {}
                () = somebody => {}
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
    path: &str,
    is_news: bool,
    until: Instant,
) -> Option<OneshotWatcher> {
    let (data, _, watcher) = session.watch_data(path, until).await.ok()?;
    (!about::is_revoked(&data) || !is_news).then_some(watcher)
}

impl Behind {
    /// A watch on the line, unless somebody waits already.
    async fn watch(&self, session: &Session, until: Instant) -> Option<OneshotWatcher> {
        let (children, watcher) = match &self.holder {
            Holder::Permit { .. } => self.watch_line_of_permits(session, until).await.ok()?,
            _ => session.watch_children(&self.line, until).await.ok()?,
        };
        let line = Line::of(&children);
        let wanted = match &self.holder {
            Holder::Alone(own) | Holder::Reader(own) => line.standing(own)?.wanted,
            Holder::Permit { leases, of } => {
                let permits = || session.list(leases, until);
                line.len() > 0 && Permits::of(&listed(permits().await).ok()?).is_full(*of)
            }
        };
        (!wanted).then_some(watcher)
    }

    /// The server removes that line while nobody is in it.
    async fn watch_line_of_permits(
        &self,
        session: &Session,
        until: Instant,
    ) -> Answer<(Vec<String>, OneshotWatcher)> {
        loop {
            match session.watch_children(&self.line, until).await {
                Err(failure) if failure.is_no_node() => {}
                watched => return watched,
            }
            if let (false, watcher) = session.watch_presence(&self.line, until).await? {
                return Ok((Vec::new(), watcher));
            }
        }
    }
}

/// The children of a directory; none where there is no directory.
pub(super) fn listed(answer: Answer<Vec<String>>) -> Answer<Vec<String>> {
    match answer {
        Err(failure) if failure.is_no_node() => Ok(Vec::new()),
        answer => answer,
    }
}
