//! A server whose wall clock a test can move.

use super::server::RedisServer;
use crate::movable_clock::MovableClock;

/// For a server with [`RedisOptions::movable_clock`](super::RedisOptions::movable_clock).
impl RedisServer {
    /// Moves the server's clock by so many milliseconds from where it is now.
    ///
    /// # Panics
    ///
    /// If its clock is not movable, or the server does not read it.
    pub fn move_clock(&self, by_ms: i64) {
        let before_us = self.time_us();
        MovableClock::new(self.folder()).move_by(by_ms);
        let went_us = self.time_us() - before_us;
        // A busy machine may add 5 s between the two readings.
        let reads_it = (by_ms * 1_000..by_ms * 1_000 + 5_000_000).contains(&went_us);
        assert!(reads_it, "the clock was to be moved by {by_ms} ms, and went {went_us} us");
    }

    /// The time on the server's clock, in microseconds since 1970.
    ///
    /// # Panics
    ///
    /// If the server does not answer.
    #[must_use]
    pub fn time_us(&self) -> i64 {
        let (seconds, micros): (i64, i64) = self.command(&["TIME"]);
        seconds * 1_000_000 + micros
    }
}
