//! One key for every value of every label, made before the program runs. Where no recorder is
//! installed, an emission is a look at a thread-local and an atomic.

use std::time::Duration;

use metrics::{Key, Label, Level, Metadata, Recorder, with_recorder};

use super::named::series_of;
use super::names;
#[cfg(feature = "idempotency")]
use crate::labels::Repeat;
use crate::labels::{HANDOFFS, LOST, RefusedBy, Told, WaitEnd};
use crate::lock_name::LockName;
use crate::proto::Changes;

static METADATA: Metadata<'static> = Metadata::new("lock_core", Level::INFO, Some(module_path!()));

macro_rules! keys {
    ($name:expr, [$($nth:literal)+], $($label:literal = $values:expr),+) => {
        keys!(@each $name, [$($nth)+], ($($label = $values),+))
    };
    (@each $name:expr, [$($nth:literal)+], $labels:tt) => {
        [$(keys!(@one $name, $nth, $labels)),+]
    };
    (@one $name:expr, $nth:literal, ($($label:literal = $values:expr),+)) => {{
        const LABELS: &[Label] = &[$(Label::from_static_parts($label, $values[$nth])),+];
        Key::from_static_parts($name, LABELS)
    }};
}

static WAIT: [Key; 7] = keys!(names::WAIT_SECONDS, [0 1 2 3 4 5 6], "outcome" = WaitEnd::ALL);
static HOLD: Key = Key::from_static_name(names::HOLD_SECONDS);
static HANDED_ON: [Key; 2] = keys!(names::HANDOFFS_TOTAL, [0 1], "kind" = HANDOFFS);
static REFUSED: [Key; 2] = keys!(names::REFUSED_TOTAL, [0 1], "reason" = RefusedBy::ALL);
static LOST_BY: [Key; 4] = keys!(names::LOST_TOTAL, [0 1 2 3], "reason" = LOST);
/// By [`Told`]; only those of a renewal are ever counted.
static RENEWED: [Key; 9] = keys!(names::RENEWALS_TOTAL, [0 1 2 3 4 5 6 7 8], "outcome" = Told::ALL);
static STORE: [Key; 9] = keys!(
    names::STORE_SECONDS,
    [0 1 2 3 4 5 6 7 8],
    "verb" = Told::VERBS,
    "outcome" = Told::ALL
);
#[cfg(feature = "idempotency")]
static IDEMPOTENT: [Key; 7] = keys!(
    names::IDEMPOTENCY_REQUESTS_TOTAL,
    [0 1 2 3 4 5 6],
    "outcome" = Repeat::ALL
);
#[cfg(feature = "idempotency")]
static STALE: Key = Key::from_static_name(names::IDEMPOTENCY_STALE_TOTAL);
static WAITERS: Key = Key::from_static_name(names::WAITERS);
static HELD: Key = Key::from_static_name(names::HELD);

fn add(recorder: &dyn Recorder, key: &'static Key) {
    recorder.register_counter(key, &METADATA).increment(1);
}

fn time(recorder: &dyn Recorder, key: &'static Key, took: Duration) {
    recorder.register_histogram(key, &METADATA).record(took);
}

fn shift(recorder: &dyn Recorder, key: &'static Key, by: f64) {
    recorder.register_gauge(key, &METADATA).increment(by);
}

/// An acquire stands in line.
pub(crate) fn seated() {
    with_recorder(|to| shift(to, &WAITERS, 1.0));
}

/// An acquire left the line, and goes on.
pub(crate) fn stood_up() {
    with_recorder(|to| shift(to, &WAITERS, -1.0));
}

/// An acquire ended.
pub(crate) fn waited(name: LockName, end: WaitEnd, took: Duration, was_seated: bool) {
    let of_all = series_of(name).map_or(&WAIT, |of_name| &of_name.wait);
    with_recorder(|to| {
        time(to, &of_all[end as usize], took);
        if was_seated {
            shift(to, &WAITERS, -1.0);
        }
    });
}

pub(crate) fn refused(name: LockName, by: RefusedBy) {
    let of_all = series_of(name).map_or(&REFUSED, |of_name| &of_name.refused);
    with_recorder(|to| add(to, &of_all[by as usize]));
}

pub(crate) fn changed(changes: &Changes) {
    let Changes { granted, handed_on_here, handed_on_there, .. } = changes;
    if *granted == 0 && changes.ended().next().is_none() {
        return;
    }
    with_recorder(|to| {
        let [here, there] = &HANDED_ON;
        (0..*handed_on_here).for_each(|_| add(to, here));
        if *handed_on_there {
            add(to, there);
        }
        for ended in changes.ended() {
            let of_name = series_of(ended.name);
            time(to, of_name.map_or(&HOLD, |of_name| &of_name.hold), ended.held_for);
            if let Some(reason) = ended.lost {
                let of_all = of_name.map_or(&LOST_BY, |of_name| &of_name.lost);
                add(to, &of_all[reason as usize]);
            }
        }
        // A hand-off inside this process leaves it as it was.
        let more = f64::from(*granted) - changes.ended().count() as f64;
        if more != 0.0 {
            shift(to, &HELD, more);
        }
    });
}

/// The store has answered, or not.
pub(crate) fn asked(told: Told, took: Duration) {
    with_recorder(|to| {
        time(to, &STORE[told as usize], took);
        if matches!(told, Told::Held | Told::Lost | Told::NoRenewal) {
            add(to, &RENEWED[told as usize]);
        }
    });
}

#[cfg(feature = "idempotency")]
pub(crate) fn begun(what: Repeat) {
    with_recorder(|to| add(to, &IDEMPOTENT[what as usize]));
}

#[cfg(feature = "idempotency")]
pub(crate) fn stale_completion() {
    with_recorder(|to| add(to, &STALE));
}

/// The series of one member of a quorum, made when the quorum is.
#[derive(Debug)]
pub(crate) struct OfMember {
    good: Key,
    quarantines: Key,
    repairs: Key,
    seconds: Key,
}

impl OfMember {
    pub(crate) fn new(name: &str) -> Self {
        let key =
            |of: &'static str| Key::from_parts(of, vec![Label::new("member", name.to_owned())]);
        Self {
            good: key(names::MEMBER_READY),
            quarantines: key(names::MEMBER_QUARANTINES_TOTAL),
            repairs: key(names::MEMBER_REPAIRS_TOTAL),
            seconds: key(names::MEMBER_SECONDS),
        }
    }

    pub(crate) fn is_good(&self, is_good: bool) {
        let to_be = if is_good { 1.0 } else { 0.0 };
        with_recorder(|to| to.register_gauge(&self.good, &METADATA).set(to_be));
    }

    pub(crate) fn answered(&self, took: Duration) {
        with_recorder(|to| to.register_histogram(&self.seconds, &METADATA).record(took));
    }

    pub(crate) fn quarantined(&self) {
        with_recorder(|to| to.register_counter(&self.quarantines, &METADATA).increment(1));
    }

    pub(crate) fn repaired(&self) {
        with_recorder(|to| to.register_counter(&self.repairs, &METADATA).increment(1));
    }
}
