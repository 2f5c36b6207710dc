//! The statements over the connection.
//!
//! All rows of a statement are read, never only the first: what is written is committed when the
//! statement has ended, and an error then (the disk is full) is told by its last step alone.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sqlx::{AssertSqlSafe, Row as _};

use super::link::Link;
use super::statements;
use crate::backend::{ClaimId, Fault};
use crate::key::Key;
use crate::sql::changes::Hearing;
use crate::sql::dialect::{Ask, Dialect, Named, Polls, SWEEP_ROWS, Seen, Taken, Within};
use crate::sql::read::Found;
use crate::sql::row::{Row, ms};
use crate::sql::schema::Schema;
use crate::sql::statements::Statements;

/// Between two looks while somebody waits for a key, and while those who listen hold or follow.
const LOOK_WAITING: Duration = Duration::from_millis(2);
const LOOK_HOLDING: Duration = Duration::from_millis(20);

/// SQLite as the store needs it.
#[derive(Debug)]
pub(in crate::sql) struct SqliteDialect {
    link: Link,
    texts: Statements,
}

fn text(text: &Arc<str>) -> AssertSqlSafe<Arc<str>> {
    // The text is made of constants and of the name of a table, which was checked.
    AssertSqlSafe(text.clone())
}

impl SqliteDialect {
    pub(super) fn new(link: Link) -> Self {
        let texts = statements::of(link.schema());
        Self { link, texts }
    }

    pub(super) fn requests(&self) -> u64 {
        self.link.requests()
    }

    /// One that says in one row what it did, or in none that it did nothing.
    async fn short(
        &self,
        statement: &Arc<str>,
        ask: &Ask,
        by: Instant,
    ) -> Result<Option<Taken>, Fault> {
        let rows = self.link.run(by, |connection| {
            let query = sqlx::query(text(statement))
                .bind(ask.key.to_string())
                .bind(ask.claim.to_string())
                .bind(ask.about.to_string())
                .bind(ms(ask.lease))
                .bind(i64::from(ask.tokens_max));
            Box::pin(async move {
                let rows = query.fetch_all(connection).await?;
                rows.first().map(|row| Found(row).taken()).transpose()
            })
        });
        rows.await
    }
}

impl Dialect for SqliteDialect {
    /// SQLite runs on a thread of its own, and its answers come over channels.
    const POLLS: Polls = Polls::Anywhere;

    fn schema(&self) -> &Schema {
        self.link.schema()
    }

    fn hearing(&self) -> Hearing {
        Hearing::Looks { waiting: LOOK_WAITING, holding: LOOK_HOLDING }
    }

    async fn take(&self, ask: &Ask, by: Instant) -> Result<Option<Taken>, Fault> {
        self.short(&self.texts.take, ask, by).await
    }

    async fn renew(&self, ask: &Ask, by: Instant) -> Result<Option<Taken>, Fault> {
        self.short(&self.texts.renew, ask, by).await
    }

    async fn give_back(&self, key: &Key, claim: ClaimId, by: Instant) -> Result<bool, Fault> {
        let done = self.link.run(by, |connection| {
            let query = sqlx::query(text(&self.texts.give_back))
                .bind(key.to_string())
                .bind(claim.to_string());
            Box::pin(async move { Ok(query.execute(connection).await?.rows_affected() > 0) })
        });
        done.await
    }

    async fn read(&self, key: &Key, by: Instant) -> Result<Seen, Fault> {
        let seen = self.link.run(by, |connection| {
            let query = sqlx::query(text(&self.texts.read)).bind(key.to_string());
            Box::pin(async move { Found(&query.fetch_one(connection).await?).seen() })
        });
        seen.await
    }

    async fn swap(
        &self,
        key: &Key,
        version: Option<i64>,
        row: &Row,
        _tells: bool,
        by: Instant,
    ) -> Result<bool, Fault> {
        let statement = match version {
            Some(_) => &self.texts.update,
            None => &self.texts.insert,
        };
        let done = self.link.run(by, |connection| {
            let query = sqlx::query(text(statement))
                .bind(key.to_string())
                .bind(row.version)
                .bind(row.fence)
                .bind(row.fences)
                .bind(row.holder.clone())
                .bind(row.about.clone())
                .bind(row.until)
                .bind(row.holders.clone())
                .bind(row.line.clone());
            let query = match version {
                Some(version) => query.bind(version),
                None => query,
            };
            Box::pin(async move { Ok(query.execute(connection).await?.rows_affected() > 0) })
        });
        done.await
    }

