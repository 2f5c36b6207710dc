//! The turn to poll a key's driver: one at a time, and nobody for nothing.
//!
//! Several may poll it: each task that waits for the key, and the conductor. Its requests wake the
//! baton. The first wake has somebody told. Whoever comes then takes the baton and polls, and polls
//! again if something came meanwhile. So no wake is lost, and no two poll at once.
//!
//! A task that was told may never come to run. The conductor then polls a young key when it sweeps
//! it up. From then on, whoever tells somebody also has the conductor look after a while: see
//! [`grows_up`](Baton::grows_up). Where the one who was told before has not come yet, the conductor
//! is told at once: see [`tells`](Baton::tells). A request may need several polls, and none but the
//! first is to wait for a task that stands still.

use std::sync::atomic::{AtomicU8, Ordering};

/// Somebody polls.
const POLLED: u8 = 1;
/// There is something to poll for.
const WOKEN: u8 = 2;

/// The bits of a baton; the model of its threads has some of its own.
pub(in crate::engine) trait Flags {
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

/// The conductor looks after the key.
const GROWN_UP: u8 = 1;
/// A caller was told, and none has come since.
const TOLD: u8 = 2;

/// The right to poll the driver of one key, and the note that there is something to poll for.
#[derive(Debug, Default)]
pub(in crate::engine) struct Baton<F = AtomicU8> {
    flags: F,
    /// Apart, as it is read by who has no other business with the flags.
    age: F,
}

impl<F: Flags> Baton<F> {
    /// There is something to poll for. Whether somebody has to be told: nobody polls, who would
    /// look again, and nobody was told before.
    pub(in crate::engine) fn wake(&self) -> bool {
        self.flags.or(WOKEN) == 0
    }

    /// Whether there is something to poll for, and nobody who does.
    pub(in crate::engine) fn lies(&self) -> bool {
        self.flags.load() == WOKEN
    }

    /// Takes it, if there is something to poll for and nobody who does.
    pub(in crate::engine) fn take(&self) -> bool {
        // Most who come by find nothing, and to try is not free.
        self.lies() && self.flags.change(WOKEN, POLLED)
    }

    /// The conductor looks after the key from now on. It polls behind this. So that poll serves
    /// what was told to others before, and whoever tells somebody later finds the key grown up.
    pub(in crate::engine) fn grows_up(&self) {
        let told = if self.lies() { TOLD } else { 0 };
        self.age.or(GROWN_UP | told);
    }

    pub(in crate::engine) fn is_grown_up(&self) -> bool {
        self.age.load() & GROWN_UP != 0
    }

    /// A caller is told, of a key that is grown up. Whether the one who was told before has not come
    /// yet.
    pub(in crate::engine) fn tells(&self) -> bool {
        self.age.or(TOLD) & TOLD != 0
    }

    /// A caller comes.
    pub(in crate::engine) fn comes(&self) {
        if self.age.load() & TOLD != 0 {
            // Callers are told of a key that is grown up alone, and it stays so.
            self.age.swap(GROWN_UP);
        }
    }

    /// Lays it down after a poll; `false` if something came meanwhile, and it is to be polled
    /// again.
    pub(in crate::engine) fn lay_down(&self) -> bool {
        let down = self.flags.change(POLLED, 0);
        if !down {
            // Not a mere store: what happened before the latest wake is to be seen by the poll.
            self.flags.swap(POLLED);
        }
        down
    }

    /// Lays it down after a poll, whatever came meanwhile: somebody else is told of that behind this.
    pub(in crate::engine) fn put_down(&self) {
        self.flags.swap(0);
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
        /// The news that the driver has seen; locked by whoever polls it.
        seen: Mutex<usize>,
        /// The conductor looks again after a while.
        watched: Mutex<bool>,
    }

    impl Key {
        fn new() -> Arc<Self> {
            let baton = Baton { flags: AtomicU8::new(0), age: AtomicU8::new(0) };
            let (happened, seen) = (AtomicUsize::new(0), Mutex::new(0));
            Arc::new(Self { baton, happened, seen, watched: Mutex::new(false) })
        }

        /// As `KeyCell::drive`.
        fn drive(&self) {
            if !self.baton.take() {
                return;
            }
            while !self.poll() {}
        }

        /// As a caller who polls no more than once, and leaves the rest to the conductor.
        fn drive_once(&self) {
            if self.baton.take() && !self.poll() {
                self.baton.put_down();
                *self.watched.lock().unwrap() = true;
            }
        }

        /// Whether nothing came meanwhile.
        fn poll(&self) -> bool {
            *self.seen.try_lock().expect("nobody else polls") =
                self.happened.load(Ordering::Relaxed);
            self.baton.lay_down()
        }

        /// Something happens, and whoever is told comes.
        fn happens(&self) {
            self.happened.fetch_add(1, Ordering::Relaxed);
            if self.baton.wake() {
                self.drive();
            }
        }
    }

    impl Key {
        /// Something happens, and whoever is told is blocked: `KeyCell::tell`.
        fn happens_to_the_blocked(&self) {
            self.happened.fetch_add(1, Ordering::Relaxed);
            if self.baton.wake() && self.baton.is_grown_up() {
                // Sooner or later: it looks in either case.
                self.baton.tells();
                *self.watched.lock().unwrap() = true;
            }
        }

        /// The conductor looks: `KeyCell::look`.
        fn look(&self) {
            self.baton.wake();
            self.drive();
        }

        /// As `Conductor::turn` does.
        fn sweep(&self) {
            self.baton.grows_up();
            self.look();
        }

        /// Until nothing is due.
        fn conduct(&self) {
            while std::mem::take(&mut *self.watched.lock().unwrap()) {
                self.look();
            }
        }
    }

    #[test]
    fn what_the_blocked_were_told_is_polled_for_by_the_sweep_or_behind_it() {
        loom::model(|| {
            let key = Key::new();
            let other = key.clone();
            let there = thread::spawn(move || {
                other.happens_to_the_blocked();
                other.happens_to_the_blocked();
            });
            key.sweep();
            there.join().unwrap();
            key.conduct();
            assert_eq!(*key.seen.lock().unwrap(), 2, "left to nobody");
        });
    }

    #[test]
    fn a_caller_and_the_sweep_do_not_poll_at_once() {
        loom::model(|| {
            let key = Key::new();
            key.happens_to_the_blocked();
            let other = key.clone();
            // It comes by, and again when it was told.
            let caller = thread::spawn(move || {
                other.baton.comes();
                other.drive();
                other.happens();
            });
            key.sweep();
            caller.join().unwrap();
            key.conduct();
            assert_eq!(*key.seen.lock().unwrap(), 2, "left to nobody");
        });
    }

    #[test]
    fn what_comes_while_one_polls_and_who_goes_is_left_to_the_conductor() {
        loom::model(|| {
            let key = Key::new();
            let other = key.clone();
            let there = thread::spawn(move || {
                other.happens();
                other.happened.fetch_add(1, Ordering::Relaxed);
                if other.baton.wake() {
                    other.drive_once();
                }
            });
            key.happened.fetch_add(1, Ordering::Relaxed);
            key.baton.wake();
            key.drive_once();
            there.join().unwrap();
            key.conduct();
            assert_eq!(*key.seen.lock().unwrap(), 3, "left to nobody");
        });
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
        // All orders of three threads take more than four minutes, these seven seconds.
        let mut model = loom::model::Builder::new();
        model.preemption_bound.get_or_insert(6);
        model.check(|| {
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
