//! When the conductor sweeps the young keys up.
//!
//! A key is put on the register first, and then asks for a sweep. A sweep first takes the wish for
//! one away, and then goes through the register. So whoever is not found there finds the wish gone
//! and asks again: between them is the mutex of the register.

use std::sync::atomic::{AtomicU64, Ordering};

/// No time at all.
pub(in crate::engine) const NEVER: u64 = u64::MAX;

/// The place in which the time of a sweep is kept; the model of its threads has one of its own.
pub(in crate::engine) trait Time {
    fn load(&self) -> u64;
    fn swap(&self, at: u64) -> u64;
    fn min(&self, at: u64);
}

macro_rules! time {
    ($atomic:ty) => {
        impl Time for $atomic {
            fn load(&self) -> u64 {
                self.load(Ordering::Acquire)
            }

            fn swap(&self, at: u64) -> u64 {
                self.swap(at, Ordering::AcqRel)
            }

            fn min(&self, at: u64) {
                self.fetch_min(at, Ordering::AcqRel);
            }
        }
    };
}

time!(AtomicU64);

/// When the next sweep is due, for those who ask for one and the one who does it. Times are in
/// nanoseconds of the conductor.
#[derive(Debug)]
pub(in crate::engine) struct Sweep<T = AtomicU64>(T);

impl Sweep {
    pub(in crate::engine) const fn new() -> Self {
        Self(AtomicU64::new(NEVER))
    }
}

impl<T: Time> Sweep<T> {
    /// When the next is due; [`NEVER`] if none was asked for.
    pub(in crate::engine) fn at(&self) -> u64 {
        self.0.load()
    }

    /// Asks for one by then, for a key that is on the register. Whether the conductor is to be
    /// told.
    pub(in crate::engine) fn ask(&self, at: u64) -> bool {
        // Every key asks, and most find that another has: no more than a look.
        let is_new = at < self.0.load();
        if is_new {
            self.0.min(at);
        }
        is_new
    }

    /// If one is due, goes through the register.
    pub(in crate::engine) fn run<K>(&self, now: u64, young: impl FnOnce() -> K) -> Option<K> {
        if self.0.load() > now {
            return None;
        }
        // First: who is put on the register behind this asks for another.
        self.0.swap(NEVER);
        Some(young())
    }

    /// None is to come, if nothing is on the register; whether that is so. Whoever is put on it
    /// behind this tells the conductor.
    pub(in crate::engine) fn end(&self, is_empty: impl FnOnce() -> bool) -> bool {
        let asked = self.0.swap(NEVER);
        let ends = is_empty();
        if !ends {
            self.ask(asked);
        }
        ends
    }

    /// None is to come: the conductor is gone.
    pub(in crate::engine) fn forget(&self) {
        self.0.swap(NEVER);
    }
}

#[cfg(test)]
mod tests {
    use loom::sync::atomic::{AtomicU64, Ordering};
    use loom::sync::{Arc, Mutex};
    use loom::thread;

    use super::*;

    time!(AtomicU64);

    #[test]
    fn a_key_that_a_sweep_does_not_find_is_found_by_another() {
        loom::model(|| {
            // Another key has asked before, and is swept now.
            let sweep = Arc::new(Sweep(AtomicU64::new(1)));
            let register = Arc::new(Mutex::new(Vec::new()));
            let keys = [2, 3].map(|key| {
                let (sweep, register) = (sweep.clone(), register.clone());
                thread::spawn(move || {
                    register.lock().unwrap().push(key);
                    sweep.ask(key);
                })
            });
            sweep.run(1, || register.lock().unwrap().clear());
            keys.into_iter().for_each(|key| key.join().unwrap());
            let young = register.lock().unwrap();
            assert!(young.is_empty() || sweep.at() != NEVER, "{young:?} are left to nobody");
        });
    }

    #[test]
    fn a_conductor_that_ends_leaves_no_key_behind() {
        loom::model(|| {
            let sweep = Arc::new(Sweep(AtomicU64::new(NEVER)));
            let register = Arc::new(Mutex::new(Vec::new()));
            // As `Running::may_end`, under the mutex that who tells the conductor takes as well.
            let is_there = Arc::new(Mutex::new(true));
            let key = {
                let (sweep, register) = (sweep.clone(), register.clone());
                let is_there = is_there.clone();
                thread::spawn(move || {
                    register.lock().unwrap().push(());
                    if sweep.ask(2) {
                        *is_there.lock().unwrap() = true;
                    }
                })
            };
            let mut there = is_there.lock().unwrap();
            *there = !sweep.end(|| register.lock().unwrap().is_empty());
            drop(there);
            key.join().unwrap();
            assert!(*is_there.lock().unwrap() && sweep.at() == 2);
        });
    }
}
