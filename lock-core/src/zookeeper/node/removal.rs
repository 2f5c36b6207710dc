//! Nodes on their way out. What was not deleted for sure is tried again until the server says
//! that it is gone or the session is over, which takes its nodes with it.

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::task::JoinHandle;

use crate::ground::{FAULT_PAUSES, Plus as _, clock};
use crate::zookeeper::fault::Failure;
use crate::zookeeper::session::liveness::End;
use crate::zookeeper::session::{Answer, REQUEST_WITHIN, Session};

/// Before what the server refuses is tried again.
const REFUSED_PAUSE: Duration = Duration::from_secs(30);

/// The nodes that are to be deleted.
#[derive(Debug)]
pub(in crate::zookeeper) struct Removal {
    pub(in crate::zookeeper) directory: Arc<str>,
    pub(in crate::zookeeper) what: What,
}

/// The node to delete.
#[derive(Debug)]
pub(in crate::zookeeper) enum What {
    /// The one whose name begins so, if it is there; no other node's does.
    Prefixed(String),
    /// The one of this name.
    Named(Arc<str>),
}

/// Deletes in the background; the task tells whether all nodes are gone for sure, or one may live
/// on for a session timeout.
pub(in crate::zookeeper) fn start(
    session: &Arc<Session>,
    removals: impl IntoIterator<Item = Removal>,
) -> JoinHandle<bool> {
    // Waiting for the next try it must not keep the session: the end of that would do as well.
    let each = removals.into_iter().map(|removal| run(Arc::downgrade(session), removal));
    let all = join_all(each);
    session.home.spawn(async { all.await.into_iter().all(|gone| gone) })
}

async fn run(session: Weak<Session>, mut removal: Removal) -> bool {
    let (mut failures, mut refused) = (0, false);
    loop {
        let Some(current) = session.upgrade() else { return false };
        if let Some(end) = current.liveness.ended() {
            return end == End::Expired;
        }
        match try_once(&current, &mut removal).await {
            Ok(()) => return true,
            // The next turn sees above how the session ended.
            Err(Failure::Over) => {}
            Err(failure) => {
                failures += 1;
                let (directory, fault) = (&*removal.directory, failure.into_fault());
                refused = !fault.is_transient();
                if failures == 1 || refused {
                    tracing::warn!(directory, %fault, "a lock node is not deleted yet");
                }
            }
        }
        if current.liveness.is_over() {
            continue;
        }
        drop(current);
        let pause = FAULT_PAUSES.pause(failures, clock::random_bits());
        clock::alarm_in(if refused { REFUSED_PAUSE } else { pause }).await;
    }
}

async fn try_once(session: &Session, removal: &mut Removal) -> Answer<()> {
    if let What::Prefixed(prefix) = &removal.what {
        let found = find(session, &removal.directory, prefix).await?;
        // It was never there, and will not be.
        let Some((name, _)) = found else { return Ok(()) };
        removal.what = What::Named(name.into());
    }
    let What::Named(name) = &removal.what else { return Ok(()) };
    let path = format!("{}/{name}", removal.directory);
    let until = clock::now().plus(REQUEST_WITHIN);
    match session.delete(&path, until).await {
        Err(failure) if !failure.is_no_node() => Err(failure),
        _ => Ok(()),
    }
}

/// The node of this session whose name begins so, and its czxid. If it is not there now it will
/// never be. The list is read behind a write that a majority has answered, so behind everything
/// that this session asked for before.
pub(in crate::zookeeper) async fn find(
    session: &Session,
    directory: &str,
    prefix: &str,
) -> Answer<Option<(String, u64)>> {
    let until = clock::now().plus(REQUEST_WITHIN);
    session.prove(until).await?;
    let children = match session.list(directory, until).await {
        Err(failure) if failure.is_no_node() => return Ok(None),
        children => children?,
    };
    let Some(name) = children.into_iter().find(|name| name.starts_with(prefix)) else {
        return Ok(None);
    };
    // A node of another session is not ours to touch, whatever it is called.
    let owner = session.owner(&format!("{directory}/{name}"), until).await?;
    Ok(owner.filter(|(owner, _)| *owner == session.id()).map(|(_, czxid)| (name, czxid)))
}
