//! Whether the running code is the conductor's.

use std::cell::Cell;

thread_local! {
    static HERE: Cell<bool> = const { Cell::new(false) };
}

/// Ends where the conductor ends.
#[derive(Debug)]
pub(crate) struct Here(());

/// From here on, what this thread polls is polled by the conductor.
pub(crate) fn enter() -> Here {
    HERE.set(true);
    Here(())
}

/// Whether this is polled by the conductor, on its own thread and runtime.
pub(crate) fn is_here() -> bool {
    HERE.get()
}

impl Drop for Here {
    fn drop(&mut self) {
        HERE.set(false);
    }
}
