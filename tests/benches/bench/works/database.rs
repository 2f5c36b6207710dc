//! Works on a database server, beside what everybody writes first: the same for PostgreSQL and MariaDB.

use std::future::{pending, ready};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use sqlx::Row as _;
use tests::clock::now_ns;
use tests::mariadb::MariaDbServer;
use tests::postgres::{PostgresOptions, PostgresServer};
use tests::worker::Reply;
use tokio::time::timeout;

use super::held;
use super::processes::{JAIN_PROCESSES, Team};
use crate::arguments::Arguments;
use crate::child::{self, Plan};
use crate::measure::{JAIN, RATE, STARVED, Sent, WAIT_MAX, Window, in_process};
use crate::report::{Target, Work};
use crate::rivals::Contender::{
    self, MariaDbForUpdate, MariaDbGetLock, MariaDbUnique, MariaDbUpdates, Ours, OursStrict,
    PostgresAdvisory, PostgresForUpdate, PostgresUnique, PostgresUpdates,
};
use crate::rivals::LEASE;
use crate::rivals::database::{Mysql, Postgres, Way};
use crate::rivals::program::{Program, Ran};
use crate::series::{Latencies, Series};

const P50: &str = "cycle p50 µs";
const P99: &str = "cycle p99 µs";
/// The statements that clients had the server run, by its own count.
const STATEMENTS: &str = "statements each";

/// Rivals take turns in blocks this long, so that a change of the machine's pace meets all.
const BLOCK: usize = 100;

const PROCESSES: usize = 4;
const TASKS: usize = 16;

/// The crate that a user of PostgreSQL finds first, in its program.
const CRATE: &str = "distributed-lock 0.2";

/// How long somebody waits who would take the key of a holder that was stopped.
const BEHIND: &str = "wait behind it s";
const BEHIND_MAX: Duration = Duration::from_secs(20);

/// A database, and what a user would take in place of ours.
pub(crate) trait Database {
    const TITLE: &str;
    /// The names of the works: a free key, one hot key in one process and in several, a holder that was
    /// stopped, and keys that are held.
    const NAMES: [&str; 5];
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

    /// The crate for it, which takes the URL of a server, a key and a number of tasks.
    fn of_crate() -> Option<Program>;

    /// Makes the rows that one who locks a row has to find.
    fn make(&self, keys: &[String]) -> impl Future<Output = ()>;
}

impl Database for PostgresServer {
    const TITLE: &str = "PostgreSQL";
    const NAMES: [&str; 5] = [
        "postgres-single",
        "postgres-hot-64",
        "postgres-processes",
        "postgres-stopped",
        "postgres-held",
    ];
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

