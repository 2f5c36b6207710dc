//! Properties that are played anew where the machine took the time of a hold.

use std::panic::{AssertUnwindSafe, panic_any, resume_unwind};

use futures_util::FutureExt;

/// How often one property is played, the last of which fails.
const PLAYED_MAX: u32 = 3;

/// What a play ends with in which a hold ran out by its holder's own clock.
struct RanOut;

/// Ends this play, and fails the test only if it was the last; `what` would not have come to be had
/// the holder been in time.
pub(super) fn ran_out(what: &str) -> ! {
    eprintln!("{what}; the hold had run out by the clock of its holder");
    panic_any(RanOut)
}

/// Plays `property` until no hold ran out in it, a few times at most. Each play makes its subject anew.
///
/// # Panics
///
/// As `property`, and if a hold ran out in each play.
pub async fn played(property: impl AsyncFn()) {
    for _ in 1..PLAYED_MAX {
        match AssertUnwindSafe(property()).catch_unwind().await {
            Err(panic) if panic.is::<RanOut>() => {}
            Err(panic) => resume_unwind(panic),
            Ok(()) => return,
        }
    }
    property().await;
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test]
    async fn a_property_is_played_until_no_hold_ran_out_in_it() {
        let plays = Cell::new(0);
        played(async || {
            plays.set(plays.get() + 1);
            if plays.get() < PLAYED_MAX {
                ran_out("it was lost");
            }
        })
        .await;
        assert_eq!(plays.get(), PLAYED_MAX);
    }

    #[tokio::test]
    async fn what_no_machine_explains_fails_at_once() {
        for fails in [|| panic!("two holders"), || ran_out("it was lost")] {
            let plays = Cell::new(0);
            let play = played(async || {
                plays.set(plays.get() + 1);
                fails();
            });
            let panic = AssertUnwindSafe(play).catch_unwind().await.expect_err("it fails");
            assert_eq!(plays.get(), if panic.is::<RanOut>() { PLAYED_MAX } else { 1 });
        }
    }
}
