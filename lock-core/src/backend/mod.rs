//! The seam between the engine and a store, for those who bring a store of their own.
//!
//! A [`Backend`] is a lock service seen through the four verbs of a [`Claim`]. `withdraw` is unlock
//! and give-up in one, as every store that queues deletes the same thing for both. `changed` beside
//! the `recheck` of an [`Attempt::Blocked`] makes push and poll one loop. All validity counts from
//! the instant a request was sent. A claim's id is chosen by the caller, so that a claim whose
//! reply was lost can be found again and withdrawn.
//!
//! The engine runs `attempt`, `renew` and `withdraw` to their end, so a caller's drop never cuts a
//! request in half. In return a backend bounds its own I/O in time. An answer is data. A verb
//! without an answer is a [`Fault`], whose [`FaultKind`] says what the engine does then. A backend
//! leaves out of its [`Capabilities`] what it cannot do at all.
//!
//! Waiters of one process, retries, time-outs, renewals, hand-offs and the loss of a lease are not
//! the backend's task: they are the same over every store. So a table with one row per key is
//! enough, though one that pushes and keeps a line is better:
//!
//! ```
//! use std::collections::HashMap;
//! use std::sync::{Arc, Mutex};
//! use std::time::{Duration, Instant};
//!
//! use lock_core::backend::{
//!     Attempt, Backend, Capabilities, Claim, ClaimId, Driver, Fault, Grant, Renewal, Scheme, Terms,
//!     TokenBlock, Withdrawal,
//! };
//! use lock_core::view::{Holder, Inspection};
//! use lock_core::{Key, LockClient};
//!
//! /// Who has a key and until when. The row stays, so that its tokens grow.
//! #[derive(Debug, Default)]
//! struct Row {
//!     holder: Option<(ClaimId, Instant)>,
//!     token: u64,
//! }
//!
//! #[derive(Debug, Clone, Default)]
//! struct Table(Arc<Mutex<HashMap<Key, Row>>>);
//!
//! impl Table {
//!     /// Asks the row of a key, whose holder is forgotten at the end of its lease.
//!     fn row<T>(&self, key: &Key, now: Instant, ask: impl FnOnce(&mut Row) -> T) -> T {
//!         let mut rows = self.0.lock().unwrap();
//!         let row = rows.entry(key.clone()).or_default();
//!         row.holder = row.holder.filter(|(_, until)| now < *until);
//!         ask(row)
//!     }
//! }
//!
//! impl Backend for Table {
//!     type Claim = Place;
//!
//!     fn capabilities(&self) -> Capabilities {
//!         let mut capabilities = Capabilities::none();
//!         capabilities.fencing = true;
//!         capabilities
//!     }
//!
//!     fn claim(&self, key: &Key, id: ClaimId, terms: Terms) -> Place {
//!         Place { table: self.clone(), key: key.clone(), id, lease: terms.lease }
//!     }
//!
//!     async fn inspect(&self, key: &Key) -> Result<Inspection, Fault> {
//!         let now = Instant::now();
//!         let holder = self.row(key, now, |row| row.holder);
//!         let holder = holder.map(|(id, end)| Holder::new(id.to_string(), None, Some(end - now)));
//!         Ok(Inspection::new(holder, Vec::new()))
//!     }
//! }
//!
//! struct Place {
//!     table: Table,
//!     key: Key,
//!     id: ClaimId,
//!     lease: Duration,
//! }
//!
//! impl Place {
//!     fn grant(&self, tokens: TokenBlock) -> Grant {
//!         // Who else wants the key is not known here.
//!         Grant { wanted: true, ..Grant::new(tokens, self.lease) }
//!     }
//! }
//!
//! impl Claim for Place {
//!     async fn attempt(&mut self) -> Result<Attempt, Fault> {
//!         let now = Instant::now();
//!         Ok(self.table.row(&self.key, now, |row| match row.holder {
//!             Some((holder, end)) if holder != self.id => {
//!                 let recheck = (end - now).min(Duration::from_millis(50));
//!                 Attempt::Blocked { ahead: None, recheck }
//!             }
//!             mine => {
//!                 // A claim that asks again, as its reply was lost, has its token already.
//!                 row.token += u64::from(mine.is_none());
//!                 row.holder = Some((self.id, now + self.lease));
//!                 Attempt::Granted(self.grant(TokenBlock::new(row.token, row.token)))
//!             }
//!         }))
//!     }
//!
//!     async fn renew(&mut self) -> Result<Renewal, Fault> {
//!         let now = Instant::now();
//!         Ok(self.table.row(&self.key, now, |row| match &mut row.holder {
//!             Some((holder, end)) if *holder == self.id => {
//!                 *end = now + self.lease;
//!                 Renewal::Held(self.grant(TokenBlock::empty()))
//!             }
//!             _ => Renewal::Lost,
//!         }))
//!     }
//!
//!     async fn withdraw(&mut self) -> Result<Withdrawal, Fault> {
//!         Ok(self.table.row(&self.key, Instant::now(), |row| {
//!             match row.holder.take_if(|(holder, _)| *holder == self.id) {
//!                 Some(_) => Withdrawal::Released,
//!                 None => Withdrawal::NotHeld,
//!             }
//!         }))
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let table = Table::default();
//! let locks = LockClient::builder_with(table.clone()).waiters_per_key_max(100).connect().await?;
//! let first = locks.lock("order:42").await?;
//! let second = tokio::spawn(locks.lock("order:42").acquire());
//! let token = first.token();
//! first.release().await?;
//! assert!(second.await??.token() > token);
//!
//! // By a URL, as the stores of this crate.
//! let tables = Driver::new(Scheme::new("table"), move |_| {
//!     let table = table.clone();
//!     async move { Ok(table) }
//! });
//! let locks = LockClient::builder("table:").driver(tables).connect().await?;
//! locks.lock("order:42").await?.release().await?;
//! # Ok(()) }
//! ```
//!
//! # Two runtimes
//!
//! **A socket is served by the runtime that made it.** So a store that connects where it is called
//! has its connections on the application's runtime. Whoever blocks that runtime, for a second by a
//! slow computation or for good by a deadlock, keeps every answer of the store from being read, and
//! the leases end meanwhile. The engine renews from a thread of its own
//! ([`Background`](crate::options::Background)), and that is of no use where the answers are not.
//!
//! A verb (any but a renewal) may be begun by a task of the application, and gone on with by the
//! engine's thread where that task does not come to run, also after its runtime has ended. A timer
//! of a runtime that is gone panics.
//!
//! [`io`] is the answer to both: a [`Home`](io::Home) for connections and for what serves them, and
//! bounds that hold whoever polls. A connection at a home needs no runtime of the application at
//! all, and outlives each of them. A store that keeps one row per key need not write the line, the
//! modes and the tokens either: they are a [`register`].
//!
//! # Checked
//!
//! `test_util::conformance` (feature `test-util`) checks a store against all that the engine relies
//! on, a blocked runtime included. A [`Driver`] gives a store URLs of its own, see [`url`].
//! [`MemberClaim`] and [`Member`] have what members of a [`Quorum`](crate::quorum::Quorum) are
//! asked beside the verbs.

