//! One who follows an election. It watches the node at the head of the line, and is told of its end
//! alone: not of each candidate that comes and goes.

use std::sync::Arc;
use std::time::Instant;

use zookeeper_client::Error;

use crate::backend::{BoxFuture, Fault, Follower, Following};
use crate::ground::{Plus as _, clock};
use crate::key::Key;
use crate::token::FencingToken;
use crate::view::Leader;
use crate::zookeeper::about;
use crate::zookeeper::fault::{self, Failure};
use crate::zookeeper::line;
use crate::zookeeper::names;
use crate::zookeeper::node::watch::Watch;
use crate::zookeeper::protocol::children::Line;
use crate::zookeeper::protocol::tokens::tokens;
use crate::zookeeper::session::requests::czxid;
use crate::zookeeper::session::sessions::Sessions;
use crate::zookeeper::session::{Answer, REQUEST_WITHIN, Session, Share};

/// One who follows the election on a key at ZooKeeper.
#[derive(Debug)]
pub(in crate::zookeeper) struct ZooKeeperFollower {
    sessions: Arc<Sessions>,
    /// The directory with the line, or why there can be none.
    directory: Result<String, Fault>,
    watch: Option<Watch>,
}

impl ZooKeeperFollower {
    pub(in crate::zookeeper) fn new(sessions: Arc<Sessions>, key: &Key) -> Self {
        let directory = line::directory(&sessions, key);
        Self { sessions, directory, watch: None }
    }
}

impl Follower for ZooKeeperFollower {
    fn leader(&mut self) -> BoxFuture<'_, Result<Following, Fault>> {
        Box::pin(async {
            let directory = self.directory.clone()?;
            let until = clock::now().plus(REQUEST_WITHIN);
            self.watch = None;
            while clock::now() < until {
                let session = self.sessions.get(until).await?;
                match head(&session, &directory, until).await {
                    Ok(None) | Err(Failure::Over) => {}
                    Ok(Some((leader, watch))) => {
                        self.watch = watch;
                        // A watch whose word is lost is made up for by then.
                        return Ok(Following { leader, recheck: session.timeout() });
                    }
                    Err(failure) => return Err(failure.into_fault()),
                }
            }
            Err(fault::timed_out(REQUEST_WITHIN))
        })
    }

    fn changed(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            match &mut self.watch {
                Some(watch) => watch.over().await,
                None => std::future::pending().await,
            }
        })
    }
}

/// The leader, and the watch for its end; or for somebody to come. `None` if the line has changed
/// meanwhile.
async fn head(
    session: &Session,
    directory: &str,
    until: Instant,
) -> Answer<Option<(Option<Leader>, Option<Watch>)>> {
    let children = line::children(session, directory, until).await?;
    let line = Line::of(&children);
    let Some(head) = line.holders().first() else {
        // Without a share it looks again by the clock, here and below.
        let Some(share) = session.share(directory.len()) else { return Ok(Some((None, None))) };
        let watch = nobody(session, directory, share, until).await?;
        return Ok(watch.map(|watch| (None, Some(watch))));
    };
    let path = format!("{directory}/{}", head.name());
    let share = session.share(path.len());
    let watched = match share {
        Some(_) => session
            .watch_data(&path, until)
            .await
            .map(|(data, stat, watcher)| (data, stat, Some(watcher))),
        None => session.get(&path, until).await.map(|(data, stat)| (data, stat, None)),
    };
    match watched {
        Ok((data, stat, watcher)) => {
            let leader = head.is_candidate().then(|| {
                let value = String::from_utf8_lossy(about::published(&data));
                let token = tokens(czxid(&stat), 1).first().map(FencingToken::new);
                Leader::new(value, token, names::claimant(head.name()))
            });
            let watch =
                watcher.zip(share).map(|(watcher, share)| Watch::on(session, watcher, share));
            Ok(Some((leader, watch)))
        }
        Err(failure) if failure.is_no_node() => Ok(None),
        // It hides what it publishes, and its end with it.
        Err(Failure::Answer(Error::NoAuth)) => Ok(Some((None, None))),
        Err(failure) => Err(failure),
    }
}

/// A watch for the first to come, if there is still nobody.
async fn nobody(
    session: &Session,
    directory: &str,
    share: Share,
    until: Instant,
) -> Answer<Option<Watch>> {
    let watcher = match session.watch_children(directory, until).await {
        Ok((children, watcher)) => (Line::of(&children).len() == 0).then_some(watcher),
        Err(failure) if failure.is_no_node() => {
            let (is_there, watcher) = session.watch_presence(directory, until).await?;
            (!is_there).then_some(watcher)
        }
        Err(failure) => return Err(failure),
    };
    Ok(watcher.map(|watcher| Watch::on(session, watcher, share)))
}
