//! The line of a key as the servers have it, and asking its holders to leave, or making them.
//! [`inspect`]: who stands in it, and which keys have one.

pub(super) mod inspect;

use std::sync::Arc;
use std::time::Instant;

use zookeeper_client::Error;

use crate::backend::{Fault, FaultKind};
use crate::ground::{Plus as _, clock};
use crate::key::Key;
use crate::zookeeper::about::{self, REVOKE};
use crate::zookeeper::fault::{self, Failure};
use crate::zookeeper::names;
use crate::zookeeper::node::watch::listed;
use crate::zookeeper::protocol::children::{self, InLine, Line, Permit, Permits};
use crate::zookeeper::session::sessions::Sessions;
use crate::zookeeper::session::{Answer, REQUEST_WITHIN, Session};

/// The most times to look again for a holder that was gone when it was asked for.
const TRIES_MAX: u32 = 10;

/// The path of a key's directory, unless ZooKeeper keeps it for itself.
pub(in crate::zookeeper) fn directory(sessions: &Sessions, key: &Key) -> Result<String, Fault> {
    let root = &sessions.target.root;
    if names::is_reserved(root, key) {
        let what = format!(
            "the key `{key}` is ZooKeeper's own at the root of its tree: give the URL a path"
        );
        return Err(Fault::new(FaultKind::Refused, what));
    }
    Ok(names::directory(root, key))
}

/// All children, as the leader has them; none if there is no directory.
pub(in crate::zookeeper) async fn children(
    session: &Session,
    directory: &str,
    until: Instant,
) -> Answer<Vec<String>> {
    let synced = session.sync(directory, until);
    let listed = session.list(directory, until);
    match tokio::join!(synced, listed) {
        (Ok(()), Ok(children)) => Ok(children),
        (Ok(()), Err(failure)) | (Err(failure), _) if failure.is_no_node() => Ok(Vec::new()),
        (Err(failure), _) | (_, Err(failure)) => Err(failure),
    }
}

/// All nodes of those who hold a key or wait for it.
#[derive(Debug, Default)]
pub(in crate::zookeeper) struct Found {
    pub(in crate::zookeeper) children: Vec<String>,
    /// The line of those who want a permit, and the permits.
    pub(in crate::zookeeper) wishes: Vec<String>,
    pub(in crate::zookeeper) leases: Vec<String>,
}

/// They, and the session that they were read in, which is a new one if the last turns out to be over.
pub(in crate::zookeeper) async fn find(
    sessions: &Arc<Sessions>,
    directory: &str,
    until: Instant,
) -> Result<(Arc<Session>, Found), Fault> {
    loop {
        let session = sessions.get(until).await?;
        match find_in(&session, directory, until).await {
            Ok(found) => return Ok((session, found)),
            Err(Failure::Over) if clock::now() < until => {}
            Err(failure) => return Err(failure.into_fault()),
        }
    }
}

impl Found {
    /// The number of permits, by those in use or else by those who want one. Where clients do not
    /// tell, it is as many as they seem to share.
    pub(in crate::zookeeper) fn limit(&self) -> u32 {
        let permits = Permits::of(&self.leases);
        let line = Line::of(&self.wishes);
        let wishes = || children::limit(line.places().map(InLine::name));
        let seen = || u32::try_from(permits.names().len()).unwrap_or(u32::MAX).max(1);
        permits.limit().or_else(wishes).unwrap_or_else(seen)
    }

    /// Nobody holds the key or waits for it.
    pub(in crate::zookeeper) fn is_idle(&self) -> bool {
        let in_line = Line::of(&self.children).len() + Line::of(&self.wishes).len();
        in_line + Permits::of(&self.leases).names().len() == 0
    }

    /// The permits that are held. Of each of Curator's clients that has the mutex one node more may
    /// be behind them, which waits.
    fn permits(&self) -> impl Iterator<Item = &str> {
        let permits = Permits::of(&self.leases).names().to_vec();
        permits.into_iter().take(self.limit() as usize)
    }
}

