//! The bookkeeping of who is here. Pure: no clock, no lock.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;

use lock_core::idempotency::RecordId;

/// Above this capacity an empty map gives its memory back.
const CAPACITY_KEPT: usize = 1_024;

/// One scope may have this part of all bytes.
const SHARE_OF_A_SCOPE: usize = 4;

/// How many requests may be read or wait, and with how much.
#[derive(Debug, Clone, Copy)]
pub(in crate::idempotency) struct Bounds {
    pub(in crate::idempotency) waiters: usize,
    pub(in crate::idempotency) waiters_per_scope: usize,
    pub(in crate::idempotency) waiters_per_key: usize,
    pub(in crate::idempotency) first_requests: usize,
    pub(in crate::idempotency) first_requests_per_scope: usize,
    /// For first requests, and as much again for duplicates.
    pub(in crate::idempotency) bytes: usize,
    /// The longest body there is: one always fits.
    pub(in crate::idempotency) body_bytes_max: usize,
}

/// Why nobody more is let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::idempotency) enum Full {
    Total,
    PerScope,
    PerKey,
    Bytes,
}

/// The record and the scope that a request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Who {
    pub(super) record: RecordId,
    /// `None` where all share one.
    pub(super) scope: Option<RecordId>,
}

/// First requests and duplicates have places of their own, so that no first request is refused for
/// duplicates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Nobody else is here for its record.
    First,
    Duplicate,
}

/// The requests that are here: being read, waiting, or running.
#[derive(Debug, Default)]
pub(super) struct Book {
    records: HashMap<RecordId, Here>,
    scopes: HashMap<RecordId, Pools>,
    all: Pools,
}

/// The requests of one record.
#[derive(Debug, Default)]
struct Here {
    requests: usize,
    /// Those of them that are duplicates and do not run.
    waiters: usize,
}

/// The requests of one scope, or all, that do not run yet.
#[derive(Debug, Default)]
struct Pools {
    first: Pool,
    duplicates: Pool,
}

/// Those of one kind.
#[derive(Debug, Default)]
struct Pool {
    requests: usize,
    bytes: usize,
}

impl Pools {
    fn of(&mut self, kind: Kind) -> &mut Pool {
        match kind {
            Kind::First => &mut self.first,
            Kind::Duplicate => &mut self.duplicates,
        }
    }

    fn is_empty(&self) -> bool {
        self.first.requests == 0 && self.duplicates.requests == 0
    }
}

impl Bounds {
    fn requests(&self, kind: Kind) -> usize {
        match kind {
            Kind::First => self.first_requests,
            Kind::Duplicate => self.waiters,
        }
    }

    fn requests_per_scope(&self, kind: Kind) -> usize {
        match kind {
            Kind::First => self.first_requests_per_scope,
            Kind::Duplicate => self.waiters_per_scope,
        }
    }

    fn bytes(&self) -> usize {
        self.bytes.max(self.body_bytes_max)
    }

    fn bytes_per_scope(&self) -> usize {
        (self.bytes / SHARE_OF_A_SCOPE).max(self.body_bytes_max)
    }
}

impl Book {
    /// Lets a request in.
    pub(super) fn enter(&mut self, who: &Who, bounds: &Bounds) -> Result<Kind, Full> {
        let here = self.records.get(&who.record);
        let kind = if here.is_some() { Kind::Duplicate } else { Kind::First };
        if here.is_some_and(|here| here.waiters >= bounds.waiters_per_key) {
            return Err(Full::PerKey);
        }
        let of_scope = who.scope.and_then(|scope| self.scopes.get_mut(&scope));
        if of_scope.is_some_and(|pools| pools.of(kind).requests >= bounds.requests_per_scope(kind))
        {
            return Err(Full::PerScope);
        }
        if self.all.of(kind).requests >= bounds.requests(kind) {
            return Err(Full::Total);
        }
        let here = self.records.entry(who.record).or_default();
        here.requests += 1;
        here.waiters += usize::from(kind == Kind::Duplicate);
        self.each(who, |pools| pools.of(kind).requests += 1);
        Ok(kind)
    }

    /// So much more of a request's body is in memory.
    pub(super) fn hold(
        &mut self,
        who: &Who,
        kind: Kind,
        bytes: usize,
        bounds: &Bounds,
    ) -> Result<(), Full> {
        let fits = |pool: &Pool, most: usize| {
            pool.bytes.checked_add(bytes).is_some_and(|bytes| bytes <= most)
        };
        let of_scope = who.scope.and_then(|scope| self.scopes.get_mut(&scope));
        if of_scope.is_some_and(|pools| !fits(pools.of(kind), bounds.bytes_per_scope()))
            || !fits(self.all.of(kind), bounds.bytes())
        {
            return Err(Full::Bytes);
        }
        self.each(who, |pools| pools.of(kind).bytes += bytes);
        Ok(())
    }

