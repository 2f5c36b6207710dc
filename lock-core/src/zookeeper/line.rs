//! The line of a key as the servers have it.

use std::sync::Arc;
use std::time::Instant;

use zookeeper_client::Error;

use super::about::{self, REVOKE};
use super::claim::tokens;
use super::counter;
use super::fault::{self, Failure};
use super::names;
use super::session::{Answer, REQUEST_WITHIN, Session};
use super::sessions::Sessions;
use crate::backend::{Fault, FaultKind};
use crate::engine::clock;
use crate::key::Key;
use crate::proto::children;
use crate::token::FencingToken;
use crate::view::{Holder, Inspection, Waiter};

/// How many of a line are asked for what they say of themselves.
const ASKED_MAX: usize = 128;

/// How often to look again for a holder that was gone when it was asked for.
const TRIES_MAX: u32 = 10;

/// The path of a key's directory, unless ZooKeeper keeps it for itself.
pub(super) fn directory(sessions: &Sessions, key: &Key) -> Result<String, Fault> {
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
pub(super) async fn children(
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

/// The session and all children, in a new session if the last one turns out to be over.
async fn ask(
    sessions: &Arc<Sessions>,
    directory: &str,
    until: Instant,
) -> Result<(Arc<Session>, Vec<String>), Fault> {
    loop {
        let session = sessions.get(until).await?;
        match children(&session, directory, until).await {
            Ok(children) => return Ok((session, children)),
            Err(Failure::Over) if clock::now() < until => {}
            Err(failure) => return Err(failure.into_fault()),
        }
    }
}

/// Who holds a key and who waits.
pub(super) async fn inspect(sessions: &Arc<Sessions>, key: &Key) -> Result<Inspection, Fault> {
    let directory = directory(sessions, key)?;
    let until = clock::now() + REQUEST_WITHIN;
    let (session, children) = ask(sessions, &directory, until).await?;
    let mut holder = None;
    let mut waiters = Vec::new();
    let line = children::line(&children);
    let asked: Vec<_> =
        line.iter().take(ASKED_MAX).map(|name| format!("{directory}/{name}")).collect();
    // All are sent before the first answer is awaited.
    let mut answers =
        asked.iter().map(|path| session.get(path, until)).collect::<Vec<_>>().into_iter();
    for name in line {
        let said = match answers.next() {
            Some(answer) => match answer.await {
                Ok(said) => Some(said),
                // It left meanwhile.
                Err(Failure::Answer(Error::NoNode)) => continue,
                // Who it is can be told, what it says cannot.
                Err(Failure::Answer(Error::NoAuth)) => None,
                Err(failure) => return Err(failure.into_fault()),
            },
            None => None,
        };
        let about = said.as_ref().map(|(data, _)| about::shown(data));
        let claim = names::claimant(name);
        if holder.is_none() {
            let token = match (said, sessions.counts()) {
                (_, true) => {
                    let root = &sessions.target.root;
                    let token = counter::first_token(&session, root, key.as_str(), &claim, until);
                    match token.await {
                        Ok(token) => token,
                        // Who it is can be told all the same.
                        Err(Failure::Answer(_) | Failure::Unfit(_)) => None,
                        Err(failure) => return Err(failure.into_fault()),
                    }
                }
                (Some((_, czxid)), false) => tokens(czxid, u32::MAX).last(),
                (None, false) => None,
            };
            let found = Holder::new(claim, token.map(FencingToken::new), None);
            holder = Some(about.into_iter().fold(found, Holder::with_about));
        } else {
            waiters.push(about.into_iter().fold(Waiter::new(claim), Waiter::with_about));
        }
    }
    Ok(Inspection::new(holder, waiters))
}

/// Asks the holder to give the key up, in the way of Curator's `Revoker`.
pub(super) async fn request_revoke(sessions: &Arc<Sessions>, key: &Key) -> Result<bool, Fault> {
    let directory = directory(sessions, key)?;
    let until = clock::now() + REQUEST_WITHIN;
    for _ in 0..TRIES_MAX {
        let (session, children) = ask(sessions, &directory, until).await?;
        let Some(holder) = children::line(&children).first().copied() else { return Ok(false) };
        match session.set(&format!("{directory}/{holder}"), REVOKE, until).await {
            Ok(()) => return Ok(true),
            Err(failure) if failure.is_no_node() => {}
            Err(failure) => return Err(failure.into_fault()),
        }
    }
    Err(fault::timed_out(REQUEST_WITHIN))
}

/// Deletes the holder's node, so that the next in line is first. One that was gone when it was to
/// be deleted has handed the key on by itself: its successor is not touched.
pub(super) async fn force_release(sessions: &Arc<Sessions>, key: &Key) -> Result<bool, Fault> {
    let directory = directory(sessions, key)?;
    let until = clock::now() + REQUEST_WITHIN;
    let (session, children) = ask(sessions, &directory, until).await?;
    let Some(holder) = children::line(&children).first().copied() else { return Ok(false) };
    match session.delete(&format!("{directory}/{holder}"), until).await {
        Ok(()) => Ok(true),
        Err(failure) if failure.is_no_node() => Ok(true),
        Err(failure) => Err(failure.into_fault()),
    }
}
