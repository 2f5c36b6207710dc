//! A waker of an application, for tests: it looks, while it runs, whether what it may need is free.

use std::sync::{Arc, Mutex};
use std::task::Wake;

pub(crate) struct Looks<F> {
    is_free: F,
    found: Mutex<Vec<bool>>,
}

impl<F: Fn() -> bool> Looks<F> {
    pub(crate) fn new(is_free: F) -> Arc<Self> {
        Arc::new(Self { is_free, found: Mutex::default() })
    }

    /// What it has found at each wake so far.
    pub(crate) fn found(&self) -> Vec<bool> {
        self.found.lock().unwrap().clone()
    }
}

impl<F: Fn() -> bool> Wake for Looks<F> {
    fn wake(self: Arc<Self>) {
        let is_free = (self.is_free)();
        self.found.lock().unwrap().push(is_free);
    }
}