    async fn read_all(&self, keys: &[Key], by: Instant) -> Result<Vec<Named>, Fault> {
        let list = json(keys);
        let rows = self.link.run(by, |connection| {
            let query = sqlx::query(text(&self.texts.read_all)).bind(list.clone());
            Box::pin(async move {
                let rows = query.fetch_all(connection).await?;
                rows.iter().map(|row| Found(row).named()).collect()
            })
        });
        rows.await
    }

    async fn busy(&self, within: &Within, most: usize, by: Instant) -> Result<Vec<String>, Fault> {
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let names = self.link.run(by, |connection| {
            let query = sqlx::query(text(&self.texts.busy));
            let query = query.bind(within.from.clone()).bind(within.before.clone()).bind(most);
            Box::pin(async move {
                let rows = query.fetch_all(connection).await?;
                rows.iter().map(|row| row.try_get(0)).collect()
            })
        });
        names.await
    }

    async fn mark(&self, by: Instant) -> Result<Option<i64>, Fault> {
        if self.link.is_private() {
            return Ok(None);
        }
        let mark = self.link.run(by, |connection| {
            Box::pin(async {
                let row = sqlx::query("PRAGMA data_version").fetch_one(connection).await?;
                row.try_get(0).map(Some)
            })
        });
        mark.await
    }

    async fn behind(&self, from: &str, by: Instant) -> Result<Option<String>, Fault> {
        let name = self.link.run(by, |connection| {
            let query =
                sqlx::query(text(&self.texts.behind)).bind(from.to_owned()).bind(SWEEP_ROWS);
            Box::pin(async move {
                let row = query.fetch_optional(connection).await?;
                row.map(|row| row.try_get(0)).transpose()
            })
        });
        name.await
    }

    async fn sweep(&self, within: &Within, idle: Duration, by: Instant) -> Result<u64, Fault> {
        let gone = self.link.run(by, |connection| {
            let query = sqlx::query(text(&self.texts.sweep)).bind(ms(idle));
            let query = query.bind(within.from.clone()).bind(within.before.clone());
            Box::pin(async move { Ok(query.execute(connection).await?.rows_affected()) })
        });
        gone.await
    }
}

