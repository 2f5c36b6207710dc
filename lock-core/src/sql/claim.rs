//! A claim on a key in a database.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::changes::{Ear, Hearing, Sight, Why};
use super::dialect::{Ask, Dialect};
use super::lane::Lane;
use super::row::{CLAIM_LEASE, Row, With};
use super::store::{Budget, REQUEST, Store, extended, is_plain};
use super::together::Coming;
use crate::backend::register::Place;
use crate::backend::{
    Attempt, Change, Claim, ClaimId, Fault, Grant, Manner, Mode, Renewal, Terms, Withdrawal,
};
use crate::ground::clock;
use crate::key::Key;
use crate::proto::lease::drift;

/// A renewal is over within this share of its lease, and these bounds, so that there is time for
/// another.
const RENEWAL_SHARE: u32 = 6;
const RENEWAL_MIN: Duration = Duration::from_millis(50);

/// A claim on a key in a database.
#[derive(Debug)]
pub(super) struct LeaseClaim<D> {
    store: Arc<Store<D>>,
    ask: Ask,
    place: Place<With>,
    manner: Manner,
    /// The row that the last answer was made of.
    seen: Option<i64>,
    ear: Option<Ear>,
    stands: Stands,
    /// The outcome of an attempt was not heard. It may take the key until then, also behind a
    /// withdrawal. A later one that was granted tells of it from then on.
    in_doubt: Option<Instant>,
    /// A change was told, and nothing was asked since.
    heard: bool,
    /// The row by which it was told, while it waited: most often that it was granted the key.
    granted: Option<Arc<Sight>>,
    /// It was told that somebody who did not wait was refused the key.
    tried_told: bool,
    /// Until it asks for the first time.
    coming: Option<Coming>,
}

/// The state that a claim was told last.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Stands {
    /// Nothing yet.
    New,
    /// Nothing of what it asked for last.
    Asking,
    Waiting,
    Holding {
        /// Others waited for the key then.
        wanted: bool,
        /// It was handed the key and did not renew since: the columns do not say it all.
        handed_on: bool,
    },
}

impl Stands {
    fn holding(grant: Grant) -> Self {
        Self::Holding { wanted: grant.wanted, handed_on: grant.handed_on }
    }
}

impl<D: Dialect> LeaseClaim<D> {
    pub(super) fn new(
        store: Arc<Store<D>>,
        key: &Key,
        id: ClaimId,
        terms: Terms,
        value: Option<Arc<str>>,
    ) -> Self {
        // The row has whole milliseconds.
        let lease_ms = u64::try_from(terms.lease.as_millis()).unwrap_or(u64::MAX);
        let lease = Duration::from_millis(lease_ms);
        let about: Arc<str> = terms.about().into();
        let tokens_max = terms.tokens_max.max(1);
        let with = With { about: about.clone(), value };
        let coming = Some(store.turns.comes(key));
        Self {
            store,
            ask: Ask { key: key.clone(), claim: id, lease, tokens_max, about },
            place: Place { claim: id, mode: terms.mode, lease, tokens_max, due: None, with },
            manner: Manner::of(&terms),
            seen: None,
            ear: None,
            stands: Stands::New,
            in_doubt: None,
            heard: false,
            granted: None,
            tried_told: false,
            coming,
        }
    }

    /// Has it take the key from all who hold it.
    pub(super) fn forcing(self) -> Self {
        Self { manner: Manner::Forces, ..self }
    }

    /// Has changes of the row told from now on. It `reads` the row if there may have been some
    /// since the last answer.
    fn listen(&mut self, why: Why, reads: bool) -> &mut Ear {
        let Self { ear, store, ask, .. } = self;
        let ear = ear.get_or_insert_with(|| store.changes.listen(&ask.key, ask.claim, why, reads));
        ear.turns_to(why);
        ear
    }