// Files:
//
// - `capabilities`, `terms`: what a store can do, and what a claim asks of it.
// - `fault`: a verb without an answer. `erased`: the type-erased twins of the traits.
// - `follower`: following an election.
// - `member`, `enrolment`: the verbs of a member of a quorum, and what it keeps.
// - `url`, `driver`: the reader of URLs, and the way from one to a store.
// - `prefixed`: keys below a prefix.
// - `register`: a key in one row. `io`: the home of connections. `batch`: claims that ask together.
// - `leases`: of claims within a session.

#[allow(dead_code, reason = "not every store gathers")]
pub(crate) mod batch;
mod capabilities;
mod driver;
mod enrolment;
mod erased;
mod fault;
mod follower;
pub mod io;
#[allow(dead_code, reason = "not every store has sessions")]
pub(crate) mod leases;
mod member;
mod prefixed;
pub mod register;
mod terms;
pub mod url;

use std::fmt::{self, Debug};
use std::future::{Future, pending};
use std::sync::Arc;
use std::time::Duration;

pub use capabilities::Capabilities;
#[allow(unused_imports)] // in builds with all stores
pub(crate) use driver::no_store;
pub use driver::{ConnectError, Driver};
pub(crate) use driver::{Opening, opening};
pub use enrolment::{Enrolment, EnrolmentError};
pub(crate) use erased::{DynBackend, DynClaim, Listening, Request};
pub use fault::{Fault, FaultKind, NotReplicated};
use follower::NoElections;
pub use follower::{BoxFuture, Follower, Following};
pub use member::{Member, MemberClaim, Probe, SEEN_WITHIN};
pub(crate) use prefixed::Prefix;
#[allow(unused_imports)] // in builds with all stores
pub(crate) use terms::{Manner, who};
pub use terms::{Replicas, Terms};
pub use url::{Scheme, StoreUrl, UrlError, UrlPart};

use crate::ground::clock;
use crate::key::Key;
pub use crate::limits::{DURATION_MAX, PERMITS_MAX, REPLICAS_MAX, REPLICAS_TIMEOUT_MAX};
pub use crate::mode::Mode;
pub use crate::token::TokenBlock;
use crate::view::{Holder, Inspection, KeyList};

