//! Nodes on their way out. What was not deleted for sure is tried again until the server says
//! that it is gone or the session is over, which takes its nodes with it.

use std::sync::{Arc, Weak};

use tokio::task::JoinHandle;

use super::fault::Failure;
use super::names;
use super::session::{Answer, REQUEST_WITHIN, Session};
use crate::backend::ClaimId;
use crate::engine::clock;
use crate::proto::FAULT_PAUSES;

/// What is to be deleted of one claim.
#[derive(Debug)]
pub(super) struct Grave {
    pub(super) directory: Arc<str>,
    pub(super) id: ClaimId,
    /// The node, if its name is known.
    pub(super) name: Option<Arc<str>>,
    /// Whether there may be nodes of the claim under names that nobody was told.
    pub(super) search: bool,
    /// The node that the search leaves alone.
    pub(super) keep: Option<Arc<str>>,
    /// Whether the directory was made for a node that may never have come. The server removes by
    /// itself only what has had a child.
    pub(super) unused: bool,
}

/// Deletes in the background. The task ends with the work, or with the session.
pub(super) fn dig(session: &Arc<Session>, grave: Grave) -> JoinHandle<()> {
    // Waiting for the next try it must not keep the session: the end of that would do as well.
    let weak = Arc::downgrade(session);
    session.runtime.spawn(empty(weak, grave))
}

async fn empty(session: Weak<Session>, mut grave: Grave) {
    let mut failures = 0;
    loop {
        let Some(current) = session.upgrade() else { return };
        if current.life.is_over() {
            return;
        }
        match try_once(&current, &mut grave).await {
            Ok(()) | Err(Failure::Over) => return,
            Err(failure) => {
                failures += 1;
                if failures == 1 {
                    let fault = failure.into_fault();
                    let directory = &*grave.directory;
                    tracing::warn!(directory, %fault, "a lock node is not deleted yet");
                }
            }
        }
        drop(current);
        tokio::time::sleep(FAULT_PAUSES.pause(failures, clock::random_bits())).await;
    }
}

async fn try_once(session: &Session, grave: &mut Grave) -> Answer<()> {
    if let Some(name) = &grave.name {
        delete(session, &format!("{}/{name}", grave.directory)).await?;
        grave.name = None;
    }
    if grave.search {
        let strays = strays(session, &grave.directory, grave.id).await?;
        for name in strays.into_iter().filter(|name| grave.keep.as_deref() != Some(&**name)) {
            delete(session, &format!("{}/{name}", grave.directory)).await?;
        }
    }
    if grave.unused {
        let until = clock::now() + REQUEST_WITHIN;
        session.delete_unused(&grave.directory, until).await?;
    }
    Ok(())
}

async fn delete(session: &Session, path: &str) -> Answer<()> {
    match session.delete(path, clock::now() + REQUEST_WITHIN).await {
        Err(failure) if !failure.is_no_node() => Err(failure),
        _ => Ok(()),
    }
}

/// The nodes of a claim that belong to this session, oldest first. The session's earlier requests
/// have taken effect by then, or never will.
pub(super) async fn strays(session: &Session, directory: &str, id: ClaimId) -> Answer<Vec<String>> {
    let until = clock::now() + REQUEST_WITHIN;
    let synced = session.sync(directory, until);
    let (synced, listed) = tokio::join!(synced, session.list(directory, until));
    let children = match (synced, listed) {
        (Ok(()), Ok(children)) => children,
        (Ok(()), Err(failure)) | (Err(failure), _) if failure.is_no_node() => return Ok(Vec::new()),
        (Err(failure), _) | (_, Err(failure)) => return Err(failure),
    };
    let prefix = names::prefix(id);
    let mut ours = Vec::new();
    for name in children.into_iter().filter(|name| name.starts_with(&prefix)) {
        // A node of a former session is not ours to touch, and will go with that.
        let owner = session.owner(&format!("{directory}/{name}"), until).await?;
        if owner.is_some_and(|(owner, _)| owner == session.id()) {
            ours.push(name);
        }
    }
    ours.sort_unstable();
    Ok(ours)
}
