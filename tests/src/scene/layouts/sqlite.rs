//! A SQLite file, which the processes of one machine share.

use std::path::PathBuf;
use std::time::Duration;

use futures_executor::block_on;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, Row};

use super::*;
use crate::folder::Folder;
use crate::scene::layout::BoxFuture;
use crate::support::{CLAIM_LEASE, RECHECK, ms};

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

const NO_SERVER: &str = "there is no server, and nothing between the file and its clients";

/// A file for each scope.
pub const SQLITE: Kind = Kind {
    name: "SQLite",
    store: "sqlite",
    start: || {
        Box::pin(async {
            // A pool's layout is never dropped.
            let folder = Folder::new("sqlite");
            Box::new(InAFile { folder }) as Box<dyn Layout>
        })
    },
    keeps: Keeps::Everything,
    can: OF_A_DATABASE,
    lacks: &[
        (Power::Link, NO_SERVER),
        (Power::Trap, NO_SERVER),
        (Power::Push, NO_SERVER),
        (Power::Pause, NO_SERVER),
        (Power::Kill, NO_SERVER),
        (Power::Clock, "its clock is that of the machine"),
    ],
    fails: &[],
    patient: times(30_000),
    steady: times(2_000),
    brisk: times(2_000),
};

#[derive(Debug)]
struct InAFile {
    folder: Folder,
}

impl InAFile {
    fn path(&self, scope: &str) -> PathBuf {
        self.folder.path().join(format!("{scope}.db"))
    }

    /// A connection of an operator's; none before the first client has made the file.
    fn connection(&self, scope: &str) -> Option<SqliteConnection> {
        let options = SqliteConnectOptions::new().filename(self.path(scope));
        block_on(options.connect()).ok()
    }

    /// The status of a key: whether it is free, and how many wait.
    fn status(&self, scope: &str, key: &str) -> (bool, i64) {
        let Some(mut connection) = self.connection(scope) else { return (true, 0) };
        let query = sqlx::query("SELECT status <> 'held', waiting FROM lock_status WHERE name = ?");
        let row = block_on(query.bind(key.to_owned()).fetch_optional(&mut connection));
        row.expect("the view").map_or((true, 0), |row| (row.get(0), row.get(1)))
    }

    fn cannot(&self, power: Power) -> ! {
        panic!("SQLite: {:?}", SQLITE.lacks(power))
    }
}

impl Layout for InAFile {
    fn kind(&self) -> &'static Kind {
        &SQLITE
    }

    fn url(&self, scope: &str, _tempo: Tempo) -> String {
        format!("sqlite://{}?create=true", self.path(scope).display())
    }

    fn line_of(&self, scope: &str, tempo: Tempo) -> Line {
        Line::new(self.url(scope, tempo), Vec::new(), false)
    }

    fn request(&self, _verb: Verb, _key: &str) -> Match {
        self.cannot(Power::Trap)
    }

    fn is_free(&self, scope: &str, key: &str) -> bool {
        self.status(scope, key).0
    }

    fn in_line(&self, scope: &str, key: &str) -> usize {
        usize::try_from(self.status(scope, key).1).expect("a count")
    }

    /// A row stays for each key; nobody holds it, and nobody waits.
    fn left(&self, scope: &str) -> Vec<String> {
        let Some(mut connection) = self.connection(scope) else { return Vec::new() };
        let query = "SELECT name, status, waiting FROM lock_status \
                     WHERE status = 'held' OR waiting > 0";
        let rows = block_on(sqlx::query(query).fetch_all(&mut connection)).expect("the view");
        let shown = |row: &sqlx::sqlite::SqliteRow| {
            let (name, status): (String, String) = (row.get(0), row.get(1));
            format!("{name} is {status}, {} wait", row.get::<i64, _>(2))
        };
        rows.iter().map(shown).collect()
    }

    fn delete(&self, scope: &str, key: &str) {
        let mut connection = self.connection(scope).expect("the file of the lock");
        let query = sqlx::query("DELETE FROM lock_leases WHERE name = ?").bind(key.to_owned());
        block_on(query.execute(&mut connection)).expect("a deletion");
    }

    fn servers(&self) -> usize {
        0
    }

    fn serving(&self, _scope: &str, _key: &str) -> Vec<usize> {
        Vec::new()
    }

    fn pause(&self, _server: usize) {
        self.cannot(Power::Pause)
    }

    fn resume(&self, _server: usize) {
        self.cannot(Power::Pause)
    }

    fn kill(&mut self, _server: usize) {
        self.cannot(Power::Kill)
    }

    fn restart(&mut self, _servers: &[usize]) {
        self.cannot(Power::Kill)
    }

    fn skew_clock(&self, _by_ms: i64) {
        self.cannot(Power::Clock)
    }

    fn settled(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}
