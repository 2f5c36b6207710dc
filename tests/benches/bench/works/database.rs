//! Works on a database server, beside what everybody writes first: the same for PostgreSQL and MariaDB.

use std::future::ready;
use std::time::Duration;

use sqlx::Row as _;
use tests::clock::now_ns;
use tests::mariadb::MariaDbServer;
use tests::postgres::{PostgresOptions, PostgresServer};

use super::held;
use super::processes::{JAIN_PROCESSES, Team};
use crate::arguments::Arguments;
use crate::measure::{JAIN, RATE, STARVED, Sent, WAIT_MAX, Window, in_process};
use crate::report::{Target, Work};
use crate::rivals::Contender::{
    self, MariaDbForUpdate, MariaDbGetLock, MariaDbUnique, MariaDbUpdates, Ours, OursStrict,
    PostgresAdvisory, PostgresForUpdate, PostgresUnique, PostgresUpdates,
};
use crate::rivals::database::{Mysql, Postgres, Way};
use crate::series::{Latencies, Series};

const P50: &str = "cycle p50 µs";
const P99: &str = "cycle p99 µs";
/// The statements that clients had the server run, by its own count.
const STATEMENTS: &str = "statements each";

/// Rivals take turns in blocks this long, so that a change of the machine's pace meets all.
const BLOCK: usize = 100;

const PROCESSES: usize = 4;
const TASKS: usize = 16;

/// A database, and what a user would take in place of ours.
pub(crate) trait Database {
    const TITLE: &str;
    /// The names of the works: a free key, one hot key in one process and in several, and keys that
    /// are held.
    const NAMES: [&str; 4];
    const UPDATES: Contender;
    const UNIQUE: Contender;
    const FOR_UPDATE: Contender;
    const OF_SESSION: Contender;

    fn start() -> Self;

    /// One that counts statements. That may cost each of them something, whoever sends it.
    fn start_counting() -> Self;

    /// The number of statements that were run so far. To ask is one of them: of two that ask, the
    /// second finds the first.
    fn statements(&self) -> u64;

    /// Where ours make their table.
    fn url(&self) -> String;

    /// Makes the rows that one who locks a row has to find.
    fn make(&self, keys: &[String]) -> impl Future<Output = ()>;
}

impl Database for PostgresServer {
    const TITLE: &str = "PostgreSQL";
    const NAMES: [&str; 4] =
        ["postgres-single", "postgres-hot-64", "postgres-processes", "postgres-held"];
    const UPDATES: Contender = PostgresUpdates;
    const UNIQUE: Contender = PostgresUnique;
    const FOR_UPDATE: Contender = PostgresForUpdate;
    const OF_SESSION: Contender = PostgresAdvisory;

    fn start() -> Self {
        Self::start()
    }

    fn start_counting() -> Self {
        let counts = "pg_stat_statements";
        let options = PostgresOptions::new().setting("shared_preload_libraries", counts);
        let server = Self::with(options);
        server.sql(format!("CREATE EXTENSION {counts}"));
        server
    }

    fn statements(&self) -> u64 {
        // `pg_stat_database` counts transactions, and a session may tell of its own a second late. The
        // texts, which are in a file, are left out.
        let count = "SELECT sum(calls)::bigint FROM pg_stat_statements(false)";
        self.sql(count)[0].get::<i64, _>(0) as u64
    }

    fn url(&self) -> String {
        self.url()
    }

    async fn make(&self, keys: &[String]) {
        let statements = Postgres::connect(&self.url(), Way::TwoUpdates).await;
        for key in keys {
            statements.update(key).await;
        }
    }
}

impl Database for MariaDbServer {
    const TITLE: &str = "MariaDB";
    const NAMES: [&str; 4] =
        ["mariadb-single", "mariadb-hot-64", "mariadb-processes", "mariadb-held"];
    const UPDATES: Contender = MariaDbUpdates;
    const UNIQUE: Contender = MariaDbUnique;
    const FOR_UPDATE: Contender = MariaDbForUpdate;
    const OF_SESSION: Contender = MariaDbGetLock;

