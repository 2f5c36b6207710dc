//! The holder elsewhere. The store is asked for it when a wait here is about to end in vain, so that
//! the error can name it.
//!
//! One answer serves all who wait here. As long as somebody does, a key is asked for at most once in
//! [`ASK_PAUSE`]; and waits that are shorter than [`ASKED_BEFORE`] are not asked for. So a fleet whose
//! waits run out asks hardly more of a store than its attempts do.

use super::*;
use crate::ground::Plus as _;

/// How long before the end of a wait the store is asked.
const ASKED_BEFORE: Duration = Duration::from_millis(500);

/// The shortest time from one question to the next.
const ASK_PAUSE: Duration = Duration::from_secs(1);

/// How long an answer is told, from the question on.
const TOLD_FOR: Duration = Duration::from_secs(2);

/// The question who holds the key, and its last answer.
#[derive(Debug)]
pub(super) struct Rival {
    /// There is no question before.
    not_before: Instant,
    answer: Answer,
}

#[derive(Debug)]
enum Answer {
    // ## None => Awaited
    /// There is none, or it was of a time before a hold of this process, and may name a claim of its
    /// own.
    None,
    // ## Awaited => (Seen | None | Awaited)
    /// Asked for then.
    Awaited(Instant),
    // ## Seen => (Awaited | None)
    /// Of that time.
    Seen(Instant, Arc<view::Holder>),
}

impl<W, R> Cohort<W, R> {
    /// Whether the store is to be asked now who holds the key. The claim of the first lane is in its
    /// line, and nobody here holds it.
    pub(super) fn asks_for_rival(&mut self, now: Instant) -> bool {
        if self.ask_for_rival_at().is_none_or(|at| now < at) {
            return false;
        }
        // Whose deadline was the earliest may have left, or waits for too short a time.
        let (earliest, due) = self.deadlines();
        self.earliest = earliest;
        let asks = due.is_some_and(|due| due <= now);
        let pause = now.plus(ASK_PAUSE);
        let rival = self
            .more()
            .rival
            .get_or_insert_with(|| Box::new(Rival { not_before: pause, answer: Answer::None }));
        rival.not_before = if asks { pause } else { due.map_or(pause, |due| due.min(pause)) };
        if asks {
            rival.answer = Answer::Awaited(now);
        }
        asks
    }

    /// When that is to be looked at again; in the past only where it was not looked at since.
    pub(super) fn ask_for_rival_at(&self) -> Option<Instant> {
        let due = self.earliest?.checked_sub(ASKED_BEFORE)?;
        let rival = self.more.as_ref().and_then(|more| more.rival.as_ref());
        Some(rival.map_or(due, |rival| due.max(rival.not_before)))
    }

    /// The first end of a wait, and the first time at which the store is to be asked for the sake of
    /// one.
    fn deadlines(&self) -> (Option<Instant>, Option<Instant>) {
        let earlier = |earliest: Option<Instant>, at| Some(earliest.map_or(at, |it| it.min(at)));
        self.line.iter().fold((None, None), |(end, due), Seat { ask, .. }| {
            let asked_at = ask.deadline.checked_sub(ASKED_BEFORE);
            let asked_at = asked_at.filter(|_| ask.budget >= ASKED_BEFORE);
            (earlier(end, ask.deadline), asked_at.map_or(due, |at| earlier(due, at)))
        })
    }

    /// The answer to the question of that time.
    pub(crate) fn rival_is(&mut self, holder: view::Holder, asked: Instant) {
        if let Some(rival) = self.more.as_mut().and_then(|more| more.rival.as_mut())
            && matches!(rival.answer, Answer::Awaited(at) if at == asked)
        {
            rival.answer = Answer::Seen(asked, Arc::new(holder));
        }
    }

    /// A claim of this process was granted, or is given back.
    pub(super) fn forget_rival(&mut self) {
        if let Some(rival) = self.more.as_mut().and_then(|more| more.rival.as_mut()) {
            rival.answer = Answer::None;
        }
    }

    /// The holder elsewhere, as the store said of late.
    pub(crate) fn rival(&self, now: Instant) -> Option<Arc<view::Holder>> {
        match &self.more.as_ref()?.rival.as_ref()?.answer {
            Answer::Seen(asked, holder) if now < asked.plus(TOLD_FOR) => Some(holder.clone()),
            _ => None,
        }
    }
}
