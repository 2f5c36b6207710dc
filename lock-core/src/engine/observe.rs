//! Spans of `tracing` for those who watch a service, and, with the feature `metrics`,
//! counters and histograms. Nothing here runs under a cohort's mutex.
//!
//! Spans are at DEBUG. `lock.acquire` and `lock.hold` are children of the span in which the caller
//! awaits, and are never entered: a hold that began inside its acquire would keep that open.
//! `lock.store` is a root, as a request serves all waiters of the process, and is entered while
//! the request runs, for what the backend says. Keys may say more than a log may show: a span has
//! `lock.key` only where the target `lock_core::key` is at TRACE.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use tracing::field::{DisplayValue, Empty, display};
use tracing::{Level, Span, debug_span};

use crate::backend::{DynClaim, Fault, Request};
use crate::error::AcquireError;
use crate::ground::clock;
use crate::key::Key;
use crate::labels::{self, Answer, WaitEnd};
use crate::lock_name::LockName;
#[cfg(feature = "metrics")]
use crate::metrics::{named, series};
use crate::proto::Changes;
use crate::token::FencingToken;

/// The key, for those who asked for it.
fn shown(key: &Key) -> Option<DisplayValue<&Key>> {
    tracing::enabled!(target: "lock_core::key", Level::TRACE).then(|| display(key))
}

/// One acquire.
#[derive(Debug)]
pub(in crate::engine) struct Wait {
    span: Span,
    /// When the clock was last read for it, so that a grant need not read it again.
    seen: Option<Instant>,
    in_line: bool,
    name: LockName,
}

impl Wait {
    pub(in crate::engine) fn new() -> Self {
        Self { span: Span::none(), seen: None, in_line: false, name: LockName::default() }
    }

    /// The name that its hold is counted under.
    pub(in crate::engine) fn name(&self) -> LockName {
        self.name
    }

    /// Its first poll.
    pub(in crate::engine) fn begin(&mut self, key: &Key, name: Option<&'static str>) {
        self.span = debug_span!(
            target: "lock_core",
            "lock.acquire",
            lock.key = shown(key),
            lock.name = name,
            lock.outcome = Empty,
            lock.token = Empty,
            lock.tries = Empty,
        );
        #[cfg(feature = "metrics")]
        {
            self.name = named::number(name);
        }
    }

    pub(in crate::engine) fn saw(&mut self, now: Instant) {
        self.seen = Some(now);
    }

    /// It was polled and has not ended: whether it stands in line now.
    pub(in crate::engine) fn stands(&mut self, in_line: bool) {
        #[cfg(feature = "metrics")]
        match (self.in_line, in_line) {
            (false, true) => series::seated(),
            (true, false) => series::stood_up(),
            _ => {}
        }
        self.in_line = in_line;
    }

    /// It ended in its try of this number. `started` is none for input that was refused, and
    /// for a re-entry.
    pub(in crate::engine) fn over(
        &mut self,
        started: Option<Instant>,
        tries: u32,
        result: Result<FencingToken, &AcquireError>,
    ) {
        if started.is_none() && result.is_ok() {
            return;
        }
        if let Ok(token) = result
            && !self.span.is_disabled()
        {
            self.span.record("lock.token", token.get());
        }
        if result.is_err() {
            self.saw(clock::now());
        }
        let end = WaitEnd::of(result);
        match result {
            // The caller that set this bound counts those whom it never let in.
            Err(AcquireError::Overloaded(error))
                if error.is_waiters_max() && tries == 1 && !self.in_line =>
            {
                self.tell(tries, end);
                return;
            }
            #[cfg(feature = "metrics")]
            Err(AcquireError::Overloaded(error)) => {
                series::refused(self.name, labels::RefusedBy::of(error));
            }
            _ => {}
        }
        self.end(started, tries, end);
    }