/// A lock service.
pub trait Backend: Send + Sync + Debug + 'static {
    /// One process's place in one key's contention.
    type Claim: Claim;

    /// The capabilities of this backend. They never change.
    fn capabilities(&self) -> Capabilities;

    /// Opens a claim. No I/O, cannot fail.
    fn claim(&self, key: &Key, id: ClaimId, terms: Terms) -> Self::Claim;

    /// Opens a claim that stands for [election](crate::Election): one as [`claim`](Self::claim)
    /// opens, and as long as it holds the key, those who [follow](Self::follow) are shown the
    /// `value`. Where [`Capabilities::election`] does not hold it is not called.
    fn candidate(&self, key: &Key, id: ClaimId, terms: Terms, value: &Arc<str>) -> Self::Claim {
        let _ = value;
        self.claim(key, id, terms)
    }

    /// Opens one who follows the election on a key, whose candidates have leases of about this
    /// length. No I/O, cannot fail. Where [`Capabilities::election`] does not hold, it refuses each
    /// request.
    fn follow(&self, key: &Key, lease: Duration) -> Box<dyn Follower> {
        let _ = (key, lease);
        Box::new(NoElections)
    }

    /// Opens a claim that takes the key from all who hold it, ahead of all who wait: its attempt is
    /// granted in any case, with tokens greater than all before. They hear of it as of a
    /// [`force_release`](Self::force_release); those who wait keep their places. It wants the key
    /// alone. Where [`Capabilities::force_acquire`] does not hold it is not called.
    fn forced(&self, key: &Key, id: ClaimId, terms: Terms) -> Self::Claim {
        self.claim(key, id, terms)
    }

    /// The holders of a key and those who wait, as the store sees it.
    fn inspect(&self, key: &Key) -> impl Future<Output = Result<Inspection, Fault>> + Send;

    /// A holder of a key, if there is one. The engine asks for it when a wait is about to end in vain,
    /// see [`TimeoutError::holder`](crate::error::TimeoutError::holder). By default it is the first of an
    /// [`inspect`](Self::inspect); a store whose waiters cost something answers without them.
    fn holder(&self, key: &Key) -> impl Future<Output = Result<Option<Holder>, Fault>> + Send {
        let inspection = self.inspect(key);
        async { Ok(inspection.await?.holders.into_iter().next()) }
    }

    /// Asks the holder of a key to give it up, which it may ignore; `false` if nobody holds it. The
    /// holder hears of it through [`Claim::changed`] where pushes are promised, and reads it in its
    /// next answer ([`Grant::revoke_requested`]). Those who hold the key later are not asked.
    ///
    /// # Errors
    ///
    /// A refusal where [`Capabilities::revocation`] does not hold.
    fn request_revoke(&self, key: &Key) -> impl Future<Output = Result<bool, Fault>> + Send {
        let what = format!("this store cannot ask the holder of `{key}` to give it up");
        std::future::ready(Err(Fault::new(FaultKind::Refused, what)))
    }

    /// Takes a key away from whoever holds it, in any process. The next in line gets it with
    /// greater tokens, as after a withdrawal by the holder. `false` if nobody holds it. The holder
    /// hears of it through [`Claim::changed`] where pushes are promised, and its next renewal is
    /// [`Renewal::Lost`].
    ///
    /// # Errors
    ///
    /// A refusal where [`Capabilities::force_release`] does not hold.
    fn force_release(&self, key: &Key) -> impl Future<Output = Result<bool, Fault>> + Send {
        let what = format!("this store cannot take `{key}` away from its holder");
        std::future::ready(Err(Fault::new(FaultKind::Refused, what)))
    }

    /// The keys that somebody holds, in any process: all, or those whose first segments are
    /// `within`, and at most `max`. One that is only waited for may be among them or not.
    ///
    /// # Errors
    ///
    /// A refusal where [`Capabilities::listing`] does not hold.
    fn list(
        &self,
        within: Option<&Key>,
        max: usize,
    ) -> impl Future<Output = Result<KeyList, Fault>> + Send {
        let _ = (within, max);
        std::future::ready(Err(Fault::new(FaultKind::Refused, "this store cannot list its keys")))
    }

    /// Requests sent to the store so far; 0 for a store in this process.
    fn requests(&self) -> u64 {
        0
    }
}

