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

use crate::ground::{Plus as _, clock};
use crate::zookeeper::about;
use crate::zookeeper::protocol::children::{Line, Permits};
use crate::zookeeper::session::{Answer, REQUEST_WITHIN, Session, Share};

/// Before a holder looks again who came, where those who come need not have to wait: one look for
/// all who come and go meanwhile.
const LOOK_PAUSE: Duration = Duration::from_millis(50);

/// So many holders look that often. More of them look less often each, as all are told of whoever
/// comes, and what each reads grows with their number.
const LOOKERS: u32 = 8;

/// The watches of one claim, and what they have told so far. Dropping it takes the watches off the
/// server.
#[derive(Debug)]
pub(in crate::zookeeper) struct Watch {
    task: Option<JoinHandle<()>>,
}

/// The place where a holder sees those who wait.
#[derive(Debug)]
pub(in crate::zookeeper) struct Behind {
    /// The directory with the line.
    pub(in crate::zookeeper) line: Arc<str>,
    pub(in crate::zookeeper) holder: Holder,
}

/// The holder who looks.
#[derive(Debug)]
pub(in crate::zookeeper) enum Holder {
    /// A holder that all who come wait for: one change of the line says it all.
    Alone(Arc<str>),
    /// The reader with this node, behind whom others may come who do not wait.
    Reader(Arc<str>),
    /// One with a permit of so many in this directory.
    Permit { leases: Arc<str>, of: u32 },
}

impl Watch {
    /// Ends when the watch tells something, or with the session.
    pub(in crate::zookeeper) fn on(
        session: &Session,
        watcher: OneshotWatcher,
        share: Share,
    ) -> Self {
        let liveness = session.liveness.clone();
        let task = session.home.spawn(async move {
            let _share = share;
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
    pub(in crate::zookeeper) fn of_holder(
        session: Arc<Session>,
        own: String,
        behind: Option<Behind>,
        is_news: bool,
        share: Share,
    ) -> Self {
        let home = session.home.clone();
        let task = home.spawn(async move {
            let _share = share;
            let until = clock::now().plus(REQUEST_WITHIN);
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
            let timeout = session.timeout();
            drop(session);
            let somebody = async {
                let (Some(behind), Some((mut watcher, mut holders))) = (behind, first) else {
                    return pending().await;
                };
                loop {
                    watcher.changed().await;
                    if matches!(behind.holder, Holder::Alone(_)) {
                        return;
                    }
                    clock::alarm_in(look_pause(holders, timeout)).await;
                    let Some(session) = weak.upgrade() else { return };
                    let until = clock::now().plus(REQUEST_WITHIN);
                    let Some(next) = behind.watch(&session, until).await else { return };
                    (watcher, holders) = next;
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
    pub(in crate::zookeeper) fn is_over(&self) -> bool {
        self.task.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits for news; resolves at once from then on. Cancel safe.
    pub(in crate::zookeeper) async fn over(&mut self) {
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

/// The pause of each of so many holders. One that is told late that somebody waits hands the key on
/// in its own process meanwhile; the time in which a lost watch is made up for is late enough.
fn look_pause(holders: u32, session: Duration) -> Duration {
    (LOOK_PAUSE * (1 + holders / LOOKERS)).min((session / 3).max(LOOK_PAUSE))
}

impl Behind {
    /// A watch on the line, and how many may have one; none if somebody waits already.
    async fn watch(&self, session: &Session, until: Instant) -> Option<(OneshotWatcher, u32)> {
        let (children, watcher) = match &self.holder {
            Holder::Permit { .. } => self.watch_line_of_permits(session, until).await.ok()?,
            _ => session.watch_children(&self.line, until).await.ok()?,
        };
        let line = Line::of(&children);
        let (wanted, holders) = match &self.holder {
            Holder::Alone(own) | Holder::Reader(own) => {
                (line.standing(own)?.wanted, u32::try_from(line.len()).unwrap_or(u32::MAX))
            }
            Holder::Permit { of, .. } if line.len() == 0 => (false, *of),
            // With fewer holders than there are permits nobody waits who has to be told.
            Holder::Permit { leases, of } => {
                let permits = listed(session.list(leases, until).await).ok()?;
                (Permits::of(&permits).is_full(*of), *of)
            }
        };
        (!wanted).then_some((watcher, holders))
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
pub(in crate::zookeeper) fn listed(answer: Answer<Vec<String>>) -> Answer<Vec<String>> {
    match answer {
        Err(failure) if failure.is_no_node() => Ok(Vec::new()),
        answer => answer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks a second of all holders together.
    fn looks(holders: u32, session: Duration) -> f64 {
        f64::from(holders) / look_pause(holders, session).as_secs_f64()
    }

    #[test]
    fn a_herd_of_holders_looks_no_more_often_than_a_few_do() {
        let session = Duration::from_secs(10);
        for few in [1, 2, 7] {
            assert_eq!(look_pause(few, session), LOOK_PAUSE);
        }
        for holders in 8..=500 {
            assert!(looks(holders, session) <= 160.0, "{holders}");
        }
        assert!(looks(1_024, session) < 310.0);
        for session in [100, 4_000, 40_000].map(Duration::from_millis) {
            let pause = look_pause(u32::MAX, session);
            assert!(pause == LOOK_PAUSE || pause <= session / 3, "{session:?}");
        }
    }
}
