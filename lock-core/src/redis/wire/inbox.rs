//! Pushes, by claim.

#[cfg(test)]
use std::future::poll_fn;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use hashbrown::HashTable;
use redis::{PushInfo, PushKind, Value};

use crate::backend::{Change, ClaimId};
use crate::redis::protocol::names;
use crate::token::TokenBlock;

/// The pushes to one claim that it has not looked at yet. Every held key has an inbox.
#[derive(Debug)]
pub(in crate::redis) struct Inbox {
    /// The claim, in halves: whole, it would be aligned as 16 bytes are.
    claim: [u64; 2],
    events: Mutex<Events>,
}

/// A hand-off as it was pushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::redis) struct Handed {
    pub(in crate::redis) tokens: TokenBlock,
    /// The number of a permit, or 0.
    pub(in crate::redis) slot: u32,
    pub(in crate::redis) wanted: bool,
    /// The term in which it was pushed: once that is over, it does not count.
    pub(in crate::redis) term: u64,
}

#[derive(Debug, Default)]
struct Events {
    /// The hand-off is on the heap, as a claim that is held has none.
    handed: Option<Box<Handed>>,
    wanted: bool,
    /// Somebody who does not wait was refused the key.
    tried: bool,
    /// The store is to be asked, whatever is known of it.
    ask: Option<Why>,
    /// There is another server since the store answered last.
    moved: bool,
    /// The claim, while it listens.
    waker: Option<Waker>,
}

/// The reasons why the store is to be asked, the graver one behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Why {
    /// It said so.
    Told,
    /// It is back, and may have lost its data meanwhile.
    Back,
    /// Another server has taken its place.
    Elsewhere,
}

impl Why {
    fn change(self) -> Change {
        match self {
            Self::Told => Change::Here,
            Self::Back | Self::Elsewhere => Change::Elsewhere,
        }
    }
}

impl Events {
    /// Keeps the hand-off of the later term, and of one term that with the greater tokens: pushes of
    /// two connections may cross.
    fn hand(&mut self, handed: Handed) {
        let order = |it: Handed| (it.term, it.tokens.first());
        if self.handed.as_ref().is_none_or(|old| order(**old) < order(handed)) {
            self.handed = Some(Box::new(handed));
        }
    }

    /// The reason why the store is to be asked. Another server outweighs all that this one pushes.
    fn change(&self, holding: bool) -> Option<Change> {
        let pushed = if holding { self.wanted } else { self.handed.is_some() };
        self.ask.map(Why::change).or(pushed.then_some(Change::Here))
    }
}

impl Inbox {
    fn new(claim: ClaimId) -> Self {
        Self { claim: halves(claim), events: Mutex::default() }
    }

    fn hash(&self) -> u64 {
        self.claim[0]
    }

    fn events(&self) -> MutexGuard<'_, Events> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there is another server, which has answered no renewal yet.
    pub(in crate::redis) fn is_elsewhere(&self) -> bool {
        let events = self.events();
        events.moved || events.ask == Some(Why::Elsewhere)
    }

    /// The store has answered the renewal before which the claim forgot what it was told.
    pub(in crate::redis) fn answered(&self) {
        self.events().moved = false;
    }

    /// Whether a hand-off was pushed, and not taken yet.
    pub(in crate::redis) fn is_handed(&self) -> bool {
        self.events().handed.is_some()
    }

    /// Takes the hand-off that was pushed. The store is asked if there is none.
    pub(in crate::redis) fn handed(&self) -> Option<Handed> {
        let mut events = self.events();
        events.ask = None;
        events.handed.take().map(|handed| *handed)
    }

    /// Whether it was told that others want the key, and forgot it not yet.
    pub(in crate::redis) fn is_wanted(&self) -> bool {
        self.events().wanted
    }

    /// Forgets that others want the key, if that was told: the store is about to be asked.
    pub(in crate::redis) fn clear_wanted(&self) -> bool {
        let mut events = self.events();
        events.moved |= events.ask.take() == Some(Why::Elsewhere);
        std::mem::take(&mut events.wanted)
    }

    /// Puts something in; who is returned is to be woken, so that the claim looks.
    #[must_use]
    fn put(&self, what: impl FnOnce(&mut Events)) -> Option<Waker> {
        let mut events = self.events();
        what(&mut events);
        events.waker.take()
    }

    /// Has the claim ask, whatever was pushed to it.
    #[must_use]
    fn stir(&self, why: Why) -> Option<Waker> {
        self.put(|events| {
            (events.handed, events.wanted, events.ask) = (None, false, events.ask.max(Some(why)));
        })
    }

