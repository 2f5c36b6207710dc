//! A turn of a key's register: the row is read, a pure machine says what it is to be, and that is
//! written by compare-and-swap.

use std::time::{Duration, Instant};

use super::changes::Sight;
use super::dialect::{Dialect, Seen};
use super::fault::DatabaseError;
use super::news::is_news;
use super::row::{Entry, Row, micros};
use super::store::{Answered, Store, other};
use super::together::{Asks, Begun, Company, Told, Writes};
use crate::backend::Fault;
use crate::backend::io::Pauses;
use crate::backend::register::{Turn, reserve, ticks};
use crate::ground::{Plus as _, clock};
use crate::key::Key;

/// Between two tries of a turn that others came before.
const TURN_PAUSES: Pauses = Pauses::new(Duration::from_millis(1), Duration::from_millis(16));

/// The outcome of a turn.
struct Served<A> {
    answer: A,
    /// `None` where nothing is to be written.
    next: Option<Next>,
}

/// The row to be written, and whether others have to be told.
struct Next {
    row: Row,
    tells: bool,
}

impl<D: Dialect> Store<D> {
    /// As [`turn`](Self::turn), together with others of this key that begin meanwhile.
    pub(super) async fn turn_together<A>(
        &self,
        key: &Key,
        asks: Asks<A>,
        by: Instant,
    ) -> Answered<A>
    where
        A: Send + 'static,
    {
        let company = match self.turns.begin(key, &asks, by) {
            Begun::Leads(lead) => Company::of(lead),
            Begun::Follows(place) => match place.told().await {
                Told::Answer(answer) => return answer,
                Told::Leads(lead) => Company::of(lead),
                Told::Alone => Company::none(),
                Told::Lost => {
                    return Err(other(format!(
                        "no answer to what was asked for `{key}` together with others"
                    )));
                }
            },
        };
        self.turn_with(company, key, asks, by).await
    }

    /// Has the register of a key do something, and writes what it is then, if that is another. Asks
    /// anew where somebody else wrote in between.
    pub(super) async fn turn<A: Send>(&self, key: &Key, asks: Asks<A>, by: Instant) -> Answered<A> {
        self.turn_with(Company::none(), key, asks, by).await
    }

    async fn turn_with<A: Send>(
        &self,
        mut company: Company,
        key: &Key,
        asks: Asks<A>,
        by: Instant,
    ) -> Answered<A> {
        let mut tries = 0;
        loop {
            let read_at = clock::now();
            let seen = self.dialect.read(key, by).await?;
            let version = seen.row.as_ref().map(|seen| seen.version);
            company.gather(&asks).await;
            let Served { answer, next } = self.serve(key, &seen, read_at, &asks, &mut company)?;
            let Some(Next { row, tells }) = next else {
                company.unwritten(version, read_at);
                return Ok((answer, version));
            };
            company.is_sent();
            match self.dialect.swap(key, version, &row, tells, by).await {
                Ok(true) => {
                    let version = Some(row.version);
                    self.changes.tell(key, Sight { row, now: seen.now, asked: read_at });
                    company.written(&Ok(version));
                    return Ok((answer, version));
                }
                // Others came before.
                Ok(false) => company.unsent(),
                Err(fault) if fault.is_unsent() => {
                    company.unsent();
                    return Err(fault);
                }
                Err(fault) => {
                    company.written(&Err(fault.clone()));
                    return Err(fault);
                }
            }
            tries += 1;
            let pause = TURN_PAUSES.after(tries);
            if clock::now().plus(pause) >= by {
                let what = format!("others changed the row of `{key}` {tries} times in between");
                return Err(other(what).unsent());
            }
            if tries > 1 {
                self.home.sleep_until(clock::now().plus(pause)).await;
            }
        }
    }

    /// Has the register of a key, as it was seen, do what is asked of it.
    fn serve<A>(
        &self,
        key: &Key,
        seen: &Seen,
        read_at: Instant,
        asks: &Asks<A>,
        company: &mut Company,
    ) -> Result<Served<A>, Fault> {
        let mut entry = self.entry(key, seen)?;
        let before = self.dialect.tells().then(|| entry.clone());
        let turn = Turn {
            now: seen.now,
            mint: &|last, count| reserve(last, ticks(micros(seen.now)), count),
            wake: &|_| {},
            may_grant: true,
        };
        let mut answer = asks.ask(&mut entry, &turn);
        company.ask(&mut entry, &turn);
        asks.settle(&mut answer, &entry, seen.now, Duration::ZERO);
        company.settle(&entry, seen.now, read_at);
        let row = Row::of(&entry, seen.row.as_ref(), seen.now);
        let is_same = match &seen.row {
            Some(seen) => row.says_the_same_as(seen),
            None => entry.last().is_none() && entry.is_idle(seen.now),
        };
        if is_same && asks.writes == Writes::WhereItChanges && !company.writes_in_any_case() {
            return Ok(Served { answer, next: None });
        }
        let knows = |claim| {
            asks.claim == Some(claim) || company.knows(claim) || self.changes.hears(key, claim)
        };
        let tells = before.is_some_and(|before| is_news(&before, &entry, knows));
        Ok(Served { answer, next: Some(Next { row, tells }) })
    }

    pub(super) fn entry(&self, key: &Key, seen: &Seen) -> Result<Entry, Fault> {
        let entry = seen.row.as_ref().map(Row::entry).transpose();
        Ok(entry
            .map_err(|what| DatabaseError::Row {
                key: key.to_string(),
                table: self.dialect.schema().leases().to_string(),
                what,
            })?
            .unwrap_or_default())
    }
}
