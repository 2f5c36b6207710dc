//! The history of a run: what every process saw, and when.
//!
//! A run is judged by its history, not by its asserts: each process writes one line of JSON for
//! each call and each answer, on a clock that all processes of the machine share, and
//! [`checker`](crate::checker) reads them together afterwards. A line is written with one system
//! call before the process goes on, so a killed process leaves all that it saw.
//!
//! ```
//! use tests::history::{Fun, Recorder};
//!
//! let history = Recorder::in_memory();
//! let call = history.process("p1").invoke(Fun::Acquire, "order:42").budget_ms(100).begin();
//! call.ok(Some(7));
//! assert_eq!(history.events().len(), 2);
//! ```

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};

use lock_core::{LockGuard, Mode};
use serde::{Deserialize, Serialize};

use crate::clock::now_ns;
use crate::stalls;

/// For so long before it is written down may a busy process have been told of a loss.
const WRITTEN_LATE_NS: u64 = 2_000_000_000;

/// A kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fun {
    /// Taking the lock.
    Acquire,
    /// Giving it back.
    Release,
    /// Keeping it. An `ok` of this says that its holder knew then that it holds, a `fail` that it
    /// was told that the lock is lost, an `info` that its time is over and it was not told.
    Renew,
    /// Letting readers in. An `ok` says that from then on its holder counts as one.
    Downgrade,
    /// A fenced write to what the lock protects. An `ok` says that it was accepted.
    Write,
}

/// In which way a hold is shared; one without is exclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Share {
    /// With other readers.
    Reader,
    /// With those who have other permits of as many.
    Permit {
        /// Its number.
        slot: u32,
        /// How many there are.
        of: u32,
    },
}

impl Share {
    /// The share of a guard that was acquired in this mode.
    #[must_use]
    pub fn of(mode: Mode, guard: &LockGuard) -> Option<Self> {
        match mode {
            Mode::Shared => Some(Self::Reader),
            Mode::Permit { of } => Some(Self::Permit { slot: guard.slot(), of }),
            _ => None,
        }
    }

    /// Whether two may hold a key beside each other.
    #[must_use]
    pub fn are_compatible(one: Option<Self>, other: Option<Self>) -> bool {
        match (one, other) {
            (Some(Self::Reader), Some(Self::Reader)) => true,
            (Some(Self::Permit { slot, of }), Some(Self::Permit { slot: other, of: others })) => {
                slot != other && of == others && slot.max(other) < of
            }
            _ => false,
        }
    }
}

/// The stage of a call: its begin or an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// It begins.
    Invoke,
    /// It took effect.
    Ok,
    /// It certainly took no effect.
    Fail,
    /// Whether it took effect is not known, as after a lost reply.
    Info,
}

/// One line of a history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Nanoseconds of `CLOCK_MONOTONIC`.
    pub t_ns: u64,
    /// The caller: it is sequential, with at most one call under way. Tasks of one operating system
    /// process are `p1/0`, `p1/1` ….
    pub process: String,
    /// Begin or outcome.
    pub kind: Kind,
    /// The call.
    pub f: Fun,
    /// The lock's key.
    pub key: String,
    /// The fencing token, where one is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<u64>,
    /// On a grant: in which way it is shared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<Share>,
    /// On the invocation of a bounded acquire: how long it may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_ns: Option<u64>,
    /// On an answer past its budget, and on a loss that was told: for how long the machine kept
    /// processes from running meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalled_ns: Option<u64>,
    /// On the outcome of a call that failed: which error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl Event {
    /// One without what only some have.
    #[must_use]
    pub fn new(t_ns: u64, process: &str, kind: Kind, f: Fun, key: &str) -> Self {
        let (process, key) = (process.to_owned(), key.to_owned());
        let (token, share, budget_ns, stalled_ns, error) = (None, None, None, None, None);
        Self { t_ns, process, kind, f, key, token, share, budget_ns, stalled_ns, error }
    }
}

/// Where events go. Clones write to the same place.
#[derive(Clone, Debug)]
pub struct Recorder {
    sink: Arc<Sink>,
}

#[derive(Debug)]
enum Sink {
    Memory(Mutex<Vec<Event>>),
    File(File),
}

impl Recorder {
    /// Keeps the events for [`events`](Self::events).
    #[must_use]
    pub fn in_memory() -> Self {
        stalls::begin();
        Recorder { sink: Arc::new(Sink::Memory(Mutex::default())) }
    }

