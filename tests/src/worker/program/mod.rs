//! The binary `worker`: it holds locks on command, to be frozen and killed.
//!
//! One command per line of standard input, one line of JSON per command on standard output.
//! Commands about a hold may leave out the key: the last one acquired is meant.
//!
//! ```text
//! acquire KEY WAIT_MS [LEASE_MS]   try KEY [LEASE_MS]
//! release [KEY]                    drop [KEY]
//! is_held [KEY]                    lost [KEY]            (answers when the loss is told)
//! write [KEY]                      block MS              (blocks the whole runtime)
//! flood KEY N WAIT_MS              (N clients of this process begin to wait)
//! contend KEY TASKS ROUNDS HOLD_US WAIT_MS
//! roam SCOPE KEYS TASKS SEED       rest                  (tasks that do what callers do, at random)
//! stats   shutdown GRACE_MS   exit
//! ```
//!
//! - `session`: the commands. `contend`: many tasks on one key.
//! - `roam`: tasks that do what callers do, at random.

mod contend;
mod roam;
mod session;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use lock_core::error::ConnectError;
use lock_core::options::Fairness;
use lock_core::{LockClient, LockOptions, Mode};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use super::Reply;
use crate::history::Recorder;

/// Holds locks on command; see the head of `tests/src/worker/program/mod.rs` for the commands.
#[derive(Clone, Debug, Parser)]
#[command(name = "worker")]
struct Arguments {
    /// The lock service, as `redis://127.0.0.1:6379`.
    #[arg(long)]
    url: String,
    /// The Redis of the fenced resource, if it is not the lock service.
    #[arg(long)]
    resource: Option<String>,
    /// This process's name in the history.
    #[arg(long, default_value = "worker")]
    process: String,
    /// Appends the history of every call to this file.
    #[arg(long)]
    history: Option<PathBuf>,
    /// The lease, in milliseconds.
    #[arg(long, default_value_t = 10_000)]
    lease_ms: u64,
    /// How long an idle lease is kept, in milliseconds.
    #[arg(long, default_value_t = 0)]
    linger_ms: u64,
    /// The fairness that the client uses.
    #[arg(long, value_enum, default_value_t = FairnessName::Batched)]
    fairness: FairnessName,
    /// Shares the keys that it acquires.
    #[arg(long)]
    shared: bool,
    /// Acquires one of so many permits.
    #[arg(long, conflicts_with = "shared")]
    permits: Option<u32>,
    /// How long SIGTERM lets holds end, in milliseconds.
    #[arg(long, default_value_t = 1_000)]
    grace_ms: u64,
    /// For how long it tries to connect, in milliseconds; once by default.
    #[arg(long, default_value_t = 0)]
    connect_ms: u64,
    /// The wrong that the tasks of `roam` do, so that a test sees it found.
    #[arg(long, hide = true)]
    misbehave: Option<Misbehaviour>,
}

/// A wrong that a run must end with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Misbehaviour {
    /// Goes on as a holder once the lock is given back, as one does that was not told of a loss.
    TwoHolders,
    /// Takes every write for accepted, as a resource does that compares no tokens.
    NoFence,
    /// Counts as a writer once it has let readers in.
    WriterStays,
    /// Takes each permit for the first one, as a store does that gives a number twice.
    OneNumber,
    /// Answers waits long after their budget.
    LateAnswers,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum FairnessName {
    Batched,
    Strict,
}

impl Arguments {
    fn options(&self) -> LockOptions {
        let fairness = match self.fairness {
            FairnessName::Batched => LockOptions::default().fairness,
            FairnessName::Strict => Fairness::Strict,
        };
        let mut options = LockOptions::default()
            .with_lease(Duration::from_millis(self.lease_ms))
            .with_linger(Duration::from_millis(self.linger_ms))
            .with_fairness(fairness);
        options.mode = match self.permits {
            Some(of) => Mode::Permit { of },
            None if self.shared => Mode::Shared,
            None => Mode::Exclusive,
        };
        options
    }

    /// Where `write` goes: a Redis lock service is its own resource unless another is named.
    fn resource_url(&self) -> Option<&str> {
        let own = self.url.starts_with("redis").then_some(self.url.as_str());
        self.resource.as_deref().or(own)
    }

    async fn first_client(&self) -> Result<LockClient, String> {
        let until = Instant::now() + Duration::from_millis(self.connect_ms);
        loop {
            match self.client().await {
                Err(_) if Instant::now() < until => sleep(Duration::from_millis(50)).await,
                answer => return answer.map_err(|error| error.to_string()),
            }
        }
    }

    async fn client(&self) -> Result<LockClient, ConnectError> {
        LockClient::builder(&self.url).defaults(self.options()).connect().await
    }
}

/// Carries out what standard input says, until it ends; then ends the process. The first of
/// `arguments` is the program's name.
///
/// # Panics
///
/// If there are no signals, or nobody reads the answers.
pub async fn run(arguments: impl IntoIterator<Item = OsString>) {
    let arguments = Arguments::parse_from(arguments);
    match serve(&arguments).await {
        Ok(()) => {}
        Err(message) => {
            answer(&Reply::failed("unavailable", message));
            std::process::exit(1);
        }
    }
}

async fn serve(arguments: &Arguments) -> Result<(), String> {
    let client = arguments.first_client().await?;
    let history = match &arguments.history {
        Some(path) => Recorder::to_file(path).map_err(|error| error.to_string())?,
        None => Recorder::in_memory(),
    };
    // Before the first answer: whoever has that may ask for the end.
    let terminated = signal(SignalKind::terminate()).expect("a runtime with signals");
    let grace = Duration::from_millis(arguments.grace_ms);
    // A task of its own, so that a command that waits does not put the end off.
    tokio::spawn(end_when_told(terminated, client.clone(), grace));
    let mut session = session::Session::new(arguments.clone(), client, history);
    let mut lines = lines();
    // The end of the commands is the end of the test.
    while let Some(line) = lines.recv().await {
        if line.trim() == "exit" {
            break;
        }
        answer(&session.command(&line).await);
    }
    Ok(())
}

async fn end_when_told(mut terminated: Signal, client: LockClient, grace: Duration) {
    terminated.recv().await;
    answer(&session::shutdown(&client, grace).await);
    std::process::exit(0);
}

/// The commands, read by a thread of its own: the runtime would wait at its end for a read of
/// its own until the next line.
fn lines() -> mpsc::UnboundedReceiver<String> {
    let (sender, lines) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        std::io::stdin().lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
    });
    lines
}

fn answer(reply: &Reply) {
    println!("{}", serde_json::to_string(reply).expect("a reply is plain data"));
}
