//! The statements over the link.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use sqlx::Row as _;
use sqlx::postgres::PgRow;

use super::arg::Arg;
use super::link::Link;
use super::listen::{LOOKS, Listener, Name};
use super::renewals::Several;
use super::statements::{self, Telling};
use crate::backend::{ClaimId, Fault};
use crate::key::Key;
use crate::sql::changes::{Changes, Hearing};
use crate::sql::dialect::{Ask, Dialect, Named, SWEEP_ROWS, Seen, Taken, Within};
use crate::sql::fault::odd;
use crate::sql::read::Found;
use crate::sql::remote::{Renewals, ServerClock, Twice};
use crate::sql::row::{Row, ms};
use crate::sql::schema::Schema;
use crate::sql::statements::Statements;

/// The place of the time behind what a grant answers.
const TIME: usize = 4;

/// PostgreSQL as the store needs it.
#[derive(Debug)]
pub(in crate::sql) struct PostgresDialect {
    link: Arc<Link>,
    texts: Statements,
    telling: Telling,
    renewals: Renewals<Several>,
    time: ServerClock,
    name: Name,
    listener: OnceLock<Listener>,
    looks: AtomicI64,
    requests: Arc<AtomicU64>,
}

impl PostgresDialect {
    pub(super) fn new(link: Arc<Link>) -> Self {
        let table = link.config().qualified_table();
        let texts = statements::of(&table);
        let requests = Arc::<AtomicU64>::default();
        let text = statements::renew_all(&table).into();
        let several = Several { link: link.clone(), text, requests: requests.clone() };
        let renewals = Renewals::new(several, link.home().clone());
        let telling = Telling::of(&texts);
        let name = Name::new(&link.config().params.table);
        Self {
            link,
            texts,
            telling,
            renewals,
            time: ServerClock::default(),
            name,
            listener: OnceLock::new(),
            looks: AtomicI64::new(0),
            requests,
        }
    }

    pub(super) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    async fn run(
        &self,
        by: Instant,
        statement: &Arc<str>,
        args: &[Arg],
        twice: Twice,
    ) -> Result<Vec<PgRow>, Fault> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.link.run(by, statement, args, twice).await
    }

    /// One that says in one row what it did, and when, or in none that it did nothing.
    async fn short(
        &self,
        statement: &Arc<str>,
        ask: &Ask,
        until: Option<i64>,
        by: Instant,
    ) -> Result<Option<Taken>, Fault> {
        let mut args = vec![
            Arg::Text(ask.key.to_string()),
            Arg::Text(ask.claim.to_string()),
            Arg::Text(ask.about.to_string()),
            Arg::Whole(ms(ask.lease)),
            Arg::Whole(i64::from(ask.tokens_max)),
        ];
        args.extend(until.map(Arg::Whole));
        // A grant that took effect finds the key taken the second time, and who only tries is told.
        let twice = if until.is_some() { Twice::Differs } else { Twice::Same };
        let rows = self.run(by, statement, &args, twice).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        self.time.saw(row.try_get(TIME).map_err(odd)?);
        Found(row).taken().map(Some).map_err(odd)
    }

    /// The time at the server then, or a moment before.
    async fn time_at(&self, instant: Instant) -> Result<i64, Fault> {
        let asked = async {
            let rows = self.run(instant, &statements::time().into(), &[], Twice::Same).await?;
            let row = rows.first().ok_or_else(|| odd(sqlx::Error::RowNotFound))?;
            row.try_get(0).map_err(odd)
        };
        self.time.at_or_asked(instant, asked).await
    }
}

impl Dialect for PostgresDialect {
    fn schema(&self) -> &Schema {
        self.link.schema()
    }

    fn hearing(&self) -> Hearing {
        LOOKS
    }

    fn hear(&self, changes: &Arc<Changes>) {
        self.listener.get_or_init(|| {
            Listener::start(self.link.clone(), self.name.clone(), Arc::downgrade(changes))
        });
    }

    fn tells(&self) -> bool {
        true
    }

    async fn take(&self, ask: &Ask, by: Instant) -> Result<Option<Taken>, Fault> {
        let until = self.time_at(by).await?;
        self.short(&self.texts.take, ask, Some(until), by).await
    }