    /// Has the claim ask.
    #[must_use]
    fn tell(&self) -> Option<Waker> {
        self.put(|events| {
            events.ask.get_or_insert(Why::Told);
        })
    }

    /// Resolves when there is something that `holding` claims or waiting ones care for. One may
    /// listen: the last to poll is woken.
    pub(in crate::redis) fn poll_changed(&self, holding: bool, cx: &Context<'_>) -> Poll<Change> {
        let mut events = self.events();
        if let Some(change) = events.change(holding) {
            return Poll::Ready(change);
        }
        if holding && std::mem::take(&mut events.tried) {
            return Poll::Ready(Change::Tried);
        }
        match &mut events.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
    }

    /// Resolves when there is.
    #[cfg(test)]
    pub(in crate::redis) async fn changed(&self, holding: bool) -> Change {
        poll_fn(|cx| self.poll_changed(holding, cx)).await
    }
}

/// The inboxes of a session. A claim's id is random, and its own hash.
#[derive(Debug, Default)]
pub(in crate::redis) struct Inboxes {
    claims: Mutex<HashTable<Arc<Inbox>>>,
    /// The claims that were renewed, by the hash of their key, and each by its own: the server tells
    /// when others write the key.
    renewed: Mutex<HashTable<[u64; 2]>>,
    keys: RandomState,
}

/// The hash of a claim, and the rest of it.
fn halves(claim: ClaimId) -> [u64; 2] {
    [claim.bits() as u64, (claim.bits() >> 64) as u64]
}

impl Inboxes {
    fn claims(&self) -> MutexGuard<'_, HashTable<Arc<Inbox>>> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(in crate::redis) fn open(&self, claim: ClaimId) -> Arc<Inbox> {
        let mut claims = self.claims();
        let it = halves(claim);
        let entry = claims.entry(it[0], |inbox| inbox.claim == it, |inbox| inbox.hash());
        entry.or_insert_with(|| Arc::new(Inbox::new(claim))).get().clone()
    }

    pub(in crate::redis) fn close(&self, claim: ClaimId) {
        let mut claims = self.claims();
        let it = halves(claim);
        if let Ok(found) = claims.find_entry(it[0], |inbox| inbox.claim == it) {
            found.remove();
        }
        if claims.is_empty() {
            claims.shrink_to(64, |inbox| inbox.hash());
        }
    }

    fn get(&self, claim: ClaimId) -> Option<Arc<Inbox>> {
        let it = halves(claim);
        self.claims().find(it[0], |inbox| inbox.claim == it).cloned()
    }

    /// This claim on this key was renewed, and so its key read.
    pub(in crate::redis) fn renewed(&self, key: &[u8], claim: ClaimId) {
        let hash = self.keys.hash_one(key);
        self.by_key().insert_unique(hash, [hash, halves(claim)[0]], |[hash, _]| *hash);
    }

    /// The number of claims that are renewed.
    pub(in crate::redis) fn renewed_here(&self) -> usize {
        self.by_key().len()
    }

    /// It is renewed no more.
    pub(in crate::redis) fn given_up(&self, key: &[u8], claim: ClaimId) {
        let hash = self.keys.hash_one(key);
        let mut renewed = self.by_key();
        if let Ok(found) = renewed.find_entry(hash, |[_, it]| *it == halves(claim)[0]) {
            found.remove();
        }
        if renewed.is_empty() {
            renewed.shrink_to(64, |[hash, _]| *hash);
        }
    }

    fn by_key(&self) -> MutexGuard<'_, HashTable<[u64; 2]>> {
        self.renewed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the claims on these keys ask: they were deleted, overwritten, or came to their end.
    pub(in crate::redis) fn written_by_others(&self, push: &PushInfo) {
        let Some(Value::Array(names)) = push.data.first() else {
            // All keys were flushed.
            let all = self.by_key().iter().map(|[_, claim]| *claim).collect();
            return self.ask(all);
        };
        for name in names {
            let Value::BulkString(name) = name else { continue };
            let Some(key) = names::key_of_lock(name) else { continue };
            let hash = self.keys.hash_one(key);
            let renewed = self.by_key();
            let found = renewed.iter_hash(hash).filter(|[other, _]| *other == hash);
            let claims = found.map(|[_, claim]| *claim).collect();
            drop(renewed);
            self.ask(claims);
        }
    }

    /// Has those of these hashes ask. Another of the same would ask once more than it needs to.
    fn ask(&self, claims: Vec<u64>) {
        for hash in claims {
            let inbox = self.claims().find(hash, |inbox| inbox.hash() == hash).cloned();
            wake(inbox.and_then(|inbox| inbox.tell()));
        }
    }

    /// Has all claims ask: the server is back, and may be without its data.
    pub(in crate::redis) fn is_back(&self) {
        self.stir_all(Why::Back);
    }

    /// Has all claims ask: there is another server, which may know nothing of their places. What
    /// the last one pushed is of the past.
    pub(in crate::redis) fn stir(&self) {
        self.stir_all(Why::Elsewhere);
    }

    fn stir_all(&self, why: Why) {
        let told: Vec<_> = self.claims().iter().filter_map(|inbox| inbox.stir(why)).collect();
        wake(told);
    }

    /// The same for some of them.
    pub(in crate::redis) fn stir_these(&self, claims: &[ClaimId]) {
        self.stir_some(claims, Why::Elsewhere);
    }

    /// The same as [`is_back`](Self::is_back), for some of them.
    pub(in crate::redis) fn are_to_ask(&self, claims: &[ClaimId]) {
        self.stir_some(claims, Why::Back);
    }

    /// Has some of them ask: it was said that their answer may be another.
    pub(in crate::redis) fn told(&self, claims: &[ClaimId]) {
        self.stir_some(claims, Why::Told);
    }

    fn stir_some(&self, claims: &[ClaimId], why: Why) {
        for claim in claims {
            let Some(inbox) = self.get(*claim) else { continue };
            wake(inbox.stir(why));
        }
    }

    /// Delivers a push to one claim that came in a term.
    pub(in crate::redis) fn deliver_in(&self, term: u64, push: &PushInfo) {
        wake(self.put_in(term, push));
    }

    /// The same as [`deliver_in`](Self::deliver_in), where a mutex is held: who is returned is to
    /// be woken without it. Servers without terms are in term 0.
    #[must_use]
    pub(in crate::redis) fn put_in(&self, term: u64, push: &PushInfo) -> Option<Waker> {
        if !matches!(push.kind, PushKind::Message | PushKind::SMessage) {
            return None;
        }
        let [_, Value::BulkString(message)] = &push.data[..] else { return None };
        let (claim, what) = parse(message)?;
        // The push may be of a claim that is gone already: the store finds out by the lease.
        let inbox = self.get(claim)?;
        match what {
            What::Handed(handed) => inbox.put(|events| events.hand(Handed { term, ..handed })),
            What::Wanted => inbox.put(|events| events.wanted = true),
            What::Ask => inbox.tell(),
            What::Tried => inbox.put(|events| events.tried = true),
        }
    }
}