    fn start() -> Self {
        Self::start()
    }

    /// It always counts.
    fn start_counting() -> Self {
        Self::start()
    }

    fn statements(&self) -> u64 {
        // As they come from clients; what is only prepared or pinged is none.
        let count = "SELECT CAST(variable_value AS UNSIGNED) FROM information_schema.global_status \
                     WHERE variable_name = 'Questions'";
        self.sql(count)[0].get(0)
    }

    fn url(&self) -> String {
        self.url()
    }

    async fn make(&self, keys: &[String]) {
        let statements = Mysql::connect(&self.url(), Way::TwoUpdates).await;
        for key in keys {
            statements.update(key).await;
        }
    }
}

/// Nobody counts what is sent.
async fn nothing_sent(window: Window) -> Sent {
    window.end().await;
    None
}

/// The number of statements that clients send within the window.
async fn statements_within<D: Database>(server: &D, window: Window) -> Sent {
    window.start().await;
    let before = server.statements();
    window.end().await;
    // The one that asked before is among them.
    Some((STATEMENTS, server.statements() - before - 1))
}

fn rivals<D: Database>() -> [Contender; 3] {
    [D::UNIQUE, D::FOR_UPDATE, D::OF_SESSION]
}

/// A contender, and its key in a repeat. Each has one of its own: what the last run left behind as its
/// tasks ended holds up nobody.
fn turn(contender: Contender, work: &str, repeat: usize) -> (Contender, String) {
    (contender, format!("bench:{work}:{contender:?}:{repeat}"))
}

/// Each contender's turn in each repeat. One who inserts a row finds none there, and one who locks a
/// row finds it.
async fn turns<D: Database>(
    server: &D,
    contenders: &[Contender],
    work: &str,
    repeats: usize,
) -> Vec<Vec<(Contender, String)>> {
    let turns = |repeat| contenders.iter().map(|who| turn(*who, work, repeat)).collect::<Vec<_>>();
    let turns: Vec<_> = (0..repeats).map(turns).collect();
    let rows = turns.iter().flatten().filter(|(who, _)| [D::UPDATES, D::FOR_UPDATE].contains(who));
    server.make(&rows.map(|(_, key)| key.clone()).collect::<Vec<_>>()).await;
    turns
}

/// One task, a free key.
pub(crate) async fn single<D: Database>(arguments: &Arguments) -> Work {
    let contenders = [&[Ours, D::UPDATES][..], &rivals::<D>()].concat();
    let server = D::start();
    let turns = turns(&server, &contenders, "single", arguments.repeats()).await;
    let mut series = Series::default();
    for turns in turns {
        let mut runs = Vec::new();
        for (contender, key) in turns {
            let rival = contender.connect(&server.url()).await;
            runs.push((contender, key, rival, Latencies::new()));
        }
        for block in 0..=arguments.count(3_000) / BLOCK {
            for (_, key, rival, cycles) in &mut runs {
                for _ in 0..BLOCK {
                    let start_ns = now_ns();
                    rival.cycle(key, || ready(())).await;
                    // The first block warms connections and caches up.
                    if block > 0 {
                        cycles.record(now_ns() - start_ns);
                    }
                }
            }
        }
        for (contender, _, _, cycles) in &runs {
            series.push(contender.name(), P50, cycles.ns(0.5) / 1e3);
            series.push(contender.name(), P99, cycles.ns(0.99) / 1e3);
        }
    }
    let ratio = |other: Contender| series.ratio(Ours.name(), other.name(), P50).median;
    let targets = vec![Target::at_most("p50 ÷ two upserts of a row", ratio(D::UPDATES), 1.3)];
    Work {
        name: D::NAMES[0],
        title: format!("{}, one task, free key, acquire + release", D::TITLE),
        compared: vec![(Ours.name(), P50)],
        series,
        targets,
        notes: Vec::new(),
    }
}