/// A list of keys for `json_each`.
fn json(keys: &[Key]) -> String {
    let mut list = String::from("[");
    for (number, key) in keys.iter().enumerate() {
        if number > 0 {
            list.push(',');
        }
        list.push('"');
        // A key has no control characters.
        for c in key.as_str().chars() {
            if matches!(c, '"' | '\\') {
                list.push('\\');
            }
            list.push(c);
        }
        list.push('"');
    }
    list.push(']');
    list
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::register::tokens::AHEAD_TOKENS;
    use crate::backend::register::{reserve, ticks};
    use crate::backend::{Attempt, Backend as _, Claim as _, Renewal, Terms, Withdrawal};
    use crate::ground::{Plus as _, clock};
    use crate::sql::row::Entry;
    use crate::sql::sqlite::backend::SqliteClaim;
    use crate::sql::sqlite::{Sqlite, SqliteConfig};

    async fn store() -> Sqlite {
        SqliteConfig::in_memory().connect().await.expect("a database")
    }

    fn soon() -> Instant {
        clock::now().plus(Duration::from_secs(9))
    }

    fn ask(claim: u128, lease_ms: u64) -> Ask {
        Ask {
            key: Key::new("k").unwrap(),
            claim: ClaimId::from_bits(claim),
            lease: Duration::from_millis(lease_ms),
            tokens_max: 5,
            about: "a test".into(),
        }
    }

    #[tokio::test]
    async fn a_row_that_anybody_has_changed_is_not_swapped() {
        let store = store().await;
        let dialect = &store.store.dialect;
        let (key, ask) = (ask(1, 60_000).key, ask(1, 60_000));
        let seen = async || dialect.read(&key, soon()).await.unwrap().row.unwrap();
        let is_swapped = async |row: Row| {
            let next = Row { version: row.version + 1, ..row.clone() };
            dialect.swap(&key, Some(row.version), &next, false, soon()).await.unwrap()
        };
        assert!(dialect.take(&ask, soon()).await.unwrap().is_some());
        let taken = seen().await;
        // Also a renewal: one who finds the lease over may have read the row just before it.
        assert!(dialect.renew(&ask, soon()).await.unwrap().is_some());
        assert!(!is_swapped(taken).await);
        let renewed = seen().await;
        assert!(dialect.give_back(&key, ask.claim, soon()).await.unwrap());
        assert!(!is_swapped(renewed).await);
        let free = seen().await;
        assert!(is_swapped(free.clone()).await && !is_swapped(free.clone()).await);
        // Nor is a row made anew where one is.
        assert!(!dialect.swap(&key, None, &free, false, soon()).await.unwrap());
    }

    #[tokio::test]
    async fn the_short_ways_leave_alone_what_is_not_theirs() {
        let store = store().await;
        let dialect = &store.store.dialect;
        let (mine, other) = (ask(1, 60_000), ask(2, 60_000));
        // A renewal makes no row.
        assert!(dialect.renew(&mine, soon()).await.unwrap().is_none());
        assert!(dialect.read(&mine.key, soon()).await.unwrap().row.is_none());
        assert!(dialect.take(&mine, soon()).await.unwrap().is_some());
        assert!(dialect.take(&other, soon()).await.unwrap().is_none());
        assert!(dialect.renew(&other, soon()).await.unwrap().is_none());
        assert!(!dialect.give_back(&mine.key, other.claim, soon()).await.unwrap());
        // One who waits bars the short way to all but a renewal, which says so.
        let row = dialect.read(&mine.key, soon()).await.unwrap().row.unwrap();
        let line = format!("{} x 1000 1 99 = -\n", other.claim);
        let waited = Row { version: row.version + 1, line, ..row.clone() };
        assert!(dialect.swap(&mine.key, Some(row.version), &waited, false, soon()).await.unwrap());
        assert!(!dialect.give_back(&mine.key, mine.claim, soon()).await.unwrap());
        assert!(dialect.renew(&mine, soon()).await.unwrap().unwrap().wanted);
    }

    /// That the short ways are of no use to it, a claim knows from the answer before.
    #[tokio::test]
    async fn a_key_that_others_want_is_given_back_in_two_statements() {
        let store = store().await;
        let terms = Terms { tokens_max: 5, ..Terms::exclusive(Duration::from_secs(60)) };
        let key = Key::new("k").unwrap();
        let claim = |bits| store.claim(&key, ClaimId::from_bits(bits), terms);
        let gives_back = async |claim: &mut SqliteClaim| {
            let before = store.requests();
            assert_eq!(claim.withdraw().await.unwrap(), Withdrawal::Released);
            store.requests() - before
        };
        let (mut first, mut second, mut third) = (claim(1), claim(2), claim(3));
        assert!(matches!(first.attempt().await, Ok(Attempt::Granted(_))));
        for waits in [&mut second, &mut third] {
            assert!(matches!(waits.attempt().await, Ok(Attempt::Blocked { .. })));
        }
        assert!(matches!(first.renew().await, Ok(Renewal::Held(grant)) if grant.wanted));
        assert_eq!(gives_back(&mut first).await, 2);
        assert!(matches!(second.attempt().await, Ok(Attempt::Granted(grant)) if grant.handed_on));
        assert_eq!(gives_back(&mut second).await, 2);
        // Nobody wants it any more. Once it was renewed the columns say it all.
        assert!(matches!(third.attempt().await, Ok(Attempt::Granted(grant)) if !grant.wanted));
        assert!(matches!(third.renew().await, Ok(Renewal::Held(_))));
        assert_eq!(gives_back(&mut third).await, 1);
    }

    /// A row that says no more than that a withdrawal was in doubt takes no token back.
    #[tokio::test]
    async fn a_key_whose_row_is_gone_is_granted_above_what_was_given() {
        let store = store().await;
        let dialect = &store.store.dialect;
        let all = |claim| Ask { tokens_max: 1 << 20, ..ask(claim, 60_000) };
        let earlier = dialect.take(&all(1), soon()).await.unwrap().unwrap().tokens;
        assert!(dialect.give_back(&all(1).key, all(1).claim, soon()).await.unwrap());
        while dialect.sweep(&Within::of(None), Duration::ZERO, soon()).await.unwrap() == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let (key, late) = (all(2).key, all(2).claim);
        store.store.withdraw(key.clone(), late, false, true, soon()).await.unwrap();
        assert!(dialect.read(&key, soon()).await.unwrap().row.is_some(), "it is marked");
        let later = dialect.take(&all(3), soon()).await.unwrap().unwrap().tokens;
        assert!(later.first() > earlier.last(), "{later:?} after {earlier:?}");
    }

    /// Waiters in the line come first, and the columns do not tell all of several holders.
    #[tokio::test]
    async fn a_lease_that_is_over_is_taken_the_short_way_only_where_there_is_nobody_else() {
        let store = store().await;
        let dialect = &store.store.dialect;
        let (mine, other) = (ask(1, 60_000), ask(2, 60_000));
        assert!(dialect.take(&mine, soon()).await.unwrap().is_some());
        for (line, holders) in [("somebody", ""), ("", "somebody"), ("", "")] {
            let row = dialect.read(&mine.key, soon()).await.unwrap().row.unwrap();
            let over = Row {
                version: row.version + 1,
                until: 1,
                line: line.to_owned(),
                holders: holders.to_owned(),
                ..row.clone()
            };
            assert!(
                dialect.swap(&mine.key, Some(row.version), &over, false, soon()).await.unwrap()
            );
            // It does not come back to life, and is not given back when it may be another's.
            assert!(dialect.renew(&mine, soon()).await.unwrap().is_none());
            assert!(!dialect.give_back(&mine.key, mine.claim, soon()).await.unwrap());
            let is_free = line.is_empty() && holders.is_empty();
            let taken = dialect.take(&other, soon()).await.unwrap();
            assert_eq!(taken.is_some(), is_free, "{line:?}, {holders:?}");
        }
    }

    #[tokio::test]
    async fn tokens_are_reserved_as_everywhere() {
        let store = store().await;
        let dialect = &store.store.dialect;
        let ask = Ask { tokens_max: 1 << 20, ..ask(1, 60_000) };
        let at = |now: Duration| ticks(u64::try_from(now.as_micros()).unwrap());
        let first = dialect.read(&ask.key, soon()).await.unwrap().now;
        let begun = dialect.take(&ask, soon()).await.unwrap().unwrap().tokens;
        assert!(begun.left() == 1 && begun.first() >= Some(at(first)), "{begun:?}");
        // The last one, by how far it is ahead of the clock; none is on the edge.
        for ahead in [-9_000_000_i64, 4_000_000, 80_000_000] {
            let row = dialect.read(&ask.key, soon()).await.unwrap();
            let (before, row) = (row.now, row.row.unwrap());
            let last = at(before).checked_add_signed(ahead).unwrap();
            let free = Row {
                version: row.version + 1,
                fence: i64::try_from(last).unwrap(),
                ..Row::of(&Entry::default(), Some(&Row { until: 0, ..row.clone() }), before)
            };
            assert!(dialect.swap(&ask.key, Some(row.version), &free, false, soon()).await.unwrap());
            let tokens = dialect.take(&ask, soon()).await.unwrap().unwrap().tokens;
            let after = dialect.read(&ask.key, soon()).await.unwrap().now;
            let by = |now| reserve(Some(last), at(now), ask.tokens_max);
            assert!(by(before).first() <= tokens.first() && tokens.last() <= by(after).last());
            assert_eq!(tokens.left(), by(before).left(), "{ahead}");
            assert!(ahead < 80_000_000 || tokens.left() == AHEAD_TOKENS, "{tokens:?}");
            let renewed = dialect.renew(&ask, soon()).await.unwrap().unwrap().tokens;
            assert!(ahead < 80_000_000 || renewed.left() == tokens.left(), "{renewed:?}");
            assert!(dialect.give_back(&ask.key, ask.claim, soon()).await.unwrap());
        }
    }
}
