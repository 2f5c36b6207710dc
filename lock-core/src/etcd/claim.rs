//! The verbs of one claim.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::about::About;
use super::fault::{self, Failure};
use super::line::{Kind, Line};
use super::links::{Answer, REQUEST_WITHIN};
use super::lock_key::{LockKey, Presence};
use super::session::Session;
use super::sessions::Sessions;
use super::watch::Watch;
use super::wire::Range;
use crate::backend::{
    Attempt, Change, Claim, ClaimId, Fault, FaultKind, Renewal, Terms, Withdrawal,
};
use crate::ground::{Plus as _, clock};
use crate::key::Key;
use crate::token::TokenBlock;

/// The bits of a token that count the hand-offs of one claim; the others are the revision that
/// created its key.
const HANDOFF_BITS: u32 = 12;

/// Revisions from here on leave no room for the hand-offs in 63 bits.
pub(super) const REVISION_END: i64 = 1 << (63 - HANDOFF_BITS);

/// A claim on one key at etcd: its key in the line, what it watches, and until when it holds.
#[derive(Debug)]
pub struct EtcdClaim {
    pub(super) sessions: Arc<Sessions>,
    /// The bytes that the keys of the line begin with.
    pub(super) prefix: Arc<[u8]>,
    pub(super) kind: Kind,
    /// The id of the next key.
    pub(super) id: ClaimId,
    pub(super) terms: Terms,
    pub(super) about: About,
    pub(super) place: Option<Arc<LockKey>>,
    pub(super) has_waited: bool,
    pub(super) held: Option<Held>,
    pub(super) watch: Option<Watch>,
}

/// A hold, as its holder knows it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Held {
    /// The time at which the line was read last, and the revision of that.
    pub(super) looked: Instant,
    pub(super) revision: i64,
    pub(super) slot: u32,
    pub(super) is_wanted: bool,
    pub(super) is_revoked: bool,
    pub(super) has_waited: bool,
}

/// The tokens of a claim whose key was created at this revision: as many as the claim asked for,
/// and never those of the next revision.
pub(super) fn tokens(created: i64, count: u32) -> TokenBlock {
    let first = u64::try_from(created).unwrap_or(0) << HANDOFF_BITS;
    let most = (1 << HANDOFF_BITS) - 1;
    TokenBlock::new(first, first.saturating_add(u64::from(count.saturating_sub(1)).min(most)))
}

/// The place of the line of a key: the bytes that all keys in it begin with.
pub(super) fn prefix(sessions: &Sessions, key: &Key) -> Arc<[u8]> {
    format!("{}{key}/", sessions.links.target.root).into_bytes().into()
}

/// The result of one step; without an attempt, the next step follows.
pub(super) type Stepped = Result<Option<Attempt>, Fault>;

impl EtcdClaim {
    pub(super) fn new(
        sessions: Arc<Sessions>,
        key: &Key,
        id: ClaimId,
        terms: Terms,
        value: Option<&str>,
    ) -> Self {
        Self {
            prefix: prefix(&sessions, key),
            sessions,
            kind: Kind::of(terms.mode, value.is_some()),
            id,
            about: value.map_or_else(|| About::of(&terms), About::published),
            terms,
            place: None,
            has_waited: false,
            held: None,
            watch: None,
        }
    }

    pub(super) fn line_range(&self) -> Range {
        Range::prefix(&self.prefix)
    }

    /// Everybody in the line, and as of which revision.
    pub(super) async fn line(&self, session: &Session, until: Instant) -> Answer<(Line, i64)> {
        let read = session.read(&self.line_range(), until).await?;
        let revision = read.header.map_or(0, |header| header.revision);
        Ok((Line::of(&self.prefix, &read.kvs), revision))
    }

    /// A waiting claim asks again this often: its own lease must not end meanwhile.
    pub(super) fn recheck(&self, session: &Session) -> Duration {
        (self.terms.lease / 3).min(session.ttl / 3)
    }