/// Wakes them. A waker may do anything, so no mutex of ours is held here.
fn wake(told: impl IntoIterator<Item = Waker>) {
    told.into_iter().for_each(Waker::wake);
}

#[derive(Debug, PartialEq, Eq)]
enum What {
    Handed(Handed),
    Wanted,
    /// Its turn may have come: the store is to be asked.
    Ask,
    /// Somebody who does not wait was refused the key.
    Tried,
}

/// `g <owner> <first> <last> <wanted>`, with a number behind it for one that holds the key with
/// others, `w <owner>`, `t <owner>`, or `a <owner>`.
fn parse(message: &[u8]) -> Option<(ClaimId, What)> {
    let mut words = std::str::from_utf8(message).ok()?.split(' ');
    let verb = words.next()?;
    let claim = names::claim_of(words.next()?.as_bytes())?;
    let what = match verb {
        "g" => {
            let tokens = TokenBlock::new(words.next()?.parse().ok()?, words.next()?.parse().ok()?);
            let wanted = words.next()? == "1";
            let slot = words.next().map_or(Some(0), |slot| slot.parse().ok())?;
            What::Handed(Handed { tokens, slot, wanted, term: 0 })
        }
        "w" => What::Wanted,
        "a" => What::Ask,
        "t" => What::Tried,
        _ => return None,
    };
    Some((claim, what))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ground::looks::Looks;

    /// A waker may drop a guard or a claim of the same client, which takes these mutexes.
    #[test]
    fn whoever_is_woken_finds_no_mutex_held() {
        let inboxes = Arc::new(Inboxes::default());
        let claim = ClaimId::from_bits(5);
        let inbox = inboxes.open(claim);
        inboxes.renewed(b"k", claim);
        let theirs = Arc::downgrade(&inboxes);
        let looks = Looks::new(move || {
            let inboxes = theirs.upgrade().unwrap();
            inboxes.claims.try_lock().is_ok() && inboxes.renewed.try_lock().is_ok()
        });
        let waker = Waker::from(looks.clone());
        let flushed = PushInfo { kind: PushKind::Invalidate, data: vec![Value::Nil] };
        let told: [&dyn Fn(); 3] = [&|| inboxes.stir(), &|| inboxes.stir_these(&[claim]), &|| {
            inboxes.written_by_others(&flushed)
        }];
        for tell in told {
            assert!(inbox.poll_changed(true, &Context::from_waker(&waker)).is_pending());
            tell();
            assert_eq!(inbox.handed(), None);
        }
        assert_eq!(looks.found(), [true; 3]);
    }

    #[test]
    fn a_push_of_a_term_that_is_over_neither_counts_nor_hides_one_of_the_next() {
        let inboxes = Inboxes::default();
        let claim = ClaimId::from_bits(5);
        let inbox = inboxes.open(claim);
        let push = |first: u64| {
            let message = format!(
                "g {} {first} {first} 1",
                names::Owner { claim, session: "ab", of_quorum: false }
            );
            let data = ["lock:push:ab", &message].map(|part| Value::BulkString(part.into()));
            PushInfo { kind: PushKind::Message, data: data.to_vec() }
        };
        // The connection to the last master was overtaken between its look at the term and this.
        inboxes.stir();
        inboxes.deliver_in(1, &push(9));
        assert_eq!(inbox.handed().map(|handed| handed.term), Some(1));
        for order in [[(1, 9), (2, 5)], [(2, 5), (1, 9)]] {
            order.iter().for_each(|(term, first)| inboxes.deliver_in(*term, &push(*first)));
            let handed = inbox.handed().unwrap();
            assert_eq!((handed.term, handed.tokens.first()), (2, Some(5)));
        }
    }

    #[tokio::test]
    async fn a_stirred_claim_asks_once_and_forgets_what_was_pushed() {
        let inboxes = Inboxes::default();
        let claim = ClaimId::from_bits(5);
        let inbox = inboxes.open(claim);
        let message =
            format!("g {} 7 9 1", names::Owner { claim, session: "ab", of_quorum: false });
        let data = ["lock:push:ab", &message].map(|part| Value::BulkString(part.into())).to_vec();
        inboxes.deliver_in(0, &PushInfo { kind: PushKind::Message, data });
        inboxes.stir();
        for holding in [true, false] {
            assert_eq!(inbox.changed(holding).await, Change::Elsewhere);
            assert!(inbox.is_elsewhere());
        }
        assert_eq!(inbox.handed(), None);
        let left = [true, false].map(|holding| inbox.events().change(holding));
        assert!(left == [None, None] && !inbox.is_elsewhere());
    }

    #[tokio::test]
    async fn a_server_that_says_that_it_is_to_be_asked_is_no_other_one() {
        let inboxes = Inboxes::default();
        let claim = ClaimId::from_bits(5);
        let inbox = inboxes.open(claim);
        let message = format!("a {}", names::Owner { claim, session: "ab", of_quorum: false });
        let data = ["lock:push:ab", &message].map(|part| Value::BulkString(part.into())).to_vec();
        let push = PushInfo { kind: PushKind::Message, data };
        inboxes.deliver_in(0, &push);
        assert_eq!(inbox.changed(false).await, Change::Here);
        inboxes.stir();
        inboxes.deliver_in(0, &push);
        assert_eq!(inbox.changed(false).await, Change::Elsewhere);
    }

    #[test]
    fn messages_are_read_and_others_passed_over() {
        let claim = ClaimId::from_bits(5);
        let owner = names::Owner { claim, session: "ab", of_quorum: false };
        let handed = Handed { tokens: TokenBlock::new(7, 9), slot: 0, wanted: true, term: 0 };
        let message = format!("g {owner} 7 9 1");
        assert_eq!(parse(message.as_bytes()), Some((claim, What::Handed(handed))));
        let handed = Handed { slot: 4, ..handed };
        let message = format!("{message} 4");
        assert_eq!(parse(message.as_bytes()), Some((claim, What::Handed(handed))));
        assert_eq!(parse(format!("w {owner}").as_bytes()), Some((claim, What::Wanted)));
        for other in ["", "g", "g x 1 2 0", "z y", "g \u{0} 1"] {
            assert_eq!(parse(other.as_bytes()), None);
        }
    }
}
