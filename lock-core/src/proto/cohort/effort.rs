//! How much was looked at: tests say that it grows no faster than what has changed.

#[cfg(test)]
thread_local! {
    static SPENT: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// One more lane, seat, holder or watcher is looked at.
#[inline]
pub(crate) fn spend() {
    #[cfg(test)]
    SPENT.set(SPENT.get() + 1);
}

/// So many were in this thread.
#[cfg(test)]
pub(crate) fn spent() -> u64 {
    SPENT.get()
}
