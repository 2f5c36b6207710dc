//! One lock at a majority of independent stores.
//!
//! N stores that know nothing of each other are asked for the lock at once; who has it at a
//! majority holds it. It survives any minority that crashes, hangs or is cut off, and costs the
//! round trip of the fastest majority: "Redlock" of Salvatore Sanfilippo ("Distributed locks with
//! Redis", 2014), and what Martin Kleppmann missed in it ("How to do distributed locking", 2016):
//! holders carry fencing tokens, which grow over every majority. `proto/votes/` has the rules
//! and why they hold.
//!
//! What it does not promise: an order of arrival (each store has a line of its own), and tokens
//! when a majority loses its data at once, or a minority does and the clocks of clients differ. A store that lost its data must be kept away for the
//! longest lease, or it grants again what it has granted before; nothing here sees to that yet.

mod claim;
mod health;
mod member;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::join_all;

pub use claim::QuorumClaim;
use health::Health;

use crate::backend::{Backend, ClaimId, Fault, FaultKind, Promises, Terms};
use crate::engine::wall;
use crate::inspect::{Holder, Inspection, Waiter};
use crate::key::Key;
use crate::proto::ticks;

/// Below this there is no member that could fail.
const MEMBERS_MIN: usize = 3;

/// The digits of a claim's id that its places at members have in common.
const CLAIM_DIGITS: usize = 24;

/// See the module.
#[derive(Debug)]
pub struct Quorum<B> {
    members: Arc<Members<B>>,
}

#[derive(Debug)]
struct Members<B> {
    all: Vec<B>,
    /// How each of them has answered.
    health: Vec<Health>,
    count: Count,
}

/// What the tokens of this client are counted from.
#[derive(Debug, Default)]
struct Count {
    seen: AtomicU64,
}

impl Count {
    /// The wall clock in tokens, above all that were seen.
    fn next(&self) -> u64 {
        ticks(wall::micros()).max(self.seen.load(Ordering::Relaxed) + 1)
    }

    fn has_seen(&self, token: u64) {
        self.seen.fetch_max(token, Ordering::Relaxed);
    }
}

/// Why stores make no quorum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QuorumError {
    /// Two stores stand no failure, and one is no quorum.
    #[error("a quorum has at least {MEMBERS_MIN} members, not {given}")]
    TooFew {
        /// How many were given.
        given: usize,
    },
    /// [`Promises::quorum`] does not hold.
    #[error("the store at place {place} cannot be a member of a quorum")]
    Unfit {
        /// Its place among those given, from 0.
        place: usize,
    },
}

impl<B: Backend> Quorum<B> {
    /// A quorum of these stores, at least three, the same in each process that shares its locks.
    /// An odd number is best: one more stands no further failure.
    ///
    /// # Errors
    ///
    /// [`QuorumError`] for fewer than three stores, and for one that cannot be a member.
    pub fn new(members: Vec<B>) -> Result<Self, QuorumError> {
        if members.len() < MEMBERS_MIN {
            return Err(QuorumError::TooFew { given: members.len() });
        }
        if let Some(place) = members.iter().position(|member| !member.promises().quorum) {
            return Err(QuorumError::Unfit { place });
        }
        let health = members.iter().map(|_| Health::default()).collect();
        Ok(Self { members: Arc::new(Members { all: members, health, count: Count::default() }) })
    }

    fn promise(&self, promise: impl Fn(Promises) -> bool) -> bool {
        self.members.all.iter().all(|member| promise(member.promises()))
    }
}

impl<B: Backend> Backend for Quorum<B> {
    type Claim = QuorumClaim<B>;

    fn promises(&self) -> Promises {
        let leases = self.members.all.iter().map(|member| member.promises().lease_min);
        Promises {
            fencing: true,
            push: self.promise(|member| member.push),
            lease_min: leases.max().unwrap_or(Duration::ZERO),
            ..Promises::none()
        }
    }

    fn claim(&self, key: &Key, id: ClaimId, terms: Terms) -> QuorumClaim<B> {
        QuorumClaim::new(self.members.clone(), key, id, terms)
    }

    async fn inspect(&self, key: &Key) -> Result<Inspection, Fault> {
        let answers = join_all(self.members.all.iter().map(|member| member.inspect(key))).await;
        let majority = answers.len() / 2 + 1;
        let seen: Vec<_> = answers.iter().filter_map(|answer| answer.as_ref().ok()).collect();
        if seen.len() < majority {
            let down = answers.len() - seen.len();
            let what =
                format!("{down} of the {} members of the quorum do not answer", answers.len());
            return Err(Fault::new(FaultKind::Transient, what));
        }
        let held_by = |claim: &str| {
            let by = |seen: &&&Inspection| {
                seen.holder.as_ref().is_some_and(|holder| common(&holder.claim) == claim)
            };
            seen.iter().filter(by).count() >= majority
        };
        let holders = seen.iter().filter_map(|seen| seen.holder.as_ref());
        let holder = holders
            .filter(|holder| held_by(common(&holder.claim)))
            .max_by_key(|holder| holder.token)
            .map(|holder| Holder { claim: common(&holder.claim).to_owned(), ..holder.clone() });
        // In the order of the longest line, those who wait at a majority: the others are coming, or
        // have left.
        let waits = |claim: &str| {
            let at = |seen: &&&Inspection| {
                seen.waiters.iter().any(|waiter| common(&waiter.claim) == claim)
            };
            seen.iter().filter(at).count() >= majority
        };
        let longest = seen.iter().max_by_key(|seen| seen.waiters.len());
        let waiters = longest.map(|seen| seen.waiters.clone()).unwrap_or_default();
        let waiters = waiters
            .into_iter()
            .filter(|waiter| waits(common(&waiter.claim)))
            .map(|waiter| Waiter { claim: common(&waiter.claim).to_owned(), ..waiter });
        Ok(Inspection::new(holder, waiters.collect()))
    }

    fn requests(&self) -> u64 {
        self.members.all.iter().map(Backend::requests).sum()
    }
}

/// What a claim is called at all members: it may be joined anew under another end.
fn common(claim: &str) -> &str {
    claim.get(..CLAIM_DIGITS).unwrap_or(claim)
}