    /// Listens from before the request on, where others say what they write.
    fn listen_before(&mut self, why: Why) {
        if self.store.changes.hearing() == Hearing::Told {
            self.listen(why, false);
        } else if let Some(ear) = &mut self.ear {
            ear.turns_to(why);
        }
    }

    fn answered<A>(&mut self, (answer, seen): (A, Option<i64>)) -> A {
        (self.seen, self.heard) = (seen, false);
        answer
    }

    /// The grant of the row that was told last, as long as most of its lease is left: to ask for it would
    /// bring the same again.
    ///
    /// Not where nobody waited, nor where it was told at once: those who had the key just now may be back
    /// in the line by the time of another read, and a holder who does not know that it is wanted goes on
    /// with those of its own process. In strict order on PostgreSQL they had several turns in a row so.
    fn told_grant(&mut self) -> Option<Grant> {
        let sight = self.granted.take()?;
        // Once others say what they write, each word concerns it.
        if let Some(ear) = &mut self.ear {
            ear.turns_to(Why::Asks);
        }
        if self.store.changes.hearing() == Hearing::Told {
            return None;
        }
        // Others may have had the key taken away since.
        self.ear.as_ref().filter(|ear| ear.is_last(&sight))?;
        let grant = sight.row.entry().ok()?.grant_of(self.ask.claim, sight.now)?;
        // The lease counts from now on, and has run since the row was asked for.
        let late = clock::now().saturating_duration_since(sight.asked);
        let valid_for = grant.valid_for.saturating_sub(late + drift(late));
        (grant.wanted && valid_for > self.ask.lease.min(CLAIM_LEASE) / 2).then(|| {
            self.seen = Some(sight.row.version);
            Grant { valid_for, ..grant }
        })
    }

    fn renewal_time(&self) -> Duration {
        (self.ask.lease / RENEWAL_SHARE).clamp(RENEWAL_MIN, REQUEST)
    }

    /// Whether a row has something for this claim.
    fn change(&mut self, row: &Row) -> Option<Change> {
        // The next request tells what is odd about the row.
        let Ok(entry) = row.entry() else { return Some(Change::Here) };
        let me = self.ask.claim;
        let own = entry.granted().iter().find(|owner| owner.place.claim == me);
        match (&self.stands, own) {
            (Stands::Holding { .. }, Some(own)) => {
                if own.revoke_requested || entry.is_wanted() {
                    return Some(Change::Here);
                }
                let is_new = own.tried && !self.tried_told;
                self.tried_told = own.tried;
                is_new.then_some(Change::Tried)
            }
            // One who waits is told of its grant, and when it stands nowhere or first of all.
            (Stands::Asking | Stands::Waiting, None) => {
                let stands = entry.line().any(|place| place.claim == me);
                (!stands || entry.granted().is_empty()).then_some(Change::Here)
            }
            _ => Some(Change::Here),
        }
    }
}

impl<D: Dialect> Claim for LeaseClaim<D> {
    async fn attempt(&mut self) -> Result<Attempt, Fault> {
        self.heard = false;
        if let Some(grant) = self.told_grant() {
            self.stands = Stands::holding(grant);
            self.in_doubt = self.in_doubt.filter(|until| clock::now() < *until);
            return Ok(Attempt::Granted(grant));
        }
        let (ask, place, manner) = (self.ask.clone(), self.place.clone(), self.manner);
        let is_new = self.stands == Stands::New;
        // The next attempt has to look, whatever becomes of this one.
        self.stands = Stands::Asking;
        self.listen_before(Why::Asks);
        let budget = Budget::of(REQUEST);
        let coming = self.coming.take();
        let attempt = self.store.ask(budget, |store, by| async move {
            drop(coming);
            store.attempt(ask, place, manner, is_new, by).await
        });
        // Nothing is heard where this is dropped, either. Only the short way asks for no version, and
        // so may come behind a withdrawal.
        let until = if is_new { budget.by } else { clock::now() };
        let was_in_doubt = self.in_doubt;
        self.in_doubt = was_in_doubt.max(Some(until));
        let answer = attempt.await.inspect_err(|fault| {
            if fault.is_unsent() {
                self.in_doubt = was_in_doubt;
            }
        })?;
        let answer = self.answered(answer);
        let is_granted = matches!(answer, Attempt::Granted(_));
        self.in_doubt = was_in_doubt.filter(|until| !is_granted || clock::now() < *until);
        self.stands = match answer {
            Attempt::Granted(grant) => Stands::holding(grant),
            // One that stands in no line may find the key free.
            Attempt::Blocked { .. } if self.manner == Manner::Tries => Stands::New,
            Attempt::Blocked { .. } => Stands::Waiting,
        };
        if let (Stands::Waiting, Some(ear)) = (&self.stands, &mut self.ear) {
            ear.turns_to(Why::Waits);
        }
        Ok(answer)
    }

