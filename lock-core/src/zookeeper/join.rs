//! Getting into the line, and standing in it.

use std::sync::Arc;
use std::time::Instant;

use zookeeper_client::Error;

use super::about;
use super::claim::{Held, ZooKeeperClaim, tokens};
use super::fault::{Failure, session_over};
use super::grave;
use super::seat::{Node, Seat};
use super::session::{Answer, Session};
use super::vigil::Vigil;
use crate::backend::{Attempt, Fault, FaultKind};
use crate::engine::clock;
use crate::proto::children;

/// What one step came to; without an attempt, the next step follows.
type Stepped = Result<Option<Attempt>, Fault>;

impl ZooKeeperClaim {
    /// One step towards an answer: at most one round trip, but two where the line is joined anew
    /// or its head has changed.
    pub(super) async fn advance(&mut self, began: Instant, until: Instant) -> Stepped {
        let directory = self.directory.clone()?;
        if self.seat.as_ref().is_some_and(|seat| seat.is_lost()) {
            self.stand_outside();
        }
        let Some(seat) = self.seat.clone() else {
            return self.join(&directory, began, until).await;
        };
        match seat.node() {
            Node::Doubtful => self.find(&seat, &directory, until).await,
            Node::Known { name, .. } => {
                if !seat.extend(began + self.terms.lease) {
                    return Ok(None);
                }
                match seat.session.list(&directory, until).await {
                    Ok(children) => self.stand(&seat, &name, &children, began, until).await,
                    Err(failure) => self.not_served(&seat, failure),
                }
            }
            Node::Gone => Ok(None),
        }
    }

    /// What a failure means for a claim with a node.
    fn not_served(&mut self, seat: &Seat, failure: Failure) -> Stepped {
        match failure {
            // Looked at anew: the node is gone, or the session is.
            Failure::Over => Ok(None),
            failure if failure.is_no_node() => {
                seat.is_gone();
                Ok(None)
            }
            failure => Err(failure.into_fault()),
        }
    }

    /// Creates a node at the end of the line.
    async fn join(&mut self, directory: &Arc<str>, began: Instant, until: Instant) -> Stepped {
        let session = self.sessions.get(until).await?;
        if !self.is_patient() {
            match session.list(directory, until).await {
                Ok(children) if children::line(&children).is_empty() => {}
                Ok(children) => return Ok(Some(self.outside(&session, &children))),
                Err(failure) if failure.is_no_node() => {}
                Err(Failure::Over) => return Ok(None),
                Err(failure) => return Err(failure.into_fault()),
            }
        }
        let lease_end = began + self.terms.lease;
        let seat = Seat::take(session.clone(), directory.clone(), self.id, lease_end, self.doubted);
        // Owned before anything is sent, so that nothing can be left behind.
        self.seat = Some(seat.clone());
        let data = about::data(self.terms.name);
        let mut made = create_and_list(&session, &self.prefix, directory, &data, until).await;
        if made.0.as_ref().is_err_and(Failure::is_no_node) {
            seat.makes_directory();
            made = make_create_and_list(&session, &self.prefix, directory, &data, until).await;
        }
        let (created, listed) = made;
        let (number, birth) = match created {
            Ok(created) => created,
            Err(failure) => return self.not_created(&seat, directory, failure, until).await,
        };
        let name = format!("{}{number:010}", self.node_prefix());
        seat.settle(&name, birth);
        if children::is_used_up(number) {
            self.stand_outside();
            let what = format!(
                "the directory {directory} has used up its sequence numbers: stop using it for \
                 some minutes, so that the server removes it"
            );
            return Err(Fault::new(FaultKind::Refused, what));
        }
        match listed {
            Ok(children) => self.stand(&seat, &name, &children, began, until).await,
            Err(failure) => self.not_served(&seat, failure),
        }
    }

    async fn not_created(
        &mut self,
        seat: &Seat,
        directory: &str,
        failure: Failure,
        until: Instant,
    ) -> Stepped {
        match failure {
            Failure::Unknown(fault) => {
                self.doubted = true;
                seat.doubt();
                Err(fault)
            }
            Failure::Over => Ok(None),
            failure => {
                seat.is_gone();
                self.stand_outside();
                if !failure.is_no_node() {
                    return Err(failure.into_fault());
                }
                // Something above the directory is missing.
                let made = seat.session.make_directory(directory, until).await;
                match made {
                    Ok(()) | Err(Failure::Over) => Ok(None),
                    // Removed again in between.
                    Err(failure) if failure.is_no_node() => Ok(None),
                    Err(failure) => Err(failure.into_fault()),
                }
            }
        }
    }