async fn find_in(session: &Session, directory: &str, until: Instant) -> Answer<Found> {
    let children = children(session, directory, until).await?;
    if !names::has_permits(&children) {
        return Ok(Found { children, ..Found::default() });
    }
    let (locks, leases) = (names::locks(directory), names::leases(directory));
    let wishes = session.list(&locks, until);
    let leases = session.list(&leases, until);
    let (wishes, leases) = tokio::join!(wishes, leases);
    Ok(Found { children, wishes: listed(wishes)?, leases: listed(leases)? })
}

/// Asks all holders to give the key up, in the way of Curator's `Revoker`. Where all were gone when
/// they were to be asked, others may hold it by now.
pub(in crate::zookeeper) async fn request_revoke(
    sessions: &Arc<Sessions>,
    key: &Key,
) -> Result<bool, Fault> {
    let directory = directory(sessions, key)?;
    let (until, leases) = (clock::now().plus(REQUEST_WITHIN), names::leases(&directory));
    for _ in 0..TRIES_MAX {
        let (session, found) = find(sessions, &directory, until).await?;
        let line = Line::of(&found.children);
        // Permits of other clients know no such wish.
        let (ours, theirs): (Vec<_>, Vec<_>) =
            found.permits().partition(|name| Permit::of(name).is_some());
        if line.len() + ours.len() + theirs.len() == 0 {
            return Ok(false);
        }
        let leads = line.holders().first().filter(|place| place.is_candidate());
        let alike = nodes(&line).filter(|_| leads.is_none());
        let paths = alike.map(|name| format!("{directory}/{name}"));
        let permits = ours.into_iter().map(|name| format!("{leases}/{name}"));
        let paths: Vec<_> = paths.chain(permits).collect();
        let asked: Vec<_> =
            paths.iter().map(|path| session.set(path, REVOKE, None, until)).collect();
        let mut any = !theirs.is_empty();
        if let Some(leader) = leads {
            let path = format!("{directory}/{}", leader.name());
            any |= ask_to_resign(&session, &path, until).await?;
        }
        for answer in asked {
            any |= there(answer.await)?;
        }
        if any {
            return Ok(true);
        }
    }
    Err(fault::timed_out(REQUEST_WITHIN))
}

/// Asks a leader to resign; the value that it publishes must stay. `false` if it is gone.
async fn ask_to_resign(session: &Session, path: &str, until: Instant) -> Result<bool, Fault> {
    for _ in 0..TRIES_MAX {
        let (data, stat) = match session.get(path, until).await {
            Ok(said) => said,
            Err(failure) => return there(Err(failure)),
        };
        let asked = session.set(path, &about::with_wish(&data), Some(stat.version), until);
        match asked.await {
            // Others ask as well.
            Err(Failure::Answer(Error::BadVersion)) => {}
            answer => return there(answer),
        }
    }
    Err(fault::timed_out(REQUEST_WITHIN))
}

/// Whether the node that was to be changed was there.
fn there(answer: Answer<()>) -> Result<bool, Fault> {
    match answer {
        Ok(()) => Ok(true),
        Err(failure) if failure.is_no_node() => Ok(false),
        Err(failure) => Err(failure.into_fault()),
    }
}

/// The nodes of those who hold the key.
fn nodes<'a>(line: &Line<'a>) -> impl Iterator<Item = &'a str> {
    line.holders().iter().flat_map(|place| [Some(place.name()), place.also]).flatten()
}

/// Deletes the nodes of all holders, so that the next in line are first. One that was gone when it
/// was to be deleted has handed the key on by itself: its successor is not touched.
pub(in crate::zookeeper) async fn force_release(
    sessions: &Arc<Sessions>,
    key: &Key,
) -> Result<bool, Fault> {
    let directory = directory(sessions, key)?;
    let until = clock::now().plus(REQUEST_WITHIN);
    let (session, found) = find(sessions, &directory, until).await?;
    let (line, leases) = (Line::of(&found.children), names::leases(&directory));
    let paths = nodes(&line).map(|name| format!("{directory}/{name}"));
    let permits = found.permits().map(|name| format!("{leases}/{name}"));
    let paths: Vec<_> = paths.chain(permits).collect();
    let deleted: Vec<_> = paths.iter().map(|path| session.delete(path, until)).collect();
    for answer in deleted {
        there(answer.await)?;
    }
    Ok(!paths.is_empty())
}