    /// It was dropped before its end.
    pub(in crate::engine) fn cancelled(&mut self, started: Option<Instant>, tries: u32) {
        self.saw(clock::now());
        self.end(started, tries, WaitEnd::Cancelled);
    }

    fn end(&mut self, started: Option<Instant>, tries: u32, end: WaitEnd) {
        self.tell(tries, end);
        #[cfg(feature = "metrics")]
        series::waited(self.name, end, between(started, self.seen), self.in_line);
        #[cfg(not(feature = "metrics"))]
        let _ = (started, self.seen, self.in_line);
    }

    fn tell(&mut self, tries: u32, end: WaitEnd) {
        // A field is looked up by its name even if nobody listens.
        if !self.span.is_disabled() {
            self.span.record("lock.outcome", end.as_str());
            self.span.record("lock.tries", tries);
            // It ends here, not when the caller drops the future.
            self.span = Span::none();
        }
    }
}

#[cfg(feature = "metrics")]
fn between(from: Option<Instant>, to: Option<Instant>) -> std::time::Duration {
    from.zip(to).map(|(from, to)| to.saturating_duration_since(from)).unwrap_or_default()
}

/// A span for those who listen, and a word where nobody does.
pub(in crate::engine) type OpenSpan = Option<Box<Span>>;

fn heard(span: Span) -> OpenSpan {
    (!span.is_disabled()).then(|| Box::new(span))
}

/// The span of a hold; its guard keeps it.
pub(in crate::engine) fn hold(key: &Key, token: u64) -> OpenSpan {
    heard(debug_span!(
        target: "lock_core",
        "lock.hold",
        lock.key = shown(key),
        lock.token = token,
        lock.outcome = Empty,
    ))
}

/// The guard of a hold gave it up. `changes` are those of the release.
pub(in crate::engine) fn gave_up(span: &OpenSpan, changes: &Changes) {
    if let Some(span) = span.as_ref().filter(|_| !changes.goes_on) {
        let released = changes.ended().next().is_some_and(|ended| ended.lost.is_none());
        span.record("lock.outcome", if released { "released" } else { "lost" });
    }
}

/// Counts what a call has changed.
pub(in crate::engine) fn count(key: &Key, changes: &Changes) {
    if !changes.is_some() {
        return;
    }
    for cause in changes.ended().filter_map(|ended| ended.lost) {
        let cause = labels::LOST[cause as usize];
        tracing::warn!(
            target: "lock_core",
            { lock.key = shown(key), lock.reason = cause },
            "a lock was lost before its release"
        );
    }
    #[cfg(feature = "metrics")]
    series::changed(changes);
}

/// A request to the store under way.
pub(in crate::engine) struct Asked<A> {
    span: OpenSpan,
    sent: Instant,
    request: Request<A>,
}

impl<A: Answer> Asked<A> {
    /// It is sent from now on.
    pub(in crate::engine) fn new(key: &Key, request: Request<A>, now: Instant) -> Self {
        let span = debug_span!(
            target: "lock_core::store",
            parent: None,
            "lock.store",
            lock.key = shown(key),
            lock.verb = A::VERB,
            lock.outcome = Empty,
        );
        Self { span: heard(span), sent: now, request }
    }

    pub(in crate::engine) fn sent(&self) -> Instant {
        self.sent
    }
}

/// The claim comes back with its answer.
impl<A: Answer> Future for Asked<A> {
    type Output = (Box<dyn DynClaim>, Result<A, Fault>);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { span, sent, request } = &mut *self;
        let _entered = span.as_ref().map(|span| span.enter());
        let (claim, answer) = ready!(request.as_mut().poll(cx));
        let told = A::told(&answer);
        if let Some(span) = &*span {
            span.record("lock.outcome", told.as_str());
        }
        #[cfg(feature = "metrics")]
        series::asked(told, clock::now().saturating_duration_since(*sent));
        #[cfg(not(feature = "metrics"))]
        let _ = (told, sent);
        Poll::Ready((claim, answer))
    }
}
