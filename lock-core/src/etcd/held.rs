//! Holding the key: the grant, what a holder looks at, and what it is told.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::about::About;
use super::claim::{EtcdClaim, Held, Stepped, tokens};
use super::fault::{self, Failure};
use super::join::rewrite;
use super::line::{Kind, Standing};
use super::links::{REQUEST_WITHIN, Repeat};
use super::lock_key::{LockKey, Presence};
use super::watch::{Events, Wanted};
use super::wire::{Compare, Range};
use crate::backend::io::by;
use crate::backend::{Attempt, Fault, Grant, Renewal};
use crate::ground::{Plus as _, clock};
use crate::token::TokenBlock;

/// A hold that is over before this does not ask to be told of others.
const WATCH_AFTER: Duration = Duration::from_millis(2);

/// Before a holder looks again who came, where those who come need not have to wait: one look for
/// all who come and go meanwhile.
const LOOK_PAUSE: Duration = Duration::from_millis(50);

impl EtcdClaim {
    /// The claim holds the key.
    pub(super) async fn hold(
        &mut self,
        place: &Arc<LockKey>,
        standing: Standing<'_>,
        slot: u32,
        revision: i64,
        began: Instant,
        until: Instant,
    ) -> Stepped {
        let Presence::There { created } = place.presence() else { return Ok(None) };
        self.watch = None;
        let held = Held {
            looked: clock::now(),
            revision,
            slot,
            is_wanted: standing.is_wanted,
            is_revoked: standing.place.about.is_revoked,
            has_waited: self.has_waited,
        };
        self.held = Some(held);
        let tokens = tokens(created, self.terms.tokens_max);
        let grant = self.grant(place, held, began, until, tokens).await;
        // Nobody may take the key away before the grant is over.
        if !place.extend(began.plus(self.terms.lease)) {
            return Ok(None);
        }
        grant.map(|grant| Some(Attempt::Granted(grant)))
    }

    /// The grant of a claim that holds the key, as seen by a request that began at `began`.
    async fn grant(
        &self,
        place: &LockKey,
        held: Held,
        began: Instant,
        until: Instant,
        tokens: TokenBlock,
    ) -> Result<Grant, Fault> {
        let liveness = &place.session.liveness;
        if !liveness.clock().is_confirmed(clock::now()) {
            let confirmed = by(until, Box::pin(liveness.confirmed())).await;
            if !confirmed.unwrap_or(false) {
                return Err(fault::unconfirmed());
            }
        }
        let session_left = liveness.clock().valid_until().saturating_duration_since(began);
        Ok(Grant {
            slot: held.slot,
            wanted: held.is_wanted,
            handed_on: held.has_waited,
            revoke_requested: held.is_revoked,
            ..Grant::new(tokens, self.terms.lease.min(session_left))
        })
    }

    /// Extends the hold, if its key is there.
    pub(super) async fn extend_hold(&mut self) -> Result<Renewal, Fault> {
        let began = clock::now();
        let until = began.plus(REQUEST_WITHIN);
        let (Some(place), Some(held)) = (self.place.clone(), self.held) else {
            return Ok(Renewal::Lost);
        };
        if !place.extend(began.plus(self.terms.lease)) {
            self.stand_outside();
            return Ok(Renewal::Lost);
        }
        let (line, revision) = match self.line(&place.session, until).await {
            Ok(read) => read,
            Err(_) if place.session.liveness.is_over() => {
                self.stand_outside();
                return Ok(Renewal::Lost);
            }
            Err(failure) => return Err(failure.into_fault()),
        };
        let standing = line.standing(&place.key);
        let Some(standing) = standing.filter(|_| !place.is_lost()) else {
            place.is_gone();
            self.stand_outside();
            return Ok(Renewal::Lost);
        };
        let now = Held {
            looked: clock::now(),
            revision,
            is_wanted: standing.is_wanted,
            is_revoked: standing.place.about.is_revoked,
            ..held
        };
        let is_told = self.watch.as_ref().is_some_and(|watch| !watch.looked(revision));
        let is_news = now.is_wanted != held.is_wanted || now.is_revoked != held.is_revoked;
        if is_told || is_news {
            // Set anew when the engine listens again.
            self.watch = None;
        }
        self.held = Some(now);
        self.grant(&place, now, began, until, TokenBlock::empty()).await.map(Renewal::Held)
    }

    /// Waits for news as a holder.
    pub(super) async fn watch_as_holder(&mut self) {
        let (Some(held), None, Some(place)) = (self.held, &self.watch, &self.place) else { return };
        let pause = match self.kind {
            Kind::Alone | Kind::Candidate => WATCH_AFTER,
            Kind::Reader | Kind::Permit(_) => LOOK_PAUSE,
        };
        self.sessions.links.home.sleep_until(held.looked.plus(pause)).await;
        let mut wanted = vec![Wanted { range: Range::one(&place.key), events: Events::All }];
        if !held.is_wanted {
            wanted.push(Wanted { range: self.line_range(), events: Events::Puts });
        }
        self.watch = Some(self.sessions.hub.watch(None, wanted, held.revision));
    }

    /// Whether a holder's watch has told only that others wrote before it began, and a look shows
    /// nothing new of this key. The engine hears of none of that: to it news are of others who want
    /// the key.
    pub(super) async fn was_only_overtaken(&self) -> bool {
        let (Some(held), Some(place), Some(watch)) = (self.held, &self.place, &self.watch) else {
            return false;
        };
        if !watch.is_behind() {
            return false;
        }
        let until = clock::now().plus(REQUEST_WITHIN);
        let Ok((line, revision)) = self.line(&place.session, until).await else { return false };
        let is_known = line.standing(&place.key).is_some_and(|now| {
            (now.is_wanted, now.place.about.is_revoked) == (held.is_wanted, held.is_revoked)
        });
        is_known && watch.looked(revision)
    }

    /// Has a claim that holds the key alone share it: its key stays where it is, and says so. Those
    /// who wait for its end look at the line when it is written.
    pub(super) async fn become_reader(&mut self) -> Result<Renewal, Fault> {
        let until = clock::now().plus(REQUEST_WITHIN);
        loop {
            let (Some(place), Some(_)) = (self.place.clone(), self.held) else {
                return Ok(Renewal::Lost);
            };
            match self.kind {
                Kind::Reader => return self.extend_hold().await,
                Kind::Candidate | Kind::Permit(_) => return Ok(Renewal::Lost),
                Kind::Alone => {}
            }
            if !place.extend(clock::now().plus(self.terms.lease)) {
                self.stand_outside();
                return Ok(Renewal::Lost);
            }
            let (line, _) = match self.line(&place.session, until).await {
                Ok(read) => read,
                Err(failure) => return Err(failure.into_fault()),
            };
            let Some(standing) = line.standing(&place.key) else {
                place.is_gone();
                self.stand_outside();
                return Ok(Renewal::Lost);
            };
            if standing.place.about.is_shared {
                self.kind = Kind::Reader;
                self.watch = None;
                return self.extend_hold().await;
            }
            let about = About { is_shared: true, ..standing.place.about.clone() };
            let compare = vec![Compare::written(&place.key, standing.place.written)];
            let put = vec![rewrite(&place.key, &about)];
            // The effect of it is read, whatever the answer.
            match place.session.transact(compare, put, vec![], Repeat::Yes, until).await {
                Ok(_) | Err(Failure::NoLease) => {}
                Err(failure) => return Err(failure.into_fault()),
            }
            if clock::now() >= until {
                return Err(fault::timed_out(REQUEST_WITHIN));
            }
        }
    }
}