    /// Appends lines to the file at `path`, which several processes may share.
    ///
    /// # Errors
    ///
    /// If the file cannot be opened.
    pub fn to_file(path: &Path) -> std::io::Result<Self> {
        stalls::begin();
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(Recorder { sink: Arc::new(Sink::File(file)) })
    }

    /// The events in the order they were written; none if they go to a file.
    ///
    /// # Panics
    ///
    /// If a thread panicked while it wrote.
    #[must_use]
    pub fn events(&self) -> Vec<Event> {
        match &*self.sink {
            Sink::Memory(events) => events.lock().expect("no writer panicked").clone(),
            Sink::File(_) => Vec::new(),
        }
    }

    /// Writes for one sequential caller.
    #[must_use]
    pub fn process(&self, name: impl Into<String>) -> Process {
        Process { recorder: self.clone(), name: name.into() }
    }

    /// Writes one event.
    ///
    /// # Panics
    ///
    /// If the file cannot be written.
    pub fn record(&self, event: Event) {
        match &*self.sink {
            Sink::Memory(events) => events.lock().expect("no writer panicked").push(event),
            Sink::File(file) => {
                let mut line = serde_json::to_vec(&event).expect("an event is plain data");
                line.push(b'\n');
                // One write to a file opened for appending: lines of processes do not mix.
                let mut file = file;
                file.write_all(&line).expect("the history can be written");
            }
        }
    }
}

/// One sequential caller of a [`Recorder`].
#[derive(Clone, Debug)]
pub struct Process {
    recorder: Recorder,
    name: String,
}

impl Process {
    /// A call that is about to begin.
    pub fn invoke(&self, f: Fun, key: &str) -> Invocation<'_> {
        Invocation { process: self, f, key: key.to_owned(), token: None, budget_ns: None }
    }

    /// Notes that the holder was told that its lock is lost.
    pub fn lost(&self, key: &str, token: u64) {
        let t_ns = now_ns();
        let stalled_ns = stalls::between(t_ns.saturating_sub(WRITTEN_LATE_NS), t_ns);
        let event = Event::new(t_ns, &self.name, Kind::Fail, Fun::Renew, key);
        let stalled_ns = (stalled_ns > 0).then_some(stalled_ns);
        self.recorder.record(Event { token: Some(token), stalled_ns, ..event });
    }

    /// Notes that the holder's time is over by its own clock, and that it was not told.
    pub fn not_told(&self, key: &str, token: u64) {
        self.renew(Kind::Info, key, token, now_ns());
    }

    /// Notes that the holder knew at `t_ns` that it holds.
    pub fn holds(&self, key: &str, token: u64, t_ns: u64) {
        self.renew(Kind::Ok, key, token, t_ns);
    }

    /// Notes that the holder counts as a reader from now on.
    pub fn downgrades(&self, key: &str, token: u64) {
        self.note(Kind::Ok, Fun::Downgrade, key, token, now_ns());
    }

    fn renew(&self, kind: Kind, key: &str, token: u64, t_ns: u64) {
        self.note(kind, Fun::Renew, key, token, t_ns);
    }

    fn note(&self, kind: Kind, f: Fun, key: &str, token: u64, t_ns: u64) {
        let event = Event { token: Some(token), ..Event::new(t_ns, &self.name, kind, f, key) };
        self.recorder.record(event);
    }
}

/// A call before its start.
#[derive(Debug)]
#[must_use = "the call is written by `begin`"]
pub struct Invocation<'a> {
    process: &'a Process,
    f: Fun,
    key: String,
    token: Option<u64>,
    budget_ns: Option<u64>,
}

impl Invocation<'_> {
    /// The token that a release or a write carries.
    pub fn token(mut self, token: u64) -> Self {
        self.token = Some(token);
        self
    }

    /// How long an acquire may take, in milliseconds.
    pub fn budget_ms(mut self, budget_ms: u64) -> Self {
        self.budget_ns = Some(budget_ms * 1_000_000);
        self
    }

    /// Writes the invocation.
    pub fn begin(self) -> Call {
        let Self { process, f, key, token, budget_ns } = self;
        let begun_ns = now_ns();
        let event = Event::new(begun_ns, &process.name, Kind::Invoke, f, &key);
        process.recorder.record(Event { token, budget_ns, ..event });
        let due_ns = budget_ns.map(|budget_ns| begun_ns.saturating_add(budget_ns));
        let process = process.clone();
        Call { process, f, key, token, due_ns, share: None, t_ns: None, error: None }
    }
}