    /// Looks for a node that was asked for and whose name was not told.
    async fn find(&mut self, seat: &Arc<Seat>, directory: &str, until: Instant) -> Stepped {
        let strays = match grave::strays(&seat.session, directory, self.id).await {
            Ok(strays) => strays,
            Err(Failure::Over) => return Ok(None),
            Err(failure) => return Err(failure.into_fault()),
        };
        let Some(name) = strays.first() else {
            // The request never took effect, and nothing that was sent before can any more.
            seat.is_gone();
            return Ok(None);
        };
        match seat.session.owner(&seat.path(name), until).await {
            Ok(Some((owner, birth))) if owner == seat.session.id() => {
                seat.settle(name, birth);
                Ok(None)
            }
            Ok(_) => Ok(None),
            Err(failure) => self.not_served_in_doubt(failure),
        }
    }

    fn not_served_in_doubt(&mut self, failure: Failure) -> Stepped {
        match failure {
            Failure::Over => Err(session_over()),
            failure => Err(failure.into_fault()),
        }
    }

    /// What the children say about a claim with a node.
    async fn stand(
        &mut self,
        seat: &Arc<Seat>,
        name: &str,
        children: &[String],
        began: Instant,
        until: Instant,
    ) -> Stepped {
        let Some(standing) = children::standing(children, name) else {
            // An operator took it away.
            seat.is_gone();
            self.stand_outside();
            return Ok(None);
        };
        let own = |child: &String| child.starts_with(self.node_prefix());
        if seat.was_doubted() && children.iter().filter(|child| own(child)).count() > 1 {
            seat.clear_beside(name);
        }
        let Some(predecessor) = standing.predecessor else {
            return self.hold(seat, standing.followed, began, until).await;
        };
        if !self.is_patient() {
            let outside = self.outside(&seat.session, children);
            return self.step_aside(outside).await;
        }
        let ahead = Some(standing.ahead);
        let blocked = Attempt::Blocked { ahead, recheck: self.recheck(&seat.session) };
        let watched = self.waits_for.as_deref() == Some(predecessor)
            && self.vigil.as_ref().is_some_and(|vigil| !vigil.is_over());
        if watched {
            return Ok(Some(blocked));
        }
        match seat.session.watch_data(&seat.path(predecessor), until).await {
            Ok((_, watcher)) => {
                self.vigil = Some(Vigil::on(&seat.session, watcher));
                self.waits_for = Some(predecessor.to_owned());
                Ok(Some(blocked))
            }
            // It has left: whoever is before us now is in the next list.
            Err(failure) if failure.is_no_node() => Ok(None),
            Err(Failure::Over) => Ok(None),
            // Who has hidden its data stands in line all the same; asked again by the clock.
            Err(Failure::Answer(Error::NoAuth)) => Ok(Some(blocked)),
            Err(failure) => Err(failure.into_fault()),
        }
    }

    /// The first in line holds the key.
    async fn hold(
        &mut self,
        seat: &Arc<Seat>,
        followed: bool,
        began: Instant,
        until: Instant,
    ) -> Stepped {
        let Node::Known { birth, .. } = seat.node() else { return Ok(None) };
        let waited = self.waits_for.take().is_some();
        let before = self.held.take();
        let held = Held {
            birth,
            since: clock::now(),
            wanted: followed,
            revoke_requested: before.is_some_and(|held| held.revoke_requested),
            waited: waited || before.is_some_and(|held| held.waited),
        };
        self.vigil = None;
        self.held = Some(held);
        let fences = tokens(held.birth, self.terms.fences);
        let grant = self.grant(seat, held, began, until, fences).await;
        if !seat.extend(began + self.terms.lease) {
            return Ok(None);
        }
        grant.map(|grant| Some(Attempt::Granted(grant)))
    }

    /// A claim that must not wait leaves at once what it has just joined.
    async fn step_aside(&mut self, outside: Attempt) -> Stepped {
        use crate::backend::Claim;
        self.withdraw().await.map(|_| Some(outside))
    }

    /// Where a claim stands that is not in the line.
    fn outside(&self, session: &Session, children: &[String]) -> Attempt {
        let others = children::line(children);
        let others = others.iter().filter(|name| !name.starts_with(self.node_prefix())).count();
        Attempt::Blocked { ahead: u32::try_from(others).ok(), recheck: self.recheck(session) }
    }

    /// The name of the node, up to the number that the server adds.
    fn node_prefix(&self) -> &str {
        self.prefix.rsplit_once('/').map_or("", |(_, name)| name)
    }
}

type Created = (Answer<(i64, u64)>, Answer<Vec<String>>);

/// Takes one round trip.
async fn create_and_list(
    session: &Session,
    prefix: &str,
    directory: &str,
    data: &[u8],
    until: Instant,
) -> Created {
    let created = session.create(prefix, data, until);
    tokio::join!(created, session.list(directory, until))
}

/// Takes one round trip as well, if what is above the directory is there.
async fn make_create_and_list(
    session: &Session,
    prefix: &str,
    directory: &str,
    data: &[u8],
    until: Instant,
) -> Created {
    let made = session.make(directory, until);
    let (made, (created, listed)) =
        tokio::join!(made, create_and_list(session, prefix, directory, data, until));
    match made {
        Err(failure) if !failure.is_no_node() && created.is_err() => (Err(failure), listed),
        _ => (created, listed),
    }
}
