//! One lock at a majority of independent stores.
//!
//! N stores that know nothing of each other are asked for the lock at once. A claim that has it at
//! a majority holds it. The lock survives any minority that crashes, hangs or is cut off, and costs
//! the round trip of the fastest majority. This is "Redlock" of Salvatore Sanfilippo ("Distributed
//! locks with Redis", 2014), with what Martin Kleppmann missed in it ("How to do distributed
//! locking", 2016): holders carry fencing tokens, which grow over every majority. `proto/votes/`
//! has the rules and why they hold.
//!
//! It does not promise an order of arrival, as each store has a line of its own. It does not
//! promise tokens that grow when a majority loses its data at once and the clocks of clients
//! differ.
//!
//! A store that lost its data would grant again what it has granted before, and two lists of
//! members that differ would grant one key twice. A [managed](Quorum::managed) quorum sees to both;
//! `proto/membership/` has the rules. For one that is [not](Quorum::new), the application must.
//!
//! # Who polls the members
//!
//! Nothing is spawned for a claim while it lives. Its verbs poll its members, all at once, in the
//! task that polls the verb: a caller's, or the conductor's. So a free key is three requests made
//! in one poll, and a renewal hangs on nothing of the application. What is under way at a member
//! when the votes decide stays in the claim. Between two verbs its wakes are noted and wake nobody:
//! the third answer to an acquire would otherwise cost a turn of the conductor.
//!
//! Requests run to their end all the same. When a withdrawal was answered or a claim is dropped,
//! what members still owe goes to one task in the runtime of whoever polled last. That task ends
//! with its runtime. What is left then is a minority's, and ends with its lease there.
//!
//! Two things follow from polling in several runtimes. What may be polled by another compares the
//! clock at each poll, and has a timer of whoever polled last (`clock::alarm`). And a push is
//! listened for by `changed` only: a ZooKeeper claim would otherwise answer by watches that have
//! not seen anything yet.
//!
//! # Tokens
//!
//! Tokens begin above those of every member of the granting majority. They count only when a
//! majority's counters have reached the last of them (`MemberClaim::raise`, refused to a claim that
//! does not hold the key there). It mostly costs nothing: the members end their blocks at one
//! clock, the client's (`MemberClaim::count_from`), so those that granted have the same last token.
//! Renewals bring no tokens; a claim that has used its own up is opened anew.
//!
//! # How a member stands
//!
//! | how | until |
//! |---|---|
//! | unseen: its connection is new, or it refused | it was looked at: one request |
//! | unenrolled: it has no enrolment of this incarnation | all members answer, or a majority has this quorum's enrolment |
//! | early: kept away | the longest lease is over by two clocks |
//! | unrepaired: without a minimum token | a majority of the others was read; or all answer, and all are past their quarantine |
//! | good | its connection ends, or a script finds another enrolment |
//!
//! No claim is granted over a connection over which the member was not probed, and its scripts
//! compare the enrolment. An enrolment is served under only where that probe showed its
//! incarnation, as what two tasks have seen may be told in another order than it was seen in. So a
//! server that was started anew, flushed or restored is found before it grants.
//!
//! `session` is the one task that probes and writes. It runs only while a member needs it, in the
//! runtime that needs it first. Renewals and withdrawals never wait for it. Attempts do, so the
//! conductor begins one of its own where it finds that of another runtime, which may be blocked. A
//! client of another list, size or longest lease that meets one enrolment is served nothing any
//! more.
//!
//! Where all answer, none has an enrolment and none ever reserved a token, the quarantine is less
//! what the servers have been up for. A founding that stopped half way is ended by whoever comes
//! within 10 s.
//!
//! Three rules were found by the model. A withdrawal at a member that has to be probed hands the
//! key to nobody, as that could be a grant in quarantine. An enrolment is written only where the
//! member is as it was looked at, at most 2 s ago by its own clock: a client that was stopped in
//! between would found the quorum for the second time. A repaired member counts with its minimum
//! token when the next is repaired, not only with what it reserved.

// Files:
//
// - `claim`: the verbs of one claim.
// - `member`: what it does at one member.
// - `config`: the quorum that it is.
// - `membership`: the standing of the members. `session`: the task that sees to them.
// - `health`: the members that are worth asking. `series`: the counts of one member.
// - `report`: the holder of a key, and the state of the members.

mod claim;
mod config;
mod health;
mod member;
mod membership;
mod report;
mod series;
mod session;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

