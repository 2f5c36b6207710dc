//! Getting into the line, and standing in it.

use std::sync::Arc;
use std::time::Instant;

use super::about::About;
use super::claim::{EtcdClaim, REVISION_END, Stepped};
use super::fault::Failure;
use super::line::{self, Awaits, Kind, Line};
use super::links::Repeat;
use super::lock_key::{LockKey, Presence};
use super::session::{LEASE_DIGITS, Session};
use super::watch::{Events, Wanted};
use super::wire::{Compare, Op, PutRequest, Range, RequestOp};
use crate::backend::{Attempt, Claim, Fault, FaultKind};
use crate::ground::Plus as _;

/// The way in which a claim may come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Entrance {
    /// At the end of the line, whoever is there.
    Queue,
    /// Unless somebody came after this revision, with this number of a permit.
    AsRead { revision: i64, slot: Option<u32> },
}

/// The outcome of a request for a place.
enum Asked {
    Stepped(Option<Attempt>),
    /// Somebody wrote below the prefix meanwhile, and nobody is in the way: that may have been in
    /// the line of another key.
    Overtaken,
}

impl EtcdClaim {
    /// One step towards an answer.
    pub(super) async fn advance(&mut self, began: Instant, until: Instant) -> Stepped {
        if self.place.as_ref().is_some_and(|place| place.is_lost()) {
            self.stand_outside();
        }
        let Some(place) = self.place.clone() else {
            let session = self.sessions.get(until).await?;
            return self.join(session, began, until).await;
        };
        if !place.extend(began.plus(self.terms.lease)) {
            self.stand_outside();
            return Ok(None);
        }
        match place.presence() {
            Presence::Asked { .. } => match place.settle(until).await {
                Ok(()) => Ok(None),
                Err(failure) => Self::not_served(failure),
            },
            Presence::There { .. } => match self.line(&place.session, until).await {
                Ok((line, revision)) => self.stand(&place, &line, revision, began, until).await,
                Err(failure) => Self::not_served(failure),
            },
            Presence::Absent | Presence::GivenUp => Ok(None),
        }
    }

    /// Puts a key at the end of the line.
    async fn join(&mut self, session: Arc<Session>, began: Instant, until: Instant) -> Stepped {
        let entrance = match (self.kind, self.terms.queues) {
            (Kind::Alone | Kind::Candidate, false) => Entrance::AsRead { revision: 0, slot: None },
            (Kind::Alone | Kind::Candidate | Kind::Reader, true) => Entrance::Queue,
            (Kind::Reader, false) | (Kind::Permit(_), _) => {
                let (line, revision) = match self.line(&session, until).await {
                    Ok(read) => read,
                    Err(failure) => return Self::not_served(failure),
                };
                self.check_limit(&line)?;
                match line.is_open_to(self.kind) {
                    true => {
                        let has_slot = matches!(self.kind, Kind::Permit(_));
                        let slot = has_slot.then(|| line.free_slot());
                        Entrance::AsRead { revision, slot }
                    }
                    false if self.terms.queues => Entrance::Queue,
                    false => return Ok(Some(self.blocked(&session, line.len()))),
                }
            }
        };
        // Not looked at again, as others may never cease to write: the end of the line tells.
        for entrance in [entrance, Entrance::Queue] {
            let asked = self.ask_for_place(session.clone(), entrance, began, until).await?;
            if let Asked::Stepped(attempt) = asked {
                return Ok(attempt);
            }
        }
        Ok(None)
    }

