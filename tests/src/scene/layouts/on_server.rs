//! One server of a database, with a table for each scope. The same for each database: whoever includes
//! this says what its own spells otherwise.

use std::time::Duration;

use sqlx::Row;

use super::super::*;
use super::{DbRow, KIND, MISSING, OWNER, RUN, Server, WAITING, proxied, quoted};
use crate::scene::layout::BoxFuture;
use crate::support::{CLAIM_LEASE, RECHECK, ms};
use crate::wait::eventually;

pub(super) const fn times(lease: u64) -> Times {
    Times {
        lease: ms(lease),
        session: Duration::ZERO,
        lost_within: ms(lease),
        freed_within: ms(lease).saturating_add(RECHECK),
        handed_within: CLAIM_LEASE.saturating_add(RECHECK),
        skipped_within: CLAIM_LEASE.saturating_add(RECHECK),
        recheck: RECHECK,
    }
}

#[derive(Debug)]
pub(super) struct OnServer {
    pub(super) server: Server,
}

fn table(scope: &str) -> String {
    format!("t_{}", scope.replace('-', "_"))
}

fn params(scope: &str) -> String {
    format!("create=true&table={}", table(scope))
}

impl OnServer {
    /// Rows of the view; none before the first client has made it.
    fn status(&self, scope: &str, columns: &str, which: &str) -> Vec<DbRow> {
        let query = format!("SELECT {columns} FROM {}_status WHERE {which}", table(scope));
        let is_missing = |error: &sqlx::Error| {
            error.as_database_error().is_some_and(|error| error.code().as_deref() == Some(MISSING))
        };
        match self.server.try_sql(query) {
            Ok(rows) => rows,
            Err(error) if is_missing(&error) => Vec::new(),
            Err(error) => panic!("the view: {error}"),
        }
    }
}

impl Layout for OnServer {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn url(&self, scope: &str, _tempo: Tempo) -> String {
        format!("{}?{}", self.server.url_as(OWNER), params(scope))
    }

    fn line_of(&self, scope: &str, _tempo: Tempo) -> Line {
        let proxy = proxied(self.server.addr());
        let url = format!("{}?{}", self.server.url_over(OWNER, proxy.addr()), params(scope));
        Line::new(url, vec![proxy], false)
    }

    /// Those who join are in the row's text with what they say of themselves, encoded.
    fn request(&self, verb: Verb, key: &str) -> Match {
        let about = Match::verb(RUN).containing(key);
        match verb {
            Verb::Join => about.containing("pid%3D"),
            Verb::Attempt | Verb::Renew | Verb::Withdraw => about,
        }
    }

    fn is_free(&self, scope: &str, key: &str) -> bool {
        let held = format!("name = {} AND status = 'held'", quoted(key));
        self.status(scope, "1", &held).is_empty()
    }

    fn in_line(&self, scope: &str, key: &str) -> usize {
        let rows = self.status(scope, WAITING, &format!("name = {}", quoted(key)));
        let waiting = rows.first().map_or(0, |row| row.get::<i64, _>(0));
        usize::try_from(waiting).expect("a count")
    }

    /// A row stays for each key; nobody holds it, and nobody waits.
    fn left(&self, scope: &str) -> Vec<String> {
        let busy = "status = 'held' OR waiting > 0";
        let rows = self.status(scope, &format!("name, status, {WAITING}"), busy);
        let shown = |row: &DbRow| {
            let (name, status): (String, String) = (row.get(0), row.get(1));
            format!("{name} is {status}, {} wait", row.get::<i64, _>(2))
        };
        rows.iter().map(shown).collect()
    }

    fn delete(&self, scope: &str, key: &str) {
        self.server.sql(format!("DELETE FROM {} WHERE name = {}", table(scope), quoted(key)));
    }

    fn servers(&self) -> usize {
        1
    }

    fn serving(&self, _scope: &str, _key: &str) -> Vec<usize> {
        vec![0]
    }

    fn pause(&self, _server: usize) {
        self.server.freeze();
    }

    fn resume(&self, _server: usize) {
        self.server.thaw();
    }

    fn kill(&mut self, _server: usize) {
        self.server.kill();
    }

    fn restart(&mut self, _servers: &[usize]) {
        self.server.restart();
    }

    fn skew_clock(&self, by_ms: i64) {
        self.server.move_clock(by_ms);
    }

    fn settled(&self) -> BoxFuture<'_, ()> {
        Box::pin(eventually("the server answers", || self.server.try_sql("SELECT 1").is_ok()))
    }
}
