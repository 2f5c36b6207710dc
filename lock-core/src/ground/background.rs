//! The hands that the running code is in.

use std::cell::Cell;

/// The one who polls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hands {
    /// Anybody: nobody else may come and poll again.
    Any,
    /// A caller who polls a key that the conductor looks at soon.
    Caller,
    /// The conductor, on its own thread and runtime.
    Conductor,
}

thread_local! {
    static HANDS: Cell<Hands> = const { Cell::new(Hands::Any) };
}

/// Until this is dropped.
#[derive(Debug)]
pub(crate) struct Here(Hands);

/// From here on, what this thread polls is polled by the conductor.
pub(crate) fn enter() -> Here {
    Here(HANDS.replace(Hands::Conductor))
}

/// From here on, what this thread polls is polled again by the conductor if it waits for long.
pub(crate) fn enter_caller() -> Here {
    let outer = HANDS.get();
    if outer == Hands::Any {
        HANDS.set(Hands::Caller);
    }
    Here(outer)
}

/// Whether this is polled by the conductor, on its own thread and runtime.
pub(crate) fn is_here() -> bool {
    HANDS.get() == Hands::Conductor
}

/// Whether the conductor polls this again soon, if it waits.
pub(crate) fn comes_soon() -> bool {
    HANDS.get() == Hands::Caller
}

impl Drop for Here {
    fn drop(&mut self) {
        HANDS.set(self.0);
    }
}