/// One hot key, one process.
pub(crate) async fn hot_64<D: Database>(arguments: &Arguments) -> Work {
    let contenders = [&[Ours][..], &rivals::<D>()].concat();
    let server = D::start();
    let turns = turns(&server, &contenders, "hot", arguments.repeats()).await;
    let mut series = Series::default();
    for turns in turns {
        for (contender, key) in turns {
            let keys = vec![key; 64];
            let span = arguments.span(Duration::from_millis(1_200));
            in_process(&mut series, &server.url(), contender, keys, span, nothing_sent).await;
        }
    }
    let ours = Ours.name();
    let rate = |other: Contender| series.ratio(ours, other.name(), RATE).median;
    let targets = vec![
        Target::at_least("rate ÷ unique row", rate(D::UNIQUE), 50.0),
        Target::at_least("rate ÷ FOR UPDATE", rate(D::FOR_UPDATE), 50.0),
        Target::at_least("rate ÷ a lock of the session", rate(D::OF_SESSION), 50.0),
        Target::at_least("Jain over tasks, worst repeat", series.spread(ours, JAIN).min, 0.99),
    ];
    Work {
        name: D::NAMES[1],
        title: format!("{}, one hot key, one process, 64 tasks", D::TITLE),
        compared: vec![(ours, RATE)],
        series,
        targets,
        notes: Vec::new(),
    }
}

/// One hot key, four processes of 16 tasks.
pub(crate) async fn processes<D: Database>(arguments: &Arguments) -> Work {
    let contenders = [&[Ours, OursStrict][..], &rivals::<D>()].concat();
    let server = D::start_counting();
    let turns = turns(&server, &contenders, "processes", arguments.repeats()).await;
    let mut series = Series::default();
    for turns in turns {
        for (contender, key) in turns {
            let keys = vec![key; TASKS];
            let team = Team { contender, processes: PROCESSES, keys };
            let span = arguments.span(Duration::from_secs(2));
            let sent = |window| statements_within(&server, window);
            team.run_and_note(&mut series, &server.url(), span, sent).await;
        }
    }
    let (ours, strict) = (Ours.name(), OursStrict.name());
    let targets = vec![
        Target::at_least("Jain over tasks, worst repeat", series.spread(ours, JAIN).min, 0.95),
        Target::at_least(
            "Jain over processes, worst repeat",
            series.spread(ours, JAIN_PROCESSES).min,
            0.95,
        ),
        Target::at_most("tasks starved, worst repeat", series.spread(ours, STARVED).max, 0.0),
        Target::at_most(
            "statements per acquisition, worst repeat",
            series.spread(ours, STATEMENTS).max,
            0.1,
        ),
        Target::at_most(
            "statements per acquisition in strict order, worst repeat",
            series.spread(strict, STATEMENTS).max,
            5.0,
        ),
    ];
    let longest = series.spread(ours, WAIT_MAX).max;
    Work {
        name: D::NAMES[2],
        title: format!("{}, one hot key, 4 processes × 16 tasks", D::TITLE),
        compared: vec![(ours, RATE)],
        series,
        targets,
        notes: vec![format!("The longest wait of ours over all repeats: {longest:.1} ms.")],
    }
}

/// Ten thousand keys held at once, and what it costs to keep them.
pub(crate) async fn held<D: Database>(arguments: &Arguments) -> Work {
    let mut series = Series::default();
    let keys = arguments.count(10_000);
    for _ in 0..arguments.repeats() {
        let server = D::start();
        held::repeat(&mut series, &server.url(), None, keys, arguments).await;
    }
    let ours = Ours.name();
    let targets = vec![
        Target::at_most("renewal CPU %, worst repeat", series.spread(ours, held::CPU).max, 5.0),
        Target::at_most("keys lost, worst repeat", series.spread(ours, held::LOST).max, 0.0),
    ];
    Work {
        name: D::NAMES[3],
        title: format!("{}, {keys} distinct keys held at once", D::TITLE),
        compared: Vec::new(),
        series,
        targets,
        notes: Vec::new(),
    }
}
