//! The server's clock, as far as it is known.
//!
//! A statement that is given up may be on its way still, or wait in the socket of a server that
//! hangs, and the connection's end does not call it back. So one that takes a key says until when
//! it may, by the clock of the server: what arrives after it was given up takes nothing.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::backend::Fault;
use crate::ground::{clock, lock};
use crate::sql::fault::DatabaseError;

/// The time for which a look at the clock is good. Two clocks drift apart by less than [`DRIFT`].
const GOOD_FOR: Duration = Duration::from_secs(600);

/// One part in so many.
const DRIFT: u32 = 1_000;

/// The last answer that had the time in it.
#[derive(Debug, Default)]
pub(in crate::sql) struct ServerClock(Mutex<Option<Look>>);

#[derive(Debug, Clone, Copy)]
struct Look {
    at: Instant,
    time_ms: i64,
}

impl ServerClock {
    /// An answer has come, and this was the time at the server when it was made.
    pub(in crate::sql) fn saw(&self, time_ms: i64) {
        *lock(&self.0) = Some(Look { at: clock::now(), time_ms });
    }

    /// The time at the server at an instant, or a moment before. Where the last look is long ago,
    /// the server is asked; nothing else was sent then, and a fault is marked as that.
    pub(in crate::sql) async fn at_or_asked(
        &self,
        instant: Instant,
        ask: impl Future<Output = Result<i64, Fault>>,
    ) -> Result<i64, Fault> {
        if let Some(time) = self.at(instant) {
            return Ok(time);
        }
        self.saw(ask.await.map_err(Fault::unsent)?);
        self.at(instant).ok_or_else(|| {
            let what = "it says a time that no clock has".to_owned();
            Fault::from(DatabaseError::Other { what }).unsent()
        })
    }

    /// The time at the server at an instant, or a moment before; `None` where the last look is long
    /// ago. A clock that was set meanwhile is told by the next answer.
    fn at(&self, instant: Instant) -> Option<i64> {
        let look = (*lock(&self.0))?;
        let since = instant.saturating_duration_since(look.at);
        let is_good = clock::now().saturating_duration_since(look.at) < GOOD_FOR;
        let since = i64::try_from((since - since / DRIFT).as_millis()).ok()?;
        // The server's time is rounded.
        is_good.then(|| look.time_ms.saturating_add(since).saturating_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ground::Plus as _;

    #[tokio::test(start_paused = true)]
    async fn an_instant_is_a_moment_early_by_the_servers_clock() {
        let time = ServerClock::default();
        assert_eq!(time.at(clock::now()), None);
        time.saw(50_000);
        let begun = clock::now();
        assert_eq!(time.at(begun.plus(Duration::from_secs(2))), Some(51_997));
        tokio::time::advance(Duration::from_secs(599)).await;
        assert_eq!(time.at(begun.plus(Duration::from_secs(600))), Some(649_399));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(time.at(clock::now()), None, "it is long ago");
    }
}