    fn of_crate() -> Option<Program> {
        Some(Program::distributed_lock())
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
    const NAMES: [&str; 5] = [
        "mariadb-single",
        "mariadb-hot-64",
        "mariadb-processes",
        "mariadb-stopped",
        "mariadb-held",
    ];
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

    /// Nobody's is measured.
    fn of_crate() -> Option<Program> {
        None
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

/// Has the crate run with so many processes and tasks.
async fn run_crate<C: Future<Output = Sent>>(
    program: &Program,
    url: &str,
    (processes, tasks): (usize, usize),
    span: Duration,
    sent: impl FnOnce(Window) -> C,
) -> (Ran, Sent) {
    let url = url.split('?').next().unwrap_or(url);
    let crowd = program.ready(processes, &[url, "bench", &tasks.to_string()]);
    let window = Window::soon(span);
    tokio::join!(crowd.run(window), sent(window))
}

/// One task, a free key.
pub(crate) async fn single<D: Database>(arguments: &Arguments) -> Work {
    let contenders = [&[Ours, D::UPDATES][..], &rivals::<D>()].concat();
    let (server, of_crate) = (D::start(), D::of_crate());
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
        if let Some(program) = &of_crate {
            let span = arguments.span(Duration::from_secs(1));
            let (ran, _) = run_crate(program, &server.url(), (1, 1), span, nothing_sent).await;
            series.push(CRATE, P50, ran.p50_us);
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
    let (server, of_crate) = (D::start(), D::of_crate());
    let turns = turns(&server, &contenders, "hot", arguments.repeats()).await;
    let mut series = Series::default();
    for turns in turns {
        let span = arguments.span(Duration::from_millis(1_200));
        for (contender, key) in turns {
            let keys = vec![key; 64];
            in_process(&mut series, &server.url(), contender, keys, span, nothing_sent).await;
        }
        if let Some(program) = &of_crate {
            let (ran, sent) = run_crate(program, &server.url(), (1, 64), span, nothing_sent).await;
            ran.note(&mut series, CRATE, sent);
        }
    }
    let ours = Ours.name();
    let rate = |other: &str| series.ratio(ours, other, RATE).median;
    let mut targets = vec![
        Target::at_least("rate ÷ unique row", rate(D::UNIQUE.name()), 50.0),
        Target::at_least("rate ÷ FOR UPDATE", rate(D::FOR_UPDATE.name()), 50.0),
        Target::at_least("rate ÷ a lock of the session", rate(D::OF_SESSION.name()), 50.0),
        Target::at_least("Jain over tasks, worst repeat", series.spread(ours, JAIN).min, 0.99),
    ];
    if of_crate.is_some() {
        targets.push(Target::at_least("rate ÷ distributed-lock", rate(CRATE), 50.0));
    }
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
    let (server, of_crate) = (D::start_counting(), D::of_crate());
    let turns = turns(&server, &contenders, "processes", arguments.repeats()).await;
    let mut series = Series::default();
    for turns in turns {
        let span = arguments.span(Duration::from_secs(2));
        let counted = |window| statements_within(&server, window);
        for (contender, key) in turns {
            let keys = vec![key; TASKS];
            let team = Team { contender, processes: PROCESSES, keys };
            team.run_and_note(&mut series, &server.url(), span, counted).await;
        }
        if let Some(program) = &of_crate {
            let crowd = (PROCESSES, TASKS);
            let (ran, sent) = run_crate(program, &server.url(), crowd, span, counted).await;
            ran.note(&mut series, CRATE, sent);
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

/// One holder is stopped, as by a long pause of its machine, and one other waits.
pub(crate) async fn stopped<D: Database>(arguments: &Arguments) -> Work {
    let contenders = [&[Ours][..], &rivals::<D>()].concat();
    let server = D::start();
    let mut series = Series::default();
    for turns in turns(&server, &contenders, "stopped", arguments.repeats()).await {
        // All at once, as they only wait.
        let waits = turns.into_iter().map(|(contender, key)| {
            let url = server.url();
            async move { (contender, behind_a_stopped_holder(contender, url, key).await) }
        });
        for (contender, wait) in join_all(waits).await {
            series.push(contender.name(), BEHIND, wait.as_secs_f64());
        }
    }
    let ours = series.spread(Ours.name(), BEHIND).max;
    let lease_s = LEASE.as_secs_f64();
    Work {
        name: D::NAMES[3],
        title: format!("{}, a holder that is stopped, and one who waits", D::TITLE),
        compared: Vec::new(),
        series,
        targets: vec![Target::at_most("wait s ÷ the lease, worst repeat", ours / lease_s, 1.1)],
        notes: vec![format!(
            "Our lease is {lease_s} s. Who waits for {} s was not granted the key by then.",
            BEHIND_MAX.as_secs()
        )],
    }
}

/// How long one waits for the key of a process that is stopped while it holds it, for so long at most.
async fn behind_a_stopped_holder(contender: Contender, url: String, key: String) -> Duration {
    let plan = Plan::Keep { url: url.clone(), contender, key: key.clone() };
    let mut holder = child::spawn(&plan);
    holder.reply().await;
    holder.freeze();
    let rival = contender.connect(&url).await;
    let began = Instant::now();
    let granted = timeout(BEHIND_MAX, rival.cycle(&key, || ready(()))).await;
    holder.kill();
    granted.map_or(BEHIND_MAX, |()| began.elapsed())
}

/// The child's side: takes the key, says so, and keeps it.
pub(crate) async fn keep(contender: Contender, url: &str, key: &str) {
    let rival = contender.connect(url).await;
    let held = || {
        child::answer(&Reply::done());
        pending()
    };
    rival.cycle(key, held).await;
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
        name: D::NAMES[4],
        title: format!("{}, {keys} distinct keys held at once", D::TITLE),
        compared: Vec::new(),
        series,
        targets,
        notes: Vec::new(),
    }
}
