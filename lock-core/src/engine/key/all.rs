//! Acts on all busy keys of a client, and words about them.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::Ordering;

use super::cell::Shared;
use crate::ground::{clock, foreign};
use crate::proto::{Counters, Effects};
use crate::view::BusyKey;

impl Shared {
    /// The counts so far, the busy keys, their waiters and their holders.
    pub(crate) fn counters(&self) -> (Counters, usize, usize, usize) {
        let (mut total, mut keys, mut waiters, mut held) = (Counters::default(), 0, 0, 0);
        self.conductor.registry.each_shard(|past, cells| {
            total.add(past);
            keys += cells.len();
            for cell in cells {
                let cohort = cell.cohort();
                total.add(cohort.counters());
                waiters += cohort.waiters();
                held += cohort.held_here();
            }
        });
        (total, keys, waiters, held)
    }

    /// The busy keys, in no order. All are measured at one instant, so that who holds longer is told
    /// so, whatever happens between two keys.
    pub(crate) fn busy(&self) -> Vec<BusyKey> {
        let cells = self.conductor.registry.cells();
        let now = clock::now();
        let (of_one, cells): (Vec<_>, Vec<_>) = cells.iter().partition(|cell| cell.is_of_one());
        let mut busy: Vec<_> = cells.iter().map(|cell| cell.busy(now)).collect();
        if of_one.is_empty() {
            return busy;
        }
        // Those who stand for one election have a cell each.
        let places = busy.iter().enumerate().map(|(at, busy)| (busy.key.clone(), at));
        let mut places: HashMap<_, _> = places.collect();
        for cell in of_one {
            match places.entry(cell.key().clone()) {
                Entry::Occupied(at) => busy[*at.get()].add(cell.busy(now)),
                Entry::Vacant(place) => {
                    place.insert(busy.len());
                    busy.push(cell.busy(now));
                }
            }
        }
        busy
    }

    /// Refuses new claims, and ends all waits.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        foreign::call(|| self.closing.notify_waiters());
        for cell in self.conductor.registry.cells() {
            let mut fx = Effects::none();
            cell.cohort().close(&mut fx);
            cell.settle(fx);
        }
    }

    /// Gives back what lingers, now and from now on.
    pub(crate) fn forsake(&self) {
        self.forsaken.store(true, Ordering::Release);
        for cell in self.conductor.registry.cells() {
            let mut fx = Effects::none();
            cell.cohort().forsake(&mut fx);
            cell.settle(fx);
        }
    }

    /// Ends all holds, and says how many there were.
    pub(crate) fn abandon(&self) -> usize {
        let mut abandoned = 0;
        for cell in self.conductor.registry.cells() {
            let mut fx = Effects::none();
            abandoned += cell.cohort().abandon(clock::now(), &mut fx);
            cell.settle(fx);
        }
        abandoned
    }
}