    /// The answer for a claim that waits for others, or is not in the line.
    pub(super) fn blocked(&self, session: &Session, others: usize) -> Attempt {
        Attempt::Blocked { ahead: u32::try_from(others).ok(), recheck: self.recheck(session) }
    }

    /// The meaning of a failure for who can go on by looking anew.
    pub(super) fn not_served(failure: Failure) -> Stepped {
        match failure {
            Failure::NoLease => Ok(None),
            failure => Err(failure.into_fault()),
        }
    }

    /// Forgets the place in the line; what is left of it is deleted. A further one gets a key of
    /// another name, unless there is nothing that could be taken for it.
    pub(super) fn stand_outside(&mut self) {
        if self.place.take().is_some_and(|place| place.presence() != Presence::Absent) {
            self.id = ClaimId::random();
        }
        self.has_waited = false;
        self.held = None;
        self.watch = None;
    }

    /// Refuses what would be taken for something else.
    fn check_value(&self) -> Result<(), Fault> {
        if self.kind == Kind::Candidate && self.about.is_ambiguous() {
            let what = "what a candidate publishes at etcd cannot begin with `__REVOKE__ `, \
                        `__SHARED__ ` or `__SLOT__<n> `, which say something of a claim";
            return Err(Fault::new(FaultKind::Refused, what));
        }
        Ok(())
    }

    async fn leave(&mut self) -> Result<Withdrawal, Fault> {
        let until = clock::now().plus(REQUEST_WITHIN);
        // Kept until the end: it falls silent by itself with the key.
        let _watch = self.watch.take();
        loop {
            let Some(place) = self.place.clone() else { return Ok(Withdrawal::NotHeld) };
            let left = match place.presence() {
                _ if place.session.liveness.is_over() => break,
                Presence::Absent | Presence::GivenUp => break,
                Presence::Asked { .. } => place.settle(until).await.map(|()| None),
                Presence::There { created } => place.delete(created, until).await.map(Some),
            };
            match left {
                Ok(None) | Err(Failure::NoLease) => {}
                Ok(Some(was_there)) => {
                    let held = self.held.is_some() && was_there;
                    self.stand_outside();
                    let gone = Withdrawal::NotHeld;
                    return Ok(if held { Withdrawal::Released } else { gone });
                }
                Err(failure) => return Err(failure.into_fault()),
            }
        }
        self.stand_outside();
        Ok(Withdrawal::NotHeld)
    }
}

impl Claim for EtcdClaim {
    async fn attempt(&mut self) -> Result<Attempt, Fault> {
        self.check_value()?;
        let began = clock::now();
        let until = began.plus(REQUEST_WITHIN);
        loop {
            if let Some(attempt) = self.advance(began, until).await? {
                return Ok(attempt);
            }
            if clock::now() >= until {
                return Err(fault::timed_out(REQUEST_WITHIN));
            }
        }
    }

    async fn changed(&mut self) -> Change {
        self.watch_as_holder().await;
        loop {
            match &self.watch {
                Some(watch) => watch.over().await,
                None => std::future::pending().await,
            }
            if !self.was_only_overtaken().await {
                return Change::Here;
            }
        }
    }

    async fn renew(&mut self) -> Result<Renewal, Fault> {
        self.extend_hold().await
    }

    async fn downgrade(&mut self) -> Result<Renewal, Fault> {
        self.become_reader().await
    }

    async fn withdraw(&mut self) -> Result<Withdrawal, Fault> {
        self.leave().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tokens_of_one_claim_are_below_those_of_the_next() {
        let (mut one, two) = (tokens(7, u32::MAX), tokens(8, 1));
        assert_eq!((one.left(), two.left()), (4_096, 1));
        assert!(one.last() < two.first());
        assert_eq!(one.take(), Some(7 << 12));
        assert!(tokens(REVISION_END - 1, u32::MAX).last() < Some(1 << 63));
    }
}
