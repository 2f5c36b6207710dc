//! The processes that use the lock, and what they write down.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum as _;
use serde_json::Value;
use tests::folder::Folder;
use tests::history::{Event, read};
use tests::redis::RedisServer;
use tests::scene::{Layout, Line, Tempo};
use tests::worker::Worker;

use crate::WORKER;
use crate::arguments::Arguments;

/// The word that the keys of a soak begin with.
pub(crate) const SCOPE: &str = "soak";

/// How long a process tries to connect: longer than any fault lasts.
const CONNECT_MS: &str = "60000";

/// How long all that a process holds and waits for may take to end, faults being over.
const REST: Duration = Duration::from_secs(30);

/// One worker's place: a process in it is followed by another when it is killed.
pub(crate) struct Place {
    pub(crate) number: usize,
    incarnation: u64,
    worker: Worker,
    url: String,
    /// Answers to come that nobody has read.
    unread: usize,
}

/// All workers.
pub(crate) struct Crew {
    pub(crate) places: Vec<Place>,
    pub(crate) lines: Vec<Line>,
    /// The processes that were killed since the history was last taken.
    pub(crate) killed: Vec<String>,
    pub(crate) ground: Ground,
}

/// The ground of all workers: arguments, a folder, and the resource.
pub(crate) struct Ground {
    arguments: Arguments,
    folder: Folder,
    resource: RedisServer,
}

/// The counts of what is left in a process that rests.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Left {
    /// Keys, waiters, holds.
    pub(crate) locks: u64,
    /// Tasks, of which its connections are some.
    pub(crate) tasks: u64,
}

impl Crew {
    pub(crate) fn start(arguments: &Arguments, layout: &dyn Layout) -> Self {
        let folder = Folder::new("soak");
        let resource = RedisServer::start();
        let ground = Ground { arguments: arguments.clone(), folder, resource };
        // Nobody outside of a process can use its memory: so there is one, with all the tasks.
        let processes = if layout.servers() == 0 { 1 } else { arguments.workers };
        let lines: Vec<_> = (0..processes).map(|_| layout.line_of(SCOPE, Tempo::Steady)).collect();
        let place = |(number, line): (usize, &Line)| Place::take(&ground, number, line.url());
        let places = lines.iter().enumerate().map(place).collect();
        Self { places, lines, killed: Vec::new(), ground }
    }

    /// Has all of them use the lock.
    pub(crate) fn roam(&mut self) {
        for place in &mut self.places {
            place.roam(&self.ground);
        }
    }

    /// Has all of them let go of all they hold and wait for; what is left all the same.
    pub(crate) async fn rest(&mut self) -> Left {
        let mut left = Left::default();
        for place in &mut self.places {
            place.send("rest");
        }
        for place in &mut self.places {
            let value = place.last_answer().await;
            let count = |what: &str| value[what].as_u64().expect("a count");
            left.locks += ["keys", "waiters", "held", "left"].into_iter().map(count).sum::<u64>();
            left.tasks = left.tasks.max(count("tasks"));
        }
        left
    }

    /// Takes what they have written down, while they rest; and who was killed.
    pub(crate) fn take_history(&mut self) -> (Vec<Event>, Vec<String>) {
        let path = self.ground.history();
        let events = read(&path).expect("a history");
        // They append, so the next line is the first.
        let file = std::fs::File::options().write(true).open(path).expect("a history");
        file.set_len(0).expect("a history");
        (events, std::mem::take(&mut self.killed))
    }

    /// Ends all of them in order.
    pub(crate) async fn end(&mut self) {
        for place in &mut self.places {
            place.worker.send("exit");
        }
        for place in &mut self.places {
            place.worker.ended().await;
        }
    }
}

impl Ground {
    fn history(&self) -> PathBuf {
        self.folder.path().join("history.jsonl")
    }
}

impl Place {
    fn take(ground: &Ground, number: usize, url: &str) -> Self {
        let url = url.to_owned();
        Self {
            number,
            incarnation: 0,
            worker: spawn(ground, &name(number, 0), &url),
            url,
            unread: 0,
        }
    }

    pub(crate) fn name(&self) -> String {
        name(self.number, self.incarnation)
    }

    fn send(&mut self, command: &str) {
        self.worker.send(command);
        self.unread += 1;
    }

    fn roam(&mut self, ground: &Ground) {
        let Arguments { keys, tasks, seed, workers, .. } = ground.arguments;
        let tasks = if self.url.starts_with("memory:") { tasks * workers } else { tasks };
        let seed = seed.wrapping_mul(1_000_003).wrapping_add(self.incarnation * 1_009);
        let seed = seed.wrapping_add(self.number as u64 * 101);
        self.send(&format!("roam {SCOPE} {keys} {tasks} {seed}"));
    }

    async fn last_answer(&mut self) -> Value {
        let mut value = Value::Null;
        while self.unread > 0 {
            let reply = self.worker.reply_within(REST).await;
            let reply = reply.unwrap_or_else(|| panic!("{} does not come to rest", self.name()));
            assert!(reply.ok, "{}: {reply:?}", self.name());
            value = reply.value.unwrap_or_default();
            self.unread -= 1;
        }
        value
    }

    pub(crate) fn stop(&self) {
        self.worker.freeze();
    }

    pub(crate) fn go_on(&self) {
        self.worker.thaw();
    }

    /// Kills it; its name.
    pub(crate) fn crash(&mut self) -> String {
        self.worker.kill();
        self.name()
    }

    /// Puts another process in its place.
    pub(crate) fn succeed(&mut self, ground: &Ground) {
        self.incarnation += 1;
        self.unread = 0;
        self.worker = spawn(ground, &self.name(), &self.url);
        self.roam(ground);
    }
}

fn name(number: usize, incarnation: u64) -> String {
    format!("p{number}.{incarnation}")
}

fn spawn(ground: &Ground, name: &str, url: &str) -> Worker {
    let Arguments { store, misbehave, .. } = &ground.arguments;
    let (history, resource) = (ground.history(), ground.resource.url());
    let lease = store.times(Tempo::Steady).lease.as_millis().to_string();
    let mut arguments = vec![WORKER, "--url", url, "--resource", &resource, "--process", name];
    arguments.extend(["--history", history.to_str().expect("a path"), "--lease-ms", &lease]);
    arguments.extend(["--connect-ms", CONNECT_MS]);
    let wrong = misbehave.and_then(|wrong| wrong.to_possible_value());
    if let Some(wrong) = &wrong {
        arguments.extend(["--misbehave", wrong.get_name()]);
    }
    let program = std::env::current_exe().expect("this program");
    Worker::spawn(program, &arguments)
}
