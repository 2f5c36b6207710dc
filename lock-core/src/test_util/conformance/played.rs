//! Properties that are played anew where the machine took the time of a hold.

use std::any::Any;
use std::panic::{AssertUnwindSafe, resume_unwind};

use futures_util::FutureExt;

/// How often one property is played, the last of which fails.
const PLAYED_MAX: u32 = 3;

/// The end of what a play says in which a hold ran out.
const RAN_OUT: &str = "the hold had run out by the clock of its holder";

/// Ends this play, and fails the test only if it was the last: a holder that had been in time would not
/// have seen `what`.
pub(super) fn ran_out(what: &str) -> ! {
    panic!("{what}; {RAN_OUT}")
}

fn is_of_time(panic: &(dyn Any + Send)) -> bool {
    panic.downcast_ref::<String>().is_some_and(|said| said.ends_with(RAN_OUT))
}

/// Plays `property` until no hold ran out in it, a few times at most. Each play has keys of its own.
///
/// # Panics
///
/// As `property`, and if a hold ran out in each play.
pub async fn played(property: impl AsyncFn()) {
    for _ in 1..PLAYED_MAX {
        match AssertUnwindSafe(property()).catch_unwind().await {
            Err(panic) if is_of_time(&*panic) => {}
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
        let cases: [(fn(), u32); 2] =
            [(|| panic!("two holders"), 1), (|| ran_out("it was lost"), PLAYED_MAX)];
        for (fails, times) in cases {
            let plays = Cell::new(0);
            let play = played(async || {
                plays.set(plays.get() + 1);
                fails();
            });
            AssertUnwindSafe(play).catch_unwind().await.expect_err("it fails");
            assert_eq!(plays.get(), times);
        }
    }
}