    /// It is read and waits no longer, and its body is another's to hold: it runs, or goes.
    pub(super) fn begin(&mut self, who: &Who, kind: Kind, bytes: usize) {
        if let Some(here) = self.records.get_mut(&who.record) {
            here.waiters -= usize::from(kind == Kind::Duplicate);
        }
        self.each(who, |pools| {
            let pool = pools.of(kind);
            pool.requests -= 1;
            pool.bytes -= bytes;
        });
        if let Some(scope) = who.scope {
            remove_if(&mut self.scopes, scope, |pools| pools.is_empty());
        }
    }

    /// It is gone.
    pub(super) fn leave(&mut self, who: &Who) {
        remove_if(&mut self.records, who.record, |here| {
            here.requests -= 1;
            here.requests == 0
        });
    }

    fn each(&mut self, who: &Who, mut change: impl FnMut(&mut Pools)) {
        if let Some(scope) = who.scope {
            change(self.scopes.entry(scope).or_default());
        }
        change(&mut self.all);
    }
}

fn remove_if<K: Eq + Hash, V>(map: &mut HashMap<K, V>, key: K, gone: impl FnOnce(&mut V) -> bool) {
    if let Entry::Occupied(mut entry) = map.entry(key)
        && gone(entry.get_mut())
    {
        entry.remove();
    }
    if map.is_empty() && map.capacity() > CAPACITY_KEPT {
        map.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn id(n: u8) -> RecordId {
        RecordId::from_bytes([n; 32])
    }

    fn who(scope: u8, record: u8) -> Who {
        Who { record: id(scope * 16 + record), scope: Some(id(scope)) }
    }

    const WIDE: Bounds = Bounds {
        waiters: 100,
        waiters_per_scope: 100,
        waiters_per_key: 100,
        first_requests: 100,
        first_requests_per_scope: 100,
        bytes: 1_000,
        body_bytes_max: 1,
    };

    fn empty(book: &Book) -> bool {
        let Pools { first, duplicates } = &book.all;
        let counts = [first.requests, first.bytes, duplicates.requests, duplicates.bytes];
        counts == [0; 4] && book.records.is_empty() && book.scopes.is_empty()
    }

    #[test]
    fn each_bound_refuses_the_one_too_many_and_says_which_it_is() {
        let mut book = Book::default();
        let bounds = Bounds { waiters_per_key: 1, waiters_per_scope: 2, waiters: 3, ..WIDE };
        assert_eq!(book.enter(&who(1, 1), &bounds), Ok(Kind::First));
        assert_eq!(book.enter(&who(1, 1), &bounds), Ok(Kind::Duplicate));
        assert_eq!(book.enter(&who(1, 1), &bounds), Err(Full::PerKey));
        for record in [2, 3] {
            book.enter(&who(1, record), &bounds).unwrap();
        }
        assert_eq!(book.enter(&who(1, 2), &bounds), Ok(Kind::Duplicate));
        assert_eq!(book.enter(&who(1, 3), &bounds), Err(Full::PerScope));
        for record in [1, 2] {
            book.enter(&who(2, record), &bounds).unwrap();
        }
        assert_eq!(book.enter(&who(2, 1), &bounds), Ok(Kind::Duplicate));
        assert_eq!(book.enter(&who(2, 2), &bounds), Err(Full::Total));
        // However full it is of duplicates.
        assert_eq!(book.enter(&who(2, 3), &bounds), Ok(Kind::First));
    }

    #[test]
    fn first_requests_have_bounds_of_their_own() {
        let mut book = Book::default();
        let bounds = Bounds { first_requests_per_scope: 1, first_requests: 2, ..WIDE };
        book.enter(&who(1, 1), &bounds).unwrap();
        assert_eq!(book.enter(&who(1, 2), &bounds), Err(Full::PerScope));
        book.enter(&who(2, 1), &bounds).unwrap();
        assert_eq!(book.enter(&who(3, 1), &bounds), Err(Full::Total));
        // One that runs has no place among them, and its record is known.
        book.begin(&who(1, 1), Kind::First, 0);
        assert_eq!(book.enter(&who(1, 1), &bounds), Ok(Kind::Duplicate));
        assert_eq!(book.enter(&who(1, 2), &bounds), Ok(Kind::First));
    }

    #[test]
    fn a_scope_has_a_quarter_of_the_bytes_and_one_body_always_fits() {
        let mut book = Book::default();
        let hold = |book: &mut Book, who: &Who, bytes| book.hold(who, Kind::First, bytes, &WIDE);
        assert_eq!(hold(&mut book, &who(1, 1), 250), Ok(()));
        assert_eq!(hold(&mut book, &who(1, 2), 1), Err(Full::Bytes));
        let shared = Who { scope: None, ..who(4, 1) };
        assert_eq!(hold(&mut book, &shared, 750), Ok(()), "of a scope that all share");
        assert_eq!(hold(&mut book, &who(2, 1), 1), Err(Full::Bytes));
        assert_eq!(book.hold(&who(2, 1), Kind::Duplicate, 250, &WIDE), Ok(()));
        let small = Bounds { bytes: 1, body_bytes_max: 10, ..WIDE };
        assert_eq!(Book::default().hold(&who(1, 1), Kind::First, 10, &small), Ok(()));
    }

    #[test]
    fn maps_that_were_large_give_their_memory_back() {
        let mut book = Book::default();
        let bounds = Bounds { first_requests: 9_999, ..WIDE };
        let all: Vec<_> = (0..5_000_u16)
            .map(|n| {
                let mut bytes = [0; 32];
                bytes[..2].copy_from_slice(&n.to_be_bytes());
                let id = RecordId::from_bytes(bytes);
                Who { record: id, scope: Some(id) }
            })
            .collect();
        for who in &all {
            book.enter(who, &bounds).unwrap();
        }
        for who in &all {
            book.begin(who, Kind::First, 0);
            book.leave(who);
        }
        assert!(empty(&book));
        assert!(book.records.capacity() <= CAPACITY_KEPT);
        assert!(book.scopes.capacity() <= CAPACITY_KEPT);
    }

    /// An event for the n-th of those who are here.
    #[derive(Debug, Clone)]
    enum Step {
        Enter { scope: u8, record: u8 },
        Hold { nth: usize, bytes: usize },
        Begin { nth: usize },
        Leave { nth: usize },
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0..3_u8, 0..3_u8).prop_map(|(scope, record)| Step::Enter { scope, record }),
            (0..20_usize, 0..40_usize).prop_map(|(nth, bytes)| Step::Hold { nth, bytes }),
            (0..20_usize).prop_map(|nth| Step::Begin { nth }),
            (0..20_usize).prop_map(|nth| Step::Leave { nth }),
        ]
    }

    struct Guest {
        who: Who,
        kind: Kind,
        bytes: usize,
        runs: bool,
    }

    fn go(book: &mut Book, guest: &mut Guest) {
        if !guest.runs {
            book.begin(&guest.who, guest.kind, guest.bytes);
            guest.runs = true;
        }
    }

    proptest! {
        #[test]
        fn no_bound_is_exceeded_and_all_counts_return_to_zero(
            steps in prop::collection::vec(step(), 0..80),
        ) {
            let bounds = Bounds {
                waiters: 6, waiters_per_scope: 4, waiters_per_key: 2,
                first_requests: 4, first_requests_per_scope: 2, bytes: 100, body_bytes_max: 30,
            };
            let (mut book, mut guests) = (Book::default(), Vec::<Guest>::new());
            for step in steps {
                let here = guests.len();
                match step {
                    Step::Enter { scope, record } => {
                        // The first scope is one that all share.
                        let mut who = who(scope, record);
                        who.scope = who.scope.filter(|_| scope > 0);
                        let first = guests.iter().all(|guest| guest.who.record != who.record);
                        let firsts = |same: bool| guests.iter().filter(|guest| {
                            guest.kind == Kind::First && !guest.runs
                                && (!same || guest.who.scope == who.scope)
                        }).count();
                        let room = firsts(false) < 4 && (scope == 0 || firsts(true) < 2);
                        let entered = book.enter(&who, &bounds);
                        if first {
                            prop_assert_eq!(entered.is_ok(), room, "duplicates do not count");
                        }
                        if let Ok(kind) = entered {
                            prop_assert_eq!(kind == Kind::First, first);
                            guests.push(Guest { who, kind, bytes: 0, runs: false });
                        }
                    }
                    Step::Hold { nth, bytes } if nth < here && !guests[nth].runs => {
                        let guest = &mut guests[nth];
                        if book.hold(&guest.who, guest.kind, bytes, &bounds).is_ok() {
                            guest.bytes += bytes;
                        }
                    }
                    Step::Begin { nth } if nth < here => go(&mut book, &mut guests[nth]),
                    Step::Leave { nth } if nth < here => {
                        let mut guest = guests.swap_remove(nth);
                        go(&mut book, &mut guest);
                        book.leave(&guest.who);
                    }
                    _ => {}
                }
                prop_assert!(book.all.duplicates.requests <= 6 && book.all.first.requests <= 4);
                for kind in [Kind::First, Kind::Duplicate] {
                    prop_assert!(book.all.of(kind).bytes <= 100);
                    for pools in book.scopes.values_mut() {
                        prop_assert!(pools.of(kind).bytes <= 30);
                    }
                }
            }
            for mut guest in guests {
                go(&mut book, &mut guest);
                book.leave(&guest.who);
            }
            prop_assert!(empty(&book), "{book:?}");
        }
    }
}