pub use claim::QuorumClaim;
pub use config::MembershipConfig;
use config::{MEMBERS_MAX, MEMBERS_MIN};
use health::Health;
use membership::MembershipState;

use crate::backend::register::{AHEAD_MAX, ticks};
use crate::backend::{
    Backend, Capabilities, ClaimId, DURATION_MAX, Fault, Member, MemberClaim, Terms, UrlError,
    UrlPart,
};
use crate::ground::wall;
use crate::key::Key;
use crate::limits::KEY_BYTES_MAX;
use crate::view::{Inspection, KeyList};

/// A store that grants a key where a majority of its members, stores of their own, has granted it.
#[doc(alias = "redlock")]
#[derive(Debug)]
pub struct Quorum<B> {
    members: Arc<Members<B>>,
}

#[derive(Debug)]
struct Members<B> {
    all: Vec<B>,
    /// The health of each of them.
    health: Vec<Health>,
    count: Count,
    /// The standing of the members, in a managed quorum.
    membership: Option<Arc<MembershipState>>,
    lease_max: Duration,
}

impl<B> Members<B> {
    fn new(all: Vec<B>, membership: Option<Arc<MembershipState>>, lease_max: Duration) -> Self {
        let health = all.iter().map(|_| Health::default()).collect();
        Self { all, health, count: Count::default(), membership, lease_max }
    }
}

/// The highest token that this client has seen; its next tokens are above it, or at the wall clock.
#[derive(Debug, Default)]
struct Count {
    seen: AtomicU64,
}

impl Count {
    /// The wall clock in tokens, or the next above all that were seen, if these are not far ahead
    /// of the clock. Where they are, members count on from what they know of the key.
    fn next(&self) -> u64 {
        let (clock, seen) = (ticks(wall::micros()), self.seen.load(Ordering::Relaxed));
        if seen > clock + AHEAD_MAX { clock } else { clock.max(seen + 1) }
    }

    fn has_seen(&self, token: u64) {
        self.seen.fetch_max(token, Ordering::Relaxed);
    }
}

/// The reason why stores make no quorum.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QuorumError {
    /// Two stores stand no failure, and one is no quorum.
    #[error("a quorum has at least {MEMBERS_MIN} members, not {given}")]
    TooFew {
        /// The number of stores that were given.
        given: usize,
    },
    /// More of them cost more than they bear.
    #[error("a quorum has at most {MEMBERS_MAX} members, not {given}")]
    TooMany {
        /// The number of stores that were given.
        given: usize,
    },
    /// The configuration does not fit the stores.
    #[error("{given} names of members for {stores} stores")]
    Names {
        /// The number of names in the configuration.
        given: usize,
        /// The number of stores that were given.
        stores: usize,
    },
    /// A member counts once.
    #[error("`{member}` is named twice in the list of members")]
    Twice {
        /// The name.
        member: String,
    },
    /// A name is empty, too long or has control characters.
    #[error("{given} is empty, too long or has control characters")]
    Name {
        /// The name that is bad, in words.
        given: String,
    },
    /// The longest lease is out of bounds.
    #[error("lease_max is {given:?}, it must be from 1 s to 1 h in whole milliseconds")]
    LeaseMax {
        /// The longest lease that was given.
        given: Duration,
    },
    /// [`Capabilities::quorum`] does not hold.
    #[error("the store at place {place} cannot be a member of a quorum")]
    Unfit {
        /// Its place among those given, from 0.
        place: usize,
    },
}

impl From<QuorumError> for UrlError {
    /// The error of a URL whose hosts are the members.
    fn from(error: QuorumError) -> Self {
        let part = match error {
            QuorumError::Name { .. } | QuorumError::LeaseMax { .. } => UrlPart::Parameters,
            _ => UrlPart::Hosts,
        };
        Self::new(part, error.to_string())
    }
}

impl<B: Backend<Claim: MemberClaim>> Quorum<B> {
    /// A quorum of these stores, at least three, the same in each process that shares its locks.
    /// An odd number is best: one more stands no further failure. Whose claims are a
    /// [`MemberClaim`] can be one; [`Capabilities::quorum`] says whether it is.
    ///
    /// Nothing looks after the members. The application vouches that every client has the same
    /// list. It also vouches for a store that may have lost data: the store is kept away for the
    /// longest lease, and comes back above every token of the others. [`managed`](Self::managed)
    /// sees to it itself.
    ///
    /// # Errors
    ///
    /// [`QuorumError`] for fewer than three stores, and for one that cannot be a member.
    pub fn new(members: Vec<B>) -> Result<Self, QuorumError> {
        check(&members)?;
        let members = Members::new(members, None, DURATION_MAX);
        Ok(Self { members: Arc::new(members) })
    }

