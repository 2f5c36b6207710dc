//! One MariaDB server.

use std::time::Duration;

use sqlx::Row;
use sqlx::mysql::MySqlRow;

use super::*;
use crate::mariadb::{MariaDbOptions, MariaDbServer};
use crate::proxy::Proxy;
use crate::scene::layout::BoxFuture;
use crate::support::{CLAIM_LEASE, RECHECK, ms};
use crate::wait::eventually;

const fn times(lease: u64) -> Times {
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

/// A table for each scope.
pub const MARIADB: Kind = Kind {
    name: "MariaDB",
    store: "mysql",
    start: || {
        Box::pin(async {
            let options = MariaDbOptions::new().movable_clock();
            Box::new(MariaDb { server: MariaDbServer::with(options) }) as Box<dyn Layout>
        })
    },
    // What was killed is the server, not the machine.
    keeps: Keeps::Everything,
    can: &[
        "fencing",
        "fifo",
        "push",
        "shared",
        "permits",
        "election",
        "revocation",
        "force_release",
    ],
    lacks: &[(Power::Push, "there is no push: whoever waits looks")],
    fails: &[],
    patient: times(30_000),
    steady: times(2_000),
    brisk: times(2_000),
};

#[derive(Debug)]
struct MariaDb {
    server: MariaDbServer,
}

fn table(scope: &str) -> String {
    format!("t_{}", scope.replace('-', "_"))
}

impl MariaDb {
    fn params(scope: &str) -> String {
        format!("create=true&table={}", table(scope))
    }

    /// Rows of the view; none before the first client has made it.
    fn status(&self, scope: &str, columns: &str, which: &str) -> Vec<MySqlRow> {
        let query = format!("SELECT {columns} FROM {}_status WHERE {which}", table(scope));
        let is_missing = |error: &sqlx::Error| {
            error.as_database_error().is_some_and(|error| error.code().as_deref() == Some("42S02"))
        };
        match self.server.try_sql(query) {
            Ok(rows) => rows,
            Err(error) if is_missing(&error) => Vec::new(),
            Err(error) => panic!("the view: {error}"),
        }
    }
}

/// In hexadecimal, of which nothing has to be escaped.
fn quoted(key: &str) -> String {
    let hex: String = key.bytes().map(|byte| format!("{byte:02x}")).collect();
    format!("CONVERT(X'{hex}' USING utf8mb4)")
}

impl Layout for MariaDb {
    fn kind(&self) -> &'static Kind {
        &MARIADB
    }

    fn url(&self, scope: &str, _tempo: Tempo) -> String {
        format!("{}?{}", self.server.url_as("owner"), Self::params(scope))
    }

    fn line_of(&self, scope: &str, _tempo: Tempo) -> Line {
        let proxy = Proxy::mysql(self.server.addr());
        let url = format!("mysql://owner:secret@{}/shop?{}", proxy.addr(), Self::params(scope));
        Line::new(url, vec![proxy], false)
    }

    /// Those who join are in the row's text with what they say of themselves, encoded.
    fn request(&self, verb: Verb, key: &str) -> Match {
        let about = Match::verb("EXECUTE").containing(key);
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
        let waiting = "CAST(waiting AS SIGNED)";
        let rows = self.status(scope, waiting, &format!("name = {}", quoted(key)));
        let waiting = rows.first().map_or(0, |row| row.get::<i64, _>(0));
        usize::try_from(waiting).expect("a count")
    }

    /// A row stays for each key; nobody holds it, and nobody waits.
    fn left(&self, scope: &str) -> Vec<String> {
        let busy = "status = 'held' OR waiting > 0";
        let rows = self.status(scope, "name, status, CAST(waiting AS SIGNED)", busy);
        let shown = |row: &MySqlRow| {
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
