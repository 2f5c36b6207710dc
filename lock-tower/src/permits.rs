//! Permits that are counted, of which there is a bounded number.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// How many are out.
#[derive(Debug, Default)]
pub(crate) struct Permits(AtomicUsize);

/// One of them, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Permit(Arc<Permits>);

impl Permits {
    /// Gives one out, if fewer than `most` are.
    pub(crate) fn take(self: &Arc<Self>, most: usize) -> Option<Permit> {
        // Nothing is read or written on the word of this number.
        let more = |out| (out < most).then_some(out + 1);
        self.0.fetch_update(Relaxed, Relaxed, more).ok()?;
        Some(Permit(Arc::clone(self)))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use super::*;

    #[test]
    fn of_many_that_come_at_once_as_many_get_a_permit_as_there_are() {
        let (permits, gate) = (Arc::new(Permits::default()), Barrier::new(8));
        for _ in 0..100 {
            let (permits, gate) = (&permits, &gate);
            let got: Vec<_> = thread::scope(|scope| {
                let come = || {
                    scope.spawn(move || {
                        gate.wait();
                        permits.take(3)
                    })
                };
                let all: Vec<_> = (0..8).map(|_| come()).collect();
                all.into_iter().filter_map(|one| one.join().unwrap()).collect()
            });
            assert_eq!(got.len(), 3);
            drop(got);
            assert_eq!(permits.0.load(Relaxed), 0);
        }
    }

    #[test]
    fn each_who_comes_has_a_bound_of_its_own() {
        let permits = Arc::new(Permits::default());
        let _two = [permits.take(2).unwrap(), permits.take(2).unwrap()];
        assert!(permits.take(2).is_none());
        assert!(permits.take(usize::MAX).is_some());
    }
}