/// One process's place in one key's contention, waiting or held.
pub trait Claim: Send + 'static {
    /// Joins the line if need be, and reports where the claim stands. Asked again after a lost
    /// reply, it gives the same answer, with the same tokens or later ones.
    fn attempt(&mut self) -> impl Future<Output = Result<Attempt, Fault>> + Send;

    /// Resolves when it is time to ask again, and says why. Cancel safe, level-triggered (it goes
    /// on resolving until `attempt` or `renew` was asked), may be spurious. A store that pushes
    /// nothing leaves the default: the engine asks by the clock then.
    fn changed(&mut self) -> impl Future<Output = Change> + Send {
        pending()
    }

    /// Extends a granted claim, and reserves further tokens if there are any for it. Their block
    /// may begin with those that the claim has. Never re-acquires a lost claim.
    fn renew(&mut self) -> impl Future<Output = Result<Renewal, Fault>> + Send;

    /// Makes a claim that holds the key alone one that [shares](Mode::Shared) it, and lets in those
    /// who stand behind it and share it too, up to the first that does not: nobody is let in
    /// between. Extends the claim as `renew` does. Idempotent.
    ///
    /// # Errors
    ///
    /// A refusal where [`Capabilities::shared`] does not hold.
    fn downgrade(&mut self) -> impl Future<Output = Result<Renewal, Fault>> + Send {
        let what = "this store cannot share a key";
        std::future::ready(Err(Fault::new(FaultKind::Refused, what)))
    }

    /// Leaves the line, held or not. Idempotent. A dropped claim that was not withdrawn ends with
    /// its lease.
    fn withdraw(&mut self) -> impl Future<Output = Result<Withdrawal, Fault>> + Send;
}

/// 128 random bits that name a claim.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClaimId(u128);

impl ClaimId {
    /// One that nobody else draws.
    pub(crate) fn random() -> Self {
        Self(clock::random_u128())
    }

    /// Takes the bits; the caller sees to it that they are random.
    #[must_use]
    pub const fn from_bits(bits: u128) -> Self {
        Self(bits)
    }

    /// The bits.
    #[must_use]
    pub const fn bits(self) -> u128 {
        self.0
    }
}

impl fmt::Display for ClaimId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl Debug for ClaimId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClaimId({:032x})", self.0)
    }
}

/// The standing of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attempt {
    /// It holds the key.
    Granted(Grant),
    /// It waits, or stands outside of the line if its [`Terms::queues`] is false.
    Blocked {
        /// Claims ahead, the holder included, where the store tells.
        ahead: Option<u32>,
        /// Ask again after this time at the latest, even if nothing was pushed.
        recheck: Duration,
    },
}

/// A hold on a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    /// The tokens reserved for it: at least one with a grant. A renewal without any says that the
    /// store has no more for this claim. The claim's tokens stay good. When they are used up, the
    /// engine opens a new claim.
    pub tokens: TokenBlock,
    /// The time that it lasts, from the instant the request was sent. A grant found by push counts
    /// from the call: the backend has taken off the time that had passed.
    pub valid_for: Duration,
    /// The number of a permit ([`Mode::Permit`]), from 0: no other that is held has the same. 0 in
    /// other modes.
    pub slot: u32,
    /// Whether other claims wait for the key.
    pub wanted: bool,
    /// Whether another claim handed the key on to this one directly.
    pub handed_on: bool,
    /// Whether this claim was asked to give the key up; told again until it does, as a reply may
    /// get lost.
    pub revoke_requested: bool,
}

impl Grant {
    /// A hold that nobody else is known to want.
    #[must_use]
    pub const fn new(tokens: TokenBlock, valid_for: Duration) -> Self {
        let (slot, wanted, handed_on, revoke_requested) = (0, false, false, false);
        Self { tokens, valid_for, slot, wanted, handed_on, revoke_requested }
    }
}

/// A reason to ask again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Change {
    /// `attempt` or `renew` may answer differently: something was pushed. A store that has just
    /// failed is left alone for its pause all the same.
    Here,
    /// Another server has taken the place of the one that was asked last. Until the new one was
    /// asked, what is known may be of the past, and a failure of the last one says nothing of it.
    /// So it is asked at once, and nothing is handed on in this process before its answer.
    Elsewhere,
    /// Somebody who does not wait was refused the key because of this claim. Nothing is different
    /// for it, so it is told once, not until the store is asked. A claim that only
    /// [lingers](crate::LockOptions::linger) is given back.
    Tried,
}

/// The outcome of a renewal. "Don't know" is a [`Fault`], and never extends the lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renewal {
    /// Still held, for another lease.
    Held(Grant),
    /// Not held any more. Final.
    Lost,
}

/// The outcome of a withdrawal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Withdrawal {
    /// It held the key, and gave it up or handed it on.
    Released,
    /// It held nothing; its place in the line is gone.
    NotHeld,
    /// It holds nothing at this server, which has taken the place of the one that `attempt` or
    /// `renew` asked last. Whether that one let go of it is not known here: the grant may have been
    /// lost on the way.
    Elsewhere,
}
