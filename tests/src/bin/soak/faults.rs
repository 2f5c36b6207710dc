//! Every fault of a soak: what it is done to, and what it may break.
//!
//! This is the only place that excuses anything. What a row does not name must hold whatever
//! happens: tokens are never granted twice, accepted writes never go back, holders are told in
//! time, waits end in time, and nothing is left behind.

use std::time::Duration;

use tests::checker::Excuse;
use tests::scene::{Keeps, Kind, Power, Times};

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum What {
    Stop,
    Crash,
    Cut,
    Reset,
    Refuse,
    BlackHole,
    OneWay,
    Silence,
    Slow,
    LosePushes,
    SwallowReply,
    LoseRequest,
    HoldReply,
    Pause,
    Restart,
    FailOver,
    ClockForward,
    ClockBack,
    Delete,
    Wipe,
}

/// Faults of one lane come one after the other; those of several lanes at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    Processes,
    Links,
    Servers,
}

/// The guarantees that a fault may break, until it is over and its [grace] with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Breaks {
    /// Two holders for a moment, told apart by their tokens; the first one is told, and what it
    /// passes on in its process meanwhile may have lower tokens.
    pub(crate) two_holders: bool,
    /// When the store may not be there.
    pub(crate) gone: Gone,
}

/// When a store may not be there for somebody.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Gone {
    /// Never.
    #[default]
    No,
    /// To waits of which a part lies in the fault: who does not run cannot ask.
    Meanwhile,
    /// Then, and until connections are back.
    AndAfter,
}

/// One fault.
pub(crate) struct Row {
    pub(crate) what: What,
    /// As docs call it.
    pub(crate) name: &'static str,
    /// Its rows of the fault matrix.
    pub(crate) ids: &'static str,
    pub(crate) lane: Lane,
    needs: Option<Power>,
    /// The only stores that know it; all if there are none.
    only: &'static [&'static str],
    /// The shortest and the longest time that it lasts, in milliseconds: some of those that can
    /// cost a lease last longer than one.
    pub(crate) lasts_ms: (u64, u64),
    breaks: Breaks,
}

const NOTHING: Breaks = Breaks { two_holders: false, gone: Gone::No };
const ITSELF: Breaks = Breaks { two_holders: false, gone: Gone::Meanwhile };
const STORE: Breaks = Breaks { two_holders: false, gone: Gone::AndAfter };
const HOLDS: Breaks = Breaks { two_holders: true, gone: Gone::No };
const BOTH: Breaks = Breaks { two_holders: true, gone: Gone::AndAfter };

const REDISES: &[&str] = &["redis", "redis+redisson", "redis+sentinel", "redis+cluster", "redlock"];
const SUCCEEDED: &[&str] = &["redis+sentinel", "redis+cluster"];

/// All of them. None excuses a late answer: the time in which a process did not run is taken off,
/// and nothing else.
pub(crate) const FAULTS: &[Row] = &[
    row(What::Stop, "process stopped", "F01 F39", Lane::Processes, None, (500, 5_500), ITSELF),
    row(What::Crash, "process killed", "F03 F04 F05", Lane::Processes, None, (0, 500), NOTHING),
    row(What::Cut, "link cut", "F25", Lane::Links, Some(Power::Link), (0, 50), STORE),
    row(What::Reset, "link reset", "F25", Lane::Links, Some(Power::Link), (0, 50), STORE),
    row(What::Refuse, "link refused", "F10", Lane::Links, Some(Power::Link), (20, 3_000), STORE),
    row(
        What::BlackHole,
        "link black-holed",
        "F10",
        Lane::Links,
        Some(Power::Link),
        (300, 5_000),
        STORE,
    ),
    row(
        What::OneWay,
        "link black-holed one way",
        "F10 F13",
        Lane::Links,
        Some(Power::Link),
        (300, 5_000),
        STORE,
    ),
    row(
        What::Silence,
        "connections silenced",
        "F43",
        Lane::Links,
        Some(Power::Link),
        (0, 500),
        STORE,
    ),
    row(What::Slow, "link slow", "F14", Lane::Links, Some(Power::Link), (200, 3_000), STORE),
    row(
        What::LosePushes,
        "pushes lost",
        "F25",
        Lane::Links,
        Some(Power::Push),
        (200, 3_000),
        NOTHING,
    ),
    row(
        What::SwallowReply,
        "reply swallowed",
        "F11 F12 F13",
        Lane::Links,
        Some(Power::Trap),
        (200, 1_500),
        STORE,
    ),
    row(
        What::LoseRequest,
        "request lost",
        "F11 F12 F13",
        Lane::Links,
        Some(Power::Trap),
        (200, 1_500),
        STORE,
    ),
    row(What::HoldReply, "reply late", "F14", Lane::Links, Some(Power::Trap), (200, 3_000), STORE),
    row(
        What::Pause,
        "server stopped",
        "F14 F41",
        Lane::Servers,
        Some(Power::Pause),
        (100, 3_000),
        STORE,
    ),
    row(
        What::Restart,
        "server killed, started again",
        "F06 F07 F41",
        Lane::Servers,
        Some(Power::Kill),
        (0, 2_500),
        BOTH,
    ),
    only(
        SUCCEEDED,
        row(
            What::FailOver,
            "another server takes over",
            "F08 F09",
            Lane::Servers,
            None,
            (0, 1),
            BOTH,
        ),
    ),
    row(
        What::ClockForward,
        "server's clock set forward",
        "F16",
        Lane::Servers,
        Some(Power::Clock),
        (0, 1),
        HOLDS,
    ),
    row(
        What::ClockBack,
        "server's clock set back",
        "F16 F40",
        Lane::Servers,
        Some(Power::Clock),
        (0, 1),
        NOTHING,
    ),
    row(
        What::Delete,
        "lock deleted by hand",
        "F29",
        Lane::Servers,
        Some(Power::Delete),
        (0, 1),
        HOLDS,
    ),
    only(
        REDISES,
        row(
            What::Wipe,
            "server's data wiped",
            "F29",
            Lane::Servers,
            Some(Power::Delete),
            (0, 1),
            HOLDS,
        ),
    ),
];

