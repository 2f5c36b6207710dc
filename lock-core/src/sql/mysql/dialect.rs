//! The statements over the link.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use sqlx::mysql::{MySqlQueryResult, MySqlRow};

use super::link::Link;
use super::renewals::Several;
use super::short::{Short, power_of};
use super::statements::{self, READ_KEYS_MAX, Statements};
use super::text::{Arg, Text};
use crate::backend::{ClaimId, Fault};
use crate::key::Key;
use crate::sql::changes::Hearing;
use crate::sql::dialect::{Ask, Dialect, Named, SWEEP_ROWS, Seen, Taken, Within};
use crate::sql::fault::odd;
use crate::sql::read::Found;
use crate::sql::remote::{Renewals, ServerClock, Twice};
use crate::sql::row::{Row, ms};
use crate::sql::schema::Schema;

/// Between two looks at a key: by whoever is first in its line, and by those who hold or follow.
const LOOK_FIRST: Duration = Duration::from_millis(30);
const LOOK_HOLDING: Duration = Duration::from_millis(250);

/// MySQL and MariaDB as the store needs them.
#[derive(Debug)]
pub(in crate::sql) struct MysqlDialect {
    link: Arc<Link>,
    texts: Statements,
    renewals: Renewals<Several>,
    time: Arc<ServerClock>,
    looks: AtomicI64,
    requests: Arc<AtomicU64>,
}

impl MysqlDialect {
    pub(super) fn new(link: Arc<Link>) -> Self {
        let texts = Statements::new(&link.config().params.table.to_string());
        let (time, requests) = (Arc::<ServerClock>::default(), Arc::<AtomicU64>::default());
        let several = Several::new(link.clone(), time.clone(), requests.clone());
        let renewals = Renewals::new(several, link.home().clone());
        Self { link, texts, renewals, time, looks: AtomicI64::new(0), requests }
    }

    pub(super) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    async fn rows(&self, by: Instant, text: &Text, args: &[Arg]) -> Result<Vec<MySqlRow>, Fault> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.link.rows(by, text, args).await
    }

    async fn write(
        &self,
        by: Instant,
        text: &Text,
        args: &[Arg],
        twice: Twice,
    ) -> Result<Option<MySqlQueryResult>, Fault> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.link.write(by, text, args, twice).await
    }

    /// One that says in one number what it did.
    async fn short(
        &self,
        text: &Text,
        ask: &Ask,
        until: Option<i64>,
        by: Instant,
    ) -> Result<Option<Taken>, Fault> {
        let power = power_of(ask.tokens_max);
        let mut args = vec![
            Arg::Key(ask.key.clone()),
            Arg::Claim(ask.claim),
            Arg::Text(ask.about.to_string()),
            Arg::Whole(ms(ask.lease)),
            Arg::Whole(i64::from(power)),
            Arg::Whole(1 << power),
        ];
        args.extend(until.map(Arg::Whole));
        // A grant that took effect finds the key taken the second time, and who only tries is told.
        let twice = if until.is_some() { Twice::Differs } else { Twice::Same };
        let done = self.write(by, text, &args, twice).await?;
        let Some(Short { mut taken, is_ahead }) =
            done.and_then(|done| Short::of(done.last_insert_id()))
        else {
            return Ok(None);
        };
        if is_ahead {
            // Somebody else may hold the key by now: then what was granted is told as a change.
            let row = self.read(&ask.key, by).await.map_err(Fault::in_doubt)?.row;
            let claim = Some(ask.claim.to_string());
            if let Some(row) = row.filter(|row| row.holder == claim) {
                taken.version = taken.version.max(row.version);
            }
        }
        Ok(Some(taken))
    }
}

impl Dialect for MysqlDialect {
    fn schema(&self) -> &Schema {
        self.link.schema()
    }

    fn hearing(&self) -> Hearing {
        Hearing::LooksByPlace { first: LOOK_FIRST, holding: LOOK_HOLDING }
    }