/// A call under way. Dropped without an outcome it stays open, as that of a killed process.
#[derive(Debug)]
pub struct Call {
    process: Process,
    f: Fun,
    key: String,
    token: Option<u64>,
    /// When its budget ends.
    due_ns: Option<u64>,
    share: Option<Share>,
    t_ns: Option<u64>,
    error: Option<String>,
}

impl Call {
    /// When the answer was there; else it is when it is written.
    #[must_use]
    pub fn at(mut self, t_ns: u64) -> Self {
        self.t_ns = Some(t_ns);
        self
    }

    /// The error that it ended with.
    #[must_use]
    pub fn error(mut self, error: &str) -> Self {
        self.error = Some(error.to_owned());
        self
    }

    /// It was granted, in this way.
    pub fn granted(self, mode: Mode, guard: &LockGuard) {
        let call = match Share::of(mode, guard) {
            Some(share) => self.shared(share),
            None => self,
        };
        call.ok(Some(guard.token().get()));
    }

    /// In which way what it was granted is shared.
    #[must_use]
    pub fn shared(mut self, share: Share) -> Self {
        self.share = Some(share);
        self
    }

    /// It took effect; `token` is that of a grant.
    pub fn ok(self, token: Option<u64>) {
        self.end(Kind::Ok, token);
    }

    /// It took no effect.
    pub fn fail(self) {
        self.end(Kind::Fail, None);
    }

    /// Nobody knows.
    pub fn info(self) {
        self.end(Kind::Info, None);
    }

    fn end(self, kind: Kind, token: Option<u64>) {
        let Self { process, f, key, token: own, due_ns, share, t_ns, error } = self;
        let t_ns = t_ns.unwrap_or_else(now_ns);
        // Nobody can answer a process that does not run.
        let late_since = due_ns.filter(|due_ns| t_ns > *due_ns);
        let stalled_ns =
            late_since.map(|due_ns| stalls::between(due_ns, t_ns)).filter(|ns| *ns > 0);
        let event = Event::new(t_ns, &process.name, kind, f, &key);
        process.recorder.record(Event { token: token.or(own), share, stalled_ns, error, ..event });
    }
}

/// Reads a history file, in the order of time.
///
/// A last line without its end is what a killed process left, and is left out.
///
/// # Errors
///
/// If the file cannot be read, or a line is no event; the message has the line's number.
pub fn read(path: &Path) -> Result<Vec<Event>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{path:?}: {error}"))?;
    parse(&text)
}

/// Reads a history from text, in the order of time; see [`read`].
///
/// # Errors
///
/// If a line is no event; the message has the line's number.
pub fn parse(text: &str) -> Result<Vec<Event>, String> {
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let line = |(number, line): (usize, &str)| {
        serde_json::from_str(line).map_err(|error| format!("line {}: {error}", number + 1))
    };
    let mut events: Vec<Event> = whole.lines().enumerate().map(line).collect::<Result<_, _>>()?;
    // Stable: what one process wrote at one nanosecond keeps its order.
    events.sort_by_key(|event| event.t_ns);
    Ok(events)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_file_is_read_back_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history.jsonl");
        let process = Recorder::to_file(&path).unwrap().process("p1/0");
        process.invoke(Fun::Acquire, "k").budget_ms(5).begin().ok(Some(3));
        process.lost("k", 3);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.lines().next().unwrap().ends_with(
            r#""process":"p1/0","kind":"invoke","f":"acquire","key":"k","budget_ns":5000000}"#
        ));
        let events = read(&path).unwrap();
        let kinds: Vec<_> = events.iter().map(|event| (event.kind, event.f, event.token)).collect();
        assert_eq!(
            kinds,
            [
                (Kind::Invoke, Fun::Acquire, None),
                (Kind::Ok, Fun::Acquire, Some(3)),
                (Kind::Fail, Fun::Renew, Some(3)),
            ]
        );
    }

    #[test]
    fn a_torn_last_line_is_left_out_and_any_other_is_refused() {
        let whole = r#"{"t_ns":1,"process":"p","kind":"invoke","f":"write","key":"k","token":1}"#;
        assert_eq!(parse(&format!("{whole}\n{{\"t_ns\":2,")).unwrap().len(), 1);
        assert!(parse(&format!("{{\"t_ns\":2,\n{whole}\n")).unwrap_err().starts_with("line 1"));
    }
}