const fn row(
    what: What,
    name: &'static str,
    ids: &'static str,
    lane: Lane,
    needs: Option<Power>,
    lasts_ms: (u64, u64),
    breaks: Breaks,
) -> Row {
    Row { what, name, ids, lane, needs, only: &[], lasts_ms, breaks }
}

const fn only(stores: &'static [&'static str], row: Row) -> Row {
    Row { only: stores, ..row }
}

pub(crate) fn row_of(what: What) -> &'static Row {
    FAULTS.iter().find(|row| row.what == what).expect("a row for each")
}

/// Whether servers that know nothing of each other decide by a majority.
fn is_quorum(kind: &Kind) -> bool {
    kind.store == "redlock" || kind.store == "zookeeper+quorum"
}

impl Row {
    pub(crate) fn can_happen_to(&self, kind: &Kind) -> bool {
        let is_known = self.only.is_empty() || self.only.contains(&kind.store);
        is_known && self.needs.is_none_or(|need| kind.lacks(need).is_none())
    }

    /// The guarantees that it may break on such a layout.
    pub(crate) fn breaks(&self, kind: &Kind) -> Breaks {
        let two_holders = match self.what {
            // The server comes back with all that it knew.
            What::Restart if kind.keeps == Keeps::Everything => false,
            // A member that lost its data grants nothing until every lease is over.
            What::Restart | What::Wipe if is_quorum(kind) => false,
            _ => self.breaks.two_holders,
        };
        Breaks { two_holders, ..self.breaks }
    }

    /// Whether a server forgets which tokens it gave.
    pub(crate) fn loses_data(&self) -> bool {
        matches!(self.what, What::Restart | What::Wipe | What::FailOver)
    }
}

/// A fault that was done, on the clock of the history.
#[derive(Clone, Debug)]
pub(crate) struct Done {
    pub(crate) what: What,
    /// The target, in words for people.
    pub(crate) target: String,
    pub(crate) from_ns: u64,
    pub(crate) until_ns: u64,
    /// By how far a clock was set back, in milliseconds: what is at the server lives longer by it.
    pub(crate) back_ms: u64,
}

/// Within which time of a second grant the first holder knows of its loss: no renewal is answered
/// any more, so it is at its lease's end. Where sessions are kept it reads its node once a session.
pub(crate) fn told_within(times: &Times) -> Duration {
    times.lost_within.max(times.session) + Duration::from_millis(1_500)
}

/// Within which time of a fault's end all is as if it had not been: who died is passed over, and
/// whoever lost its connection has it back.
pub(crate) fn grace(times: &Times) -> Duration {
    times.freed_within.max(times.handed_within) + times.recheck + Duration::from_secs(2)
}

fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Done {
    /// The excuses that it gives.
    pub(crate) fn excuses(&self, kind: &Kind, times: &Times) -> [Excuse; 3] {
        let breaks = row_of(self.what).breaks(kind);
        let until = |after: Duration| {
            let until_ns = self.until_ns + ns(after) + self.back_ms * 1_000_000;
            Excuse { from_ns: self.from_ns, until_ns, ..Excuse::default() }
        };
        let two = breaks.two_holders;
        let after = if breaks.gone == Gone::AndAfter { grace(times) } else { Duration::ZERO };
        [
            Excuse { two_holders: two, old_tokens: two, ..until(told_within(times)) },
            // Every fault may cost time to who waits for what it was done to.
            Excuse { waiting: true, ..until(grace(times)) },
            Excuse { unavailable: breaks.gone != Gone::No, ..until(after) },
        ]
    }
}

#[cfg(test)]
mod test {
    use tests::scene::layouts::KINDS;

    use super::*;

    #[test]
    fn each_fault_has_one_row_and_some_store_that_suffers_it() {
        for row in FAULTS {
            assert_eq!(FAULTS.iter().filter(|other| other.what == row.what).count(), 1);
            assert!(KINDS.iter().any(|kind| row.can_happen_to(kind)), "{}", row.name);
        }
    }

    #[test]
    fn the_page_about_the_soak_has_every_fault_and_what_it_may_break() {
        let page = include_str!("../../../../docs/soak.md");
        for row in FAULTS {
            let two = |kind: &&&Kind| row.can_happen_to(kind) && row.breaks(kind).two_holders;
            let stores: Vec<_> = KINDS.iter().filter(two).map(|kind| kind.store).collect();
            let two = if stores.is_empty() { "–".to_owned() } else { stores.join(", ") };
            let gone = match row.breaks.gone {
                Gone::No => "–",
                Gone::Meanwhile => "while it is stopped",
                Gone::AndAfter => "yes",
            };
            let line = format!("| {} | {} | {two} | {gone} |", row.name, row.ids);
            assert!(page.contains(&line), "docs/soak.md lacks: {line}");
        }
    }
}
