//! Who polls a key's driver: one at a time, and nobody for nothing.
//!
//! Several may poll it: each task that waits for the key, and the conductor. What its requests wait
//! for wakes the baton. The first wake has somebody told; whoever comes then and takes the baton
//! polls, and polls again for what came meanwhile. So no wake is lost, and no two poll at once.

use std::sync::atomic::{AtomicU8, Ordering};

/// Somebody polls.
const POLLED: u8 = 1;
/// There is something to poll for.
const WOKEN: u8 = 2;

/// What the baton is made of; the model of its threads has one of its own.
pub(super) trait Flags {
    fn or(&self, flags: u8) -> u8;
    fn load(&self) -> u8;
    fn swap(&self, flags: u8);
    fn change(&self, from: u8, to: u8) -> bool;
}

macro_rules! flags {
    ($atomic:ty) => {
        impl Flags for $atomic {
            fn or(&self, flags: u8) -> u8 {
                self.fetch_or(flags, Ordering::AcqRel)
            }

            fn load(&self) -> u8 {
                self.load(Ordering::Acquire)
            }

            fn swap(&self, flags: u8) {
                self.swap(flags, Ordering::AcqRel);
            }

            fn change(&self, from: u8, to: u8) -> bool {
                self.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
            }
        }
    };
}

flags!(AtomicU8);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Baton<F = AtomicU8>(F);

impl<F: Flags> Baton<F> {
    /// There is something to poll for. Whether somebody has to be told: nobody polls, who would
    /// look again, and nobody was told before.
    pub(super) fn wake(&self) -> bool {
        self.0.or(WOKEN) == 0
    }

    /// Whether there is something to poll for, and nobody who does.
    pub(super) fn lies(&self) -> bool {
        self.0.load() == WOKEN
    }

    /// Takes it, if there is something to poll for and nobody who does.
    pub(super) fn take(&self) -> bool {
        // Most who come by find nothing, and to try is not free.
        self.lies() && self.0.change(WOKEN, POLLED)
    }

    /// Lays it down after a poll; `false` if something came meanwhile, and it is to be polled
    /// again.
    pub(super) fn lay_down(&self) -> bool {
        let down = self.0.change(POLLED, 0);
        if !down {
            // Not a mere store: what happened before the latest wake is to be seen by the poll.
            self.0.swap(POLLED);
        }
        down
    }
}

#[cfg(test)]
mod tests {
    use loom::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
    use loom::sync::{Arc, Mutex};
    use loom::thread;

    use super::*;

    flags!(AtomicU8);

    struct Key {
        baton: Baton<AtomicU8>,
        happened: AtomicUsize,
        /// What the driver has seen; locked by who polls it.
        seen: Mutex<usize>,
    }

    impl Key {
        fn new() -> Arc<Self> {
            let (baton, happened) = (Baton(AtomicU8::new(0)), AtomicUsize::new(0));
            Arc::new(Self { baton, happened, seen: Mutex::new(0) })
        }

        /// As `KeyCell::drive`.
        fn drive(&self) {
            if !self.baton.take() {
                return;
            }
            loop {
                *self.seen.try_lock().expect("nobody else polls") =
                    self.happened.load(Ordering::Relaxed);
                if self.baton.lay_down() {
                    return;
                }
            }
        }

        /// Something happens, and whoever is told comes.
        fn happens(&self) {
            self.happened.fetch_add(1, Ordering::Relaxed);
            if self.baton.wake() {
                self.drive();
            }
        }
    }

    #[test]
    fn whatever_happens_is_polled_for_by_one_at_a_time() {
        loom::model(|| {
            let key = Key::new();
            let other = key.clone();
            let there = thread::spawn(move || {
                other.happens();
                other.happens();
            });
            key.happens();
            // A waiter that comes by, and the look of the conductor.
            key.drive();
            there.join().unwrap();
            assert_eq!(*key.seen.lock().unwrap(), 3);
            assert!(!key.baton.lies());
        });
    }

    #[test]
    fn what_one_who_was_told_leaves_is_taken_up_by_the_next() {
        loom::model(|| {
            let key = Key::new();
            let other = key.clone();
            let there = thread::spawn(move || {
                other.happened.fetch_add(1, Ordering::Relaxed);
                // Told, and gone without a poll: `KeyCell::nudge`.
                if other.baton.wake() && other.baton.lies() {
                    other.drive();
                }
            });
            let third = key.clone();
            let beside = thread::spawn(move || third.happens());
            key.drive();
            there.join().unwrap();
            beside.join().unwrap();
            key.drive();
            assert_eq!(*key.seen.lock().unwrap(), 2);
        });
    }
}
