//! The view of one request for those who watch a service.

use lock_core::Key;
use tokio::time::Instant;
use tracing::field::Empty;
use tracing::{Level, Span, debug_span};

use crate::clock;

/// The wait of one request, all tries together.
///
/// Its span is never entered. Those of lock-core are children of the request's own span, as this
/// one is, so that the hold does not keep it open.
pub(crate) struct Wait {
    span: Span,
    since: Instant,
    over: bool,
}

impl Wait {
    pub(crate) fn begin(key: &Key) -> Self {
        let shown = tracing::enabled!(target: "lock_core::key", Level::TRACE);
        let span = debug_span!(
            target: "lock_tower",
            "lock.wait",
            lock.key = shown.then(|| tracing::field::display(key)),
            lock.outcome = Empty,
            lock.tries = Empty,
        );
        Self { span, since: clock::now(), over: false }
    }

    pub(crate) fn since(&self) -> Instant {
        self.since
    }

    pub(crate) fn granted(&mut self, tries: u32) {
        self.end("granted", Some(tries));
    }

    pub(crate) fn refused(&mut self, tries: u32) {
        self.end("refused", Some(tries));
    }

    /// It never came to wait: no time is measured.
    pub(crate) fn not_let_in(&mut self) {
        self.tell("refused", None);
    }

    fn end(&mut self, outcome: &'static str, tries: Option<u32>) {
        self.tell(outcome, tries);
        #[cfg(feature = "metrics")]
        crate::metrics::waited(outcome, clock::now().saturating_duration_since(self.since));
    }

    fn tell(&mut self, outcome: &'static str, tries: Option<u32>) {
        self.over = true;
        // A field is looked up by its name even if nobody listens.
        if !self.span.is_disabled() {
            self.span.record("lock.outcome", outcome);
            self.span.record("lock.tries", tries);
            self.span = Span::none();
        }
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        if !self.over {
            self.end("cancelled", None);
        }
    }
}