    async fn renew(&self, ask: &Ask, by: Instant) -> Result<Option<Taken>, Fault> {
        self.short(&self.texts.renew, ask, None, by).await
    }

    async fn renew_together(&self, ask: &Ask, by: Instant) -> Result<Option<Taken>, Fault> {
        self.renewals.renew(ask, by).await
    }

    async fn give_back(&self, key: &Key, claim: ClaimId, by: Instant) -> Result<bool, Fault> {
        let args = [Arg::Text(key.to_string()), Arg::Text(claim.to_string())];
        let rows = self.run(by, &self.texts.give_back, &args, Twice::Differs).await?;
        Ok(!rows.is_empty())
    }

    async fn read(&self, key: &Key, by: Instant) -> Result<Seen, Fault> {
        let args = [Arg::Text(key.to_string())];
        let rows = self.run(by, &self.texts.read, &args, Twice::Same).await?;
        let found = rows.first().ok_or_else(|| odd(sqlx::Error::RowNotFound))?;
        let seen = Found(found).seen().map_err(odd)?;
        self.time.saw(ms(seen.now));
        Ok(seen)
    }

    async fn swap(
        &self,
        key: &Key,
        version: Option<i64>,
        row: &Row,
        tells: bool,
        by: Instant,
    ) -> Result<bool, Fault> {
        let statement = match (version, tells) {
            (Some(_), false) => &self.texts.update,
            (Some(_), true) => &self.telling.update,
            (None, false) => &self.texts.insert,
            (None, true) => &self.telling.insert,
        };
        let mut args = vec![
            Arg::Text(key.to_string()),
            Arg::Whole(row.version),
            Arg::Whole(row.fence),
            Arg::Whole(row.fences),
            Arg::MaybeText(row.holder.clone()),
            Arg::Text(row.about.clone()),
            Arg::Whole(row.until),
            Arg::Text(row.holders.clone()),
            Arg::Text(row.line.clone()),
        ];
        args.extend(version.map(Arg::Whole));
        if tells {
            args.push(Arg::Text(self.name.channel().to_owned()));
            args.push(Arg::Text(self.name.word(key, row)));
        }
        let rows = self.run(by, statement, &args, Twice::Differs).await?;
        Ok(!rows.is_empty())
    }

    async fn read_all(&self, keys: &[Key], by: Instant) -> Result<Vec<Named>, Fault> {
        let args = [Arg::Texts(keys.iter().map(ToString::to_string).collect())];
        let rows = self.run(by, &self.texts.read_all, &args, Twice::Same).await?;
        rows.iter().map(|row| Found(row).named().map_err(odd)).collect()
    }

    async fn busy(&self, within: &Within, most: usize, by: Instant) -> Result<Vec<String>, Fault> {
        let [from, before] = [&within.from, &within.before].map(|name| Arg::Text(name.clone()));
        let args = [from, before, Arg::Whole(i64::try_from(most).unwrap_or(i64::MAX))];
        let rows = self.run(by, &self.texts.busy, &args, Twice::Same).await?;
        rows.iter().map(|row| sqlx::Row::try_get(row, 0).map_err(odd)).collect()
    }

    /// Others may always have written.
    async fn mark(&self, _by: Instant) -> Result<Option<i64>, Fault> {
        Ok(Some(self.looks.fetch_add(1, Ordering::Relaxed)))
    }

    async fn behind(&self, from: &str, by: Instant) -> Result<Option<String>, Fault> {
        let args = [Arg::Text(from.to_owned()), Arg::Whole(SWEEP_ROWS)];
        let rows = self.run(by, &self.texts.behind, &args, Twice::Same).await?;
        rows.first().map(|row| sqlx::Row::try_get(row, 0).map_err(odd)).transpose()
    }

    async fn sweep(&self, within: &Within, idle: Duration, by: Instant) -> Result<u64, Fault> {
        let [from, before] = [&within.from, &within.before].map(|name| Arg::Text(name.clone()));
        let args = [Arg::Whole(ms(idle)), from, before];
        let rows = self.run(by, &self.texts.sweep, &args, Twice::Differs).await?;
        Ok(u64::try_from(rows.len()).unwrap_or(u64::MAX))
    }
}