    async fn changed(&mut self) -> Change {
        if self.heard {
            return Change::Here;
        }
        let why = match self.stands {
            Stands::Holding { .. } => Why::Holds,
            Stands::New | Stands::Asking => Why::Asks,
            Stands::Waiting => Why::Waits,
        };
        loop {
            let seen = self.seen;
            let Some(sight) = self.listen(why, true).other_than(seen).await else {
                self.heard = true;
                return Change::Here;
            };
            match self.change(&sight.row) {
                Some(Change::Here) => {
                    self.heard = true;
                    let waits = matches!(self.stands, Stands::Asking | Stands::Waiting);
                    self.granted = waits.then_some(sight);
                    return Change::Here;
                }
                other => {
                    self.seen = Some(sight.row.version);
                    if let Some(change) = other {
                        return change;
                    }
                }
            }
        }
    }

    async fn renew(&mut self) -> Result<Renewal, Fault> {
        (self.heard, self.granted) = (false, None);
        let was_handed_on = matches!(self.stands, Stands::Holding { handed_on: true, .. });
        let may_be_short = is_plain(&self.place) && !was_handed_on;
        let budget = Budget::of(self.renewal_time());
        let together = match may_be_short {
            true => self.store.dialect.renew_together(&self.ask, budget.by).await?,
            false => None,
        };
        let answer = match together {
            Some(taken) => extended(taken, self.ask.lease),
            None => {
                let ask = self.ask.clone();
                let renewal = self.store.ask(budget, |store, by| async move {
                    Lane::Renewals.scope(store.renew(ask, may_be_short, by)).await
                });
                renewal.await?
            }
        };
        let answer = self.answered(answer);
        if let Renewal::Held(grant) = answer {
            self.stands = Stands::holding(grant);
        }
        Ok(answer)
    }

    async fn downgrade(&mut self) -> Result<Renewal, Fault> {
        (self.heard, self.granted) = (false, None);
        let ask = self.ask.clone();
        // It is no writer any more once this was asked.
        self.place.mode = Mode::Shared;
        let renewal = self.store.ask(Budget::of(self.renewal_time()), |store, by| async move {
            Lane::Renewals.scope(store.downgrade(ask, by)).await
        });
        let answer = renewal.await?;
        Ok(self.answered(answer))
    }

    async fn withdraw(&mut self) -> Result<Withdrawal, Fault> {
        let (key, claim) = (self.ask.key.clone(), self.ask.claim);
        let in_doubt = self.in_doubt;
        self.granted = None;
        // Elsewhere the short way writes nothing most often, and is a statement too many.
        let is_alone = self.stands == Stands::Holding { wanted: false, handed_on: false };
        let may_be_short = is_plain(&self.place) && is_alone;
        let withdrawal = self.store.ask(Budget::of(REQUEST), |store, by| async move {
            store.withdraw(key, claim, may_be_short, in_doubt.is_some(), by).await
        });
        let withdrawal = withdrawal.await?;
        if let Some(until) = self.in_doubt.take() {
            self.store.clear_away(&self.ask, until);
        }
        Ok(withdrawal)
    }
}