    async fn take(&self, ask: &Ask, by: Instant) -> Result<Option<Taken>, Fault> {
        let asked = async {
            let rows = self.rows(by, &statements::time(), &[]).await?;
            let row = rows.first().ok_or_else(|| odd(sqlx::Error::RowNotFound))?;
            sqlx::Row::try_get(row, 0).map_err(odd)
        };
        let until = self.time.at_or_asked(by, asked).await?;
        self.short(&self.texts.take, ask, Some(until), by).await
    }

    async fn renew(&self, ask: &Ask, by: Instant) -> Result<Option<Taken>, Fault> {
        self.short(&self.texts.renew, ask, None, by).await
    }

    async fn renew_together(&self, ask: &Ask, by: Instant) -> Result<Option<Taken>, Fault> {
        self.renewals.renew(ask, by).await
    }

    async fn give_back(&self, key: &Key, claim: ClaimId, by: Instant) -> Result<bool, Fault> {
        let args = [Arg::Key(key.clone()), Arg::Claim(claim)];
        let done = self.write(by, &self.texts.give_back, &args, Twice::Differs).await?;
        Ok(done.is_some_and(|done| done.rows_affected() > 0))
    }

    async fn read(&self, key: &Key, by: Instant) -> Result<Seen, Fault> {
        let rows = self.rows(by, &self.texts.read, &[Arg::Key(key.clone())]).await?;
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
        _tells: bool,
        by: Instant,
    ) -> Result<bool, Fault> {
        let text = match version {
            Some(_) => &self.texts.update,
            None => &self.texts.insert,
        };
        let mut args = vec![
            Arg::Key(key.clone()),
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
        let done = self.write(by, text, &args, Twice::Differs).await?;
        Ok(done.is_some_and(|done| done.rows_affected() > 0))
    }

    async fn read_all(&self, keys: &[Key], by: Instant) -> Result<Vec<Named>, Fault> {
        let mut all = Vec::with_capacity(keys.len());
        for some in keys.chunks(READ_KEYS_MAX) {
            let (text, given) = self.texts.read_all(some.len());
            let mut args: Vec<_> = some.iter().map(|key| Arg::Key(key.clone())).collect();
            // To ask for one of them again changes nothing.
            args.resize(given, args[0].clone());
            for row in &self.rows(by, text, &args).await? {
                all.push(Found(row).named().map_err(odd)?);
            }
        }
        Ok(all)
    }

    async fn busy(&self, within: &Within, most: usize, by: Instant) -> Result<Vec<String>, Fault> {
        let [from, before] = [&within.from, &within.before].map(|name| Arg::Text(name.clone()));
        let args = [from, before, Arg::Whole(i64::try_from(most).unwrap_or(i64::MAX))];
        let rows = self.rows(by, &self.texts.busy, &args).await?;
        rows.iter().map(|row| sqlx::Row::try_get(row, 0).map_err(odd)).collect()
    }

    /// Others may always have written.
    async fn mark(&self, _by: Instant) -> Result<Option<i64>, Fault> {
        Ok(Some(self.looks.fetch_add(1, Ordering::Relaxed)))
    }

    async fn behind(&self, from: &str, by: Instant) -> Result<Option<String>, Fault> {
        let args = [Arg::Text(from.to_owned()), Arg::Whole(SWEEP_ROWS)];
        let rows = self.rows(by, &self.texts.behind, &args).await?;
        rows.first().map(|row| sqlx::Row::try_get(row, 0).map_err(odd)).transpose()
    }

    /// Row by row, so that none is locked while another is waited for.
    async fn sweep(&self, within: &Within, idle: Duration, by: Instant) -> Result<u64, Fault> {
        let idle = ms(idle);
        let [from, before] = [&within.from, &within.before].map(|name| Arg::Text(name.clone()));
        let args = [Arg::Whole(idle), from, before];
        let mut gone = 0;
        for row in self.rows(by, &self.texts.idle, &args).await? {
            let key: String = sqlx::Row::try_get(&row, 0).map_err(odd)?;
            let args = [Arg::Text(key), Arg::Whole(idle)];
            let done = self.write(by, &self.texts.delete, &args, Twice::Differs).await?;
            gone += done.map_or(0, |done| done.rows_affected());
        }
        Ok(gone)
    }
}