    fn promise(&self, promise: impl Fn(Capabilities) -> bool) -> bool {
        self.members.all.iter().all(|member| promise(member.capabilities()))
    }
}

impl<M: Member> Quorum<M> {
    /// A quorum that sees to its members: each keeps in its store which quorum it is of. A store
    /// that lost its data, or was started anew, grants nothing until the longest lease is over.
    /// Then it grants only above the tokens of the others. A client of another list is refused for
    /// good. Members are probed when they are first asked, over each new connection, and when they
    /// refuse; see [`open`](Self::open).
    ///
    /// # Errors
    ///
    /// [`QuorumError`] for a configuration that is none or does not fit the stores, and for a store
    /// that cannot be a member.
    pub fn managed(members: Vec<M>, config: MembershipConfig) -> Result<Self, QuorumError> {
        check(&members)?;
        let identity = config.check(members.len())?;
        let members = Arc::new_cyclic(|this: &Weak<Members<M>>| {
            for member in &members {
                member.serve_under(None);
            }
            let membership = Arc::new_cyclic(|membership: &Weak<MembershipState>| {
                let (this, membership) = (this.clone(), membership.clone());
                MembershipState::new(&config.members, move |call| {
                    if let Some(membership) = membership.upgrade() {
                        session::start(this.clone(), membership, identity.clone(), call);
                    }
                })
            });
            Members::new(members, Some(membership), config.lease_max())
        });
        Ok(Self { members })
    }

    /// Probes at all members, and waits until a majority has answered; those that are late go on
    /// being looked for in the background.
    ///
    /// # Errors
    ///
    /// A [`Fault`] when no majority answers, and when one is a member of another quorum. A refusal
    /// outside of a Tokio runtime, and in one without timers.
    ///
    /// # Cancel safety
    ///
    /// The members go on to be probed.
    pub async fn open(&self) -> Result<(), Fault> {
        match &self.members.membership {
            Some(membership) => membership.open().await,
            None => Ok(()),
        }
    }
}

fn check<B: Backend>(members: &[B]) -> Result<(), QuorumError> {
    if members.len() < MEMBERS_MIN {
        return Err(QuorumError::TooFew { given: members.len() });
    }
    match members.iter().position(|member| !member.capabilities().quorum) {
        Some(place) => Err(QuorumError::Unfit { place }),
        None => Ok(()),
    }
}

impl<B: Backend<Claim: MemberClaim>> Backend for Quorum<B> {
    type Claim = QuorumClaim<B>;

    fn capabilities(&self) -> Capabilities {
        let each = || self.members.all.iter().map(|member| member.capabilities());
        Capabilities {
            fencing: true,
            push: self.promise(|member| member.push),
            force_release: self.promise(|member| member.force_release),
            listing: self.promise(|member| member.listing),
            in_process: self.promise(|member| member.in_process),
            lease_min: each().map(|member| member.lease_min).max().unwrap_or(Duration::ZERO),
            lease_max: self.members.lease_max,
            key_bytes_max: each().map(|member| member.key_bytes_max).min().unwrap_or(KEY_BYTES_MAX),
            ..Capabilities::none()
        }
    }

    fn claim(&self, key: &Key, id: ClaimId, terms: Terms) -> QuorumClaim<B> {
        QuorumClaim::new(self.members.clone(), key, id, terms)
    }

    async fn inspect(&self, key: &Key) -> Result<Inspection, Fault> {
        report::inspect(&self.members, key).await
    }

    async fn list(&self, within: Option<&Key>, max: usize) -> Result<KeyList, Fault> {
        report::list(&self.members, within, max).await
    }

    /// Takes the key from the holder of a majority, wherever that one has it, and from all where
    /// nobody holds a majority. A majority must answer. A member that does not goes on to hold the
    /// key for the old holder, who has no majority then.
    async fn force_release(&self, key: &Key) -> Result<bool, Fault> {
        report::force_release(&self.members, key).await
    }

    fn requests(&self) -> u64 {
        self.members.all.iter().map(Backend::requests).sum()
    }
}