    async fn ask_for_place(
        &mut self,
        session: Arc<Session>,
        entrance: Entrance,
        began: Instant,
        until: Instant,
    ) -> Result<Asked, Fault> {
        let range = self.line_range();
        let key = line::name(&self.prefix, session.lease, self.id, self.kind);
        let epoch = session.epoch();
        let mut compare = vec![Compare::created(&key, 0), session.in_epoch(epoch)];
        let mut about = self.about.clone();
        if let Entrance::AsRead { revision, slot } = entrance {
            compare.push(Compare::unwritten_since(&range, revision));
            about.slot = slot;
        }
        // Owned before anything is sent, so that nothing can be left behind.
        let lease_end = began.plus(self.terms.lease);
        let place = LockKey::new(session.clone(), key.clone(), epoch, lease_end);
        self.place = Some(place.clone());
        let put = PutRequest {
            key,
            value: about.written(),
            lease: session.lease,
            ..PutRequest::default()
        };
        let read = || RequestOp::from(Op::Range(range.read(0)));
        let success = vec![Op::Put(put).into(), read()];
        let failure = vec![read(), Op::Range(session.own().read(0)).into()];
        let asked = session.transact(compare, success, failure, Repeat::No, until).await;
        let answer = match asked {
            Ok(answer) => answer,
            // A claim that does not wait is told; for others the place is looked for in the next
            // step.
            Err(Failure::Unknown(fault)) if !self.terms.queues => return Err(fault),
            Err(Failure::Unknown(fault)) => {
                tracing::debug!(%fault, "a place in a line at etcd is in doubt");
                return Ok(Asked::Stepped(None));
            }
            Err(Failure::Full(fault)) => {
                place.is_untold();
                return Err(fault);
            }
            Err(failure) => {
                place.is_gone();
                self.stand_outside();
                return Self::not_served(failure).map(Asked::Stepped);
            }
        };
        if answer.succeeded {
            let created = answer.revision();
            place.is_there(created);
            if created >= REVISION_END {
                self.stand_outside();
                let what = "etcd has counted too many revisions for fencing tokens of 63 bits";
                return Err(Fault::new(FaultKind::Refused, what));
            }
            let line = Line::of(&self.prefix, answer.read_at(1));
            return self.stand(&place, &line, created, began, until).await.map(Asked::Stepped);
        }
        place.is_gone();
        self.stand_outside();
        let line = Line::of(&self.prefix, answer.read_at(0));
        if !self.terms.queues && !line.is_open_to(self.kind) {
            self.check_limit(&line)?;
            return Ok(Asked::Stepped(Some(self.blocked(&session, line.len()))));
        }
        let is_in_epoch = answer.read_at(1).iter().any(|own| own.mod_revision == epoch);
        if session.epoch() == epoch && (entrance == Entrance::Queue || !is_in_epoch) {
            // Somebody else wrote our own key, or deleted it, or it went with the lease.
            return match session.fence(epoch, until).await {
                Ok(()) => Ok(Asked::Stepped(None)),
                Err(failure) => Self::not_served(failure).map(Asked::Stepped),
            };
        }
        match entrance {
            Entrance::AsRead { .. } if is_in_epoch => Ok(Asked::Overtaken),
            _ => Ok(Asked::Stepped(None)),
        }
    }

    /// Refuses a claim that says otherwise of how many permits there are than those in use do. What
    /// others want says nothing: they may be about to be refused themselves.
    fn check_limit(&self, line: &Line) -> Result<(), Fault> {
        let Kind::Permit(of) = self.kind else { return Ok(()) };
        match line.limit() {
            Some(other) if other != of => Err(Fault::other_limit(other)),
            _ => Ok(()),
        }
    }

    /// The step of a claim with a key in the line, by what the line says about it.
    async fn stand(
        &mut self,
        place: &Arc<LockKey>,
        line: &Line,
        revision: i64,
        began: Instant,
        until: Instant,
    ) -> Stepped {
        let Some(standing) = line.standing(&place.key) else {
            // An operator took it away.
            place.is_gone();
            return Ok(None);
        };
        if let Err(refusal) = self.check_limit(line) {
            // A key that is not deleted at once is deleted in the background.
            drop(self.withdraw().await);
            self.stand_outside();
            return Err(refusal);
        }
        let watched = match standing.awaits {
            Awaits::Nothing => {
                let written = standing.place.written;
                let slot = match (self.kind, standing.place.about.slot) {
                    (Kind::Permit(_), None) => {
                        let about =
                            About { slot: Some(line.free_slot()), ..standing.place.about.clone() };
                        return self.take_slot(place, &about, written, revision, until).await;
                    }
                    (_, slot) => slot.unwrap_or(0),
                };
                return self.hold(place, standing, slot, revision, began, until).await;
            }
            Awaits::One(key) => vec![
                Wanted { range: Range::one(key), events: Events::All },
                Wanted { range: Range::one(&place.key), events: Events::Deletions },
            ],
            Awaits::Any => vec![Wanted { range: self.line_range(), events: Events::Deletions }],
        };
        let blocked = self.blocked(&place.session, standing.ahead);
        if !self.terms.queues {
            // A line that was joined in vain is left at once.
            return self.withdraw().await.map(|_| Some(blocked));
        }
        self.has_waited = true;
        let before = self.watch.take();
        self.watch = Some(self.sessions.hub.watch(before, watched, revision));
        Ok(Some(blocked))
    }

    /// Writes the number of its permit down, unless somebody has written into the line since it was
    /// read: that may be another who takes the same number.
    async fn take_slot(
        &mut self,
        place: &Arc<LockKey>,
        about: &About,
        written: i64,
        revision: i64,
        until: Instant,
    ) -> Stepped {
        // Only our claims have numbers. Their leases begin so, whatever longer paths hold.
        let (first, last) = LEASE_DIGITS;
        let ours = Range::between(&self.prefix, first, last);
        let compare =
            vec![Compare::written(&place.key, written), Compare::unwritten_since(&ours, revision)];
        let put = rewrite(&place.key, about);
        // The effect of it is read in the next step, whatever the answer.
        match place.session.transact(compare, vec![put], vec![], Repeat::Yes, until).await {
            Ok(_) => Ok(None),
            Err(failure) => Self::not_served(failure),
        }
    }
}

/// Has a key say something else, and leaves it to its lease.
pub(super) fn rewrite(key: &[u8], about: &About) -> RequestOp {
    let (key, value) = (key.to_vec(), about.written());
    Op::Put(PutRequest { key, value, ignore_lease: true, ..PutRequest::default() }).into()
}
