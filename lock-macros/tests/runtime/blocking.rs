//! `#[distributed_lock]` on a plain function.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lock_core::blocking::wait;
use lock_core::{AcquireError, LockClient, distributed_lock};

struct Report {
    locks: LockClient,
    inside: AtomicU32,
    most: AtomicU32,
}

impl Report {
    #[distributed_lock(key = "report:{of}", client = self.locks, wait = "1m", guard = lock, blocking)]
    fn write(&self, of: &str) -> Result<u64, AcquireError> {
        let inside = self.inside.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(inside, Ordering::SeqCst);
        std::thread::yield_now();
        let again = self.read(of)?;
        assert_eq!(again, lock.token().get(), "called under it");
        self.inside.fetch_sub(1, Ordering::SeqCst);
        if of.is_empty() {
            return Ok(0);
        }
        Ok(again)
    }

    #[distributed_lock(key = "report:{of}", client = self.locks, guard = lock, blocking)]
    fn read(&self, of: &str) -> Result<u64, AcquireError> {
        Ok(lock.token().get())
    }
}

fn report() -> Report {
    let locks = wait(LockClient::connect("memory:")).expect("a store in this process");
    Report { locks, inside: AtomicU32::new(0), most: AtomicU32::new(0) }
}

#[test]
fn bodies_of_threads_never_overlap_and_call_each_other_under_one_lock() {
    let report = report();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..20 {
                    report.write("sales").expect("its turn");
                }
            });
        }
    });
    assert_eq!(report.most.load(Ordering::SeqCst), 1);
    while report.locks.stats().held > 0 {
        std::thread::yield_now();
    }
}

const BUSY: Option<u8> = None;

#[distributed_lock(key = "k", client = locks, wait = Duration::ZERO, on_busy = BUSY, blocking)]
fn try_it(locks: &LockClient) -> Option<u8> {
    Some(7)
}

#[test]
fn a_plain_function_answers_for_a_lock_that_it_has_not() {
    let locks = report().locks;
    let held = wait(locks.lock("k").acquire()).expect("a free key");
    assert_eq!(try_it(&locks), None);
    wait(held.release()).expect("a release");
    assert_eq!(try_it(&locks), Some(7));
}

#[distributed_lock(key = "lost", client = locks, hold = "1ms", blocking)]
fn longer_than_its_limit(locks: &LockClient) -> Result<(), AcquireError> {
    std::thread::sleep(Duration::from_millis(20));
    Ok(())
}

#[test]
fn a_plain_body_that_lost_its_lock_ends_and_fails() {
    assert!(longer_than_its_limit(&report().locks).unwrap_err().is_lost());
}
