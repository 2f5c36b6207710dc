//! One session at etcd: a lease, a key that fences its writes, and the keepalives.
//!
//! A write whose answer was lost may take effect long afterwards: a member that was stopped goes on
//! with what it had. So each write that puts a claim into a line compares the revision of the
//! session's own key, the *epoch*. To settle what became of one, the key is written anew, or deleted
//! where the database is full. From then on no write of an older epoch takes effect, and a read tells.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use super::clock::SessionClock;
use super::fault::Failure;
use super::links::{Answer, GRANT, Links, REQUEST_WITHIN, REVOKE, Repeat};
use super::liveness::Liveness;
use super::wire::{
    AsOf, Compare, DeleteRangeRequest, Done, LeaseGrantRequest, LeaseRequest, LeaseResponse, Op,
    PutRequest, Range, RangeResponse, RequestOp, TxnRequest, TxnResponse,
};
use crate::backend::Fault;
use crate::ground::{FAULT_PAUSES, Plus as _, clock};

/// How long the opening of a session may take.
pub(super) const OPEN_WITHIN: Duration = Duration::from_secs(5);

/// Below the root, where no key of ours begins so: braces are encoded in keys.
const SESSIONS: &str = "{lock-sessions}";

/// Ids of leases have 16 digits, and no sign.
const LEASE_BITS: u64 = (1 << 62) - 1;
const LEASE_FIRST: u64 = 1 << 62;

/// The lowest and the highest first digit of such an id.
pub(super) const LEASE_DIGITS: (u8, u8) = (b'4', b'7');

/// A session, for those who use it: its lease is given back with the last of them.
#[derive(Debug)]
pub(super) struct Session {
    kept: Arc<Kept>,
    epoch: AtomicI64,
    /// Held while the epoch is raised. Only tasks of the home wait for it.
    raising: tokio::sync::Mutex<()>,
}

/// The lease of a session, for those who keep it. They are no users: a keepalive that is under way
/// for the length of an outage must not have the session last as long.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) links: Arc<Links>,
    pub(super) lease: i64,
    pub(super) ttl: Duration,
    /// The key whose revision is the epoch.
    key: Vec<u8>,
    pub(super) liveness: Arc<Liveness>,
}

impl Deref for Session {
    type Target = Kept;

    fn deref(&self) -> &Kept {
        &self.kept
    }
}

impl Session {
    /// Opens a session, which somebody has to keep. To be called at home.
    pub(super) async fn open(links: Arc<Links>) -> Result<Arc<Self>, Fault> {
        let until = clock::now().plus(OPEN_WITHIN);
        did_not_go_back(&links, until).await.map_err(Failure::into_fault)?;
        let mut failures = 0;
        loop {
            match Self::begin(&links, until).await {
                Ok(session) => {
                    let (lease, ttl) = (format!("{:x}", session.lease), session.ttl);
                    tracing::debug!(lease, ?ttl, "etcd session");
                    return Ok(session);
                }
                // A lease that was given after all has no keys, and ends by itself. One that was over
                // before it was known here is followed by another, as on a busy machine.
                Err(Failure::Unknown(_) | Failure::NoLease) if clock::now() < until => {
                    failures += 1;
                    clock::alarm_in(FAULT_PAUSES.pause(failures, clock::random_bits())).await;
                }
                Err(failure) => return Err(failure.into_fault()),
            }
        }
    }

    /// The session of a new lease, in its first epoch.
    async fn begin(links: &Arc<Links>, until: Instant) -> Answer<Arc<Self>> {
        let sent = clock::now();
        let bits = clock::random_u64() & LEASE_BITS | LEASE_FIRST;
        let id = i64::try_from(bits).unwrap_or(i64::MAX);
        let ttl = i64::try_from(links.target.session.as_secs()).unwrap_or(i64::MAX);
        let asked = LeaseGrantRequest { ttl, id };
        let LeaseResponse { ttl, .. } = links.ask(GRANT, asked, Repeat::No, until).await?;
        let ttl = Duration::from_secs(u64::try_from(ttl).unwrap_or(0));
        let session = Self::of(links.clone(), id, ttl, sent);
        session.begin_epoch(until).await?;
        Ok(session)
    }

    /// The session of a lease that was asked for at `sent`.
    pub(super) fn of(links: Arc<Links>, lease: i64, ttl: Duration, sent: Instant) -> Arc<Self> {
        let key = format!("{}{SESSIONS}/{lease:x}", links.target.root).into_bytes();
        let liveness = Arc::new(Liveness::new(SessionClock::start(ttl, sent)));
        Arc::new(Self {
            kept: Arc::new(Kept { links, lease, ttl, key, liveness }),
            epoch: AtomicI64::new(0),
            raising: tokio::sync::Mutex::new(()),
        })
    }

    /// The lease, for those who keep it.
    pub(super) fn kept(&self) -> Arc<Kept> {
        self.kept.clone()
    }

    /// The epoch under which writes are sent now.
    pub(super) fn epoch(&self) -> i64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// The condition that the epoch is still this one.
    pub(super) fn in_epoch(&self, epoch: i64) -> Compare {
        Compare::written(&self.key, epoch)
    }

    /// No write of this epoch takes effect from now on, unless it has.
    pub(super) async fn fence(self: &Arc<Self>, epoch: i64, until: Instant) -> Answer<()> {
        let this = self.clone();
        self.links.at_home(until, async move { this.raise(epoch, until).await }).await
    }

    async fn raise(&self, epoch: i64, until: Instant) -> Answer<()> {
        // Those who waited for another have what they want.
        let _one = self.raising.lock().await;
        if self.epoch() > epoch {
            return Ok(());
        }
        match self.begin_epoch(until).await {
            // It takes deletions only.
            Err(Failure::Full(_)) => self.end_epoch(epoch, until).await,
            raised => raised,
        }
    }

    /// Writes the session's own key. One that comes late raises the epoch once more, which whoever
    /// writes then is told.
    async fn begin_epoch(&self, until: Instant) -> Answer<()> {
        let (key, lease) = (self.key.clone(), self.lease);
        let put = Op::Put(PutRequest { key, lease, ..PutRequest::default() });
        let begun = self.transact(vec![], vec![put.into()], vec![], Repeat::Yes, until).await?;
        self.epoch.fetch_max(begun.revision(), Ordering::AcqRel);
        Ok(())
    }

    /// Deletes the session's own key, unless it is of another epoch or gone: then no write of this one
    /// takes effect anyway. The first who finds room for a write is told so, and has the key written.
    async fn end_epoch(&self, epoch: i64, until: Instant) -> Answer<()> {
        let gone = Op::Delete(DeleteRangeRequest { key: self.key.clone() });
        let (compare, gone) = (vec![self.in_epoch(epoch)], vec![gone.into()]);
        let ended = self.transact(compare, gone, vec![], Repeat::Yes, until).await?;
        if ended.succeeded {
            self.epoch.fetch_max(ended.revision(), Ordering::AcqRel);
        }
        Ok(())
    }

    pub(super) async fn transact(
        &self,
        compare: Vec<Compare>,
        success: Vec<RequestOp>,
        failure: Vec<RequestOp>,
        repeat: Repeat,
        until: Instant,
    ) -> Answer<TxnResponse> {
        let request = TxnRequest { compare, success, failure };
        let seen = self.links.seen();
        let answer = self.links.transact(request, repeat, until).await;
        self.told(answer, TxnResponse::as_of, seen)
    }
}

impl Kept {
    /// The key whose revision is the epoch.
    pub(super) fn own(&self) -> Range {
        Range::one(&self.key)
    }

    /// The servers' word that there is no such lease ends the session. So does a revision below one
    /// that was seen before this was asked: what the session holds may be another's by now.
    fn told<T>(&self, answer: Answer<T>, as_of: fn(&T) -> AsOf, seen: i64) -> Answer<T> {
        match answer.and_then(|answer| self.links.checked(answer, as_of, seen)) {
            Err(Failure::NoLease) => {
                self.liveness.end();
                Err(Failure::NoLease)
            }
            Err(Failure::WentBack(fault)) => {
                if self.liveness.end() {
                    tracing::error!(%fault, "all locks of this client are lost");
                    self.revoke();
                }
                Err(Failure::WentBack(fault))
            }
            answer => answer,
        }
    }

    pub(super) async fn read(&self, range: &Range, until: Instant) -> Answer<RangeResponse> {
        let seen = self.links.seen();
        let answer = self.links.read(range.read(0), until).await;
        self.told(answer, RangeResponse::as_of, seen)
    }

    /// Sends one keepalive and proves it; whether that came to pass.
    pub(super) async fn beat(&self) -> bool {
        let sent = clock::now();
        // Later an answer would prove nothing that is of use.
        let until = sent.plus(self.ttl * 2 / 3);
        match self.prove(sent, until).await {
            Ok(is_proved) => return is_proved,
            Err(Failure::NoLease) => {
                self.liveness.end();
            }
            Err(failure) => {
                tracing::debug!(fault = %failure.into_fault(), "no proof of the session at etcd");
            }
        }
        false
    }

    async fn prove(&self, sent: Instant, until: Instant) -> Answer<bool> {
        let answer = self.links.keep_alive(self.lease, until).await?;
        if answer.ttl <= 0 {
            return Err(Failure::NoLease);
        }
        let read = self.read(&self.own(), until).await?;
        let (answered, read) = (answer.header, read.header);
        let is_same_term =
            answered.zip(read).is_some_and(|(one, two)| one.raft_term == two.raft_term);
        if is_same_term {
            self.liveness.proved(sent);
        }
        Ok(is_same_term)
    }

    /// Ends the lease, and takes all that is left in it. Nobody waits for that: without it the
    /// lease ends by itself.
    fn revoke(&self) {
        let (links, request) = (self.links.clone(), LeaseRequest { id: self.lease });
        let until = clock::now().plus(self.ttl.max(REQUEST_WITHIN));
        drop(self.links.home.spawn(async move {
            let revoked: Answer<Done> = links.ask(REVOKE, request, Repeat::Yes, until).await;
            if let Err(failure) = revoked
                && !matches!(failure, Failure::NoLease)
            {
                tracing::debug!(fault = %failure.into_fault(), "a lease at etcd ends by itself");
            }
        }));
    }
}

/// Refuses a cluster that was restored from a backup, until its revisions are new again.
async fn did_not_go_back(links: &Arc<Links>, until: Instant) -> Answer<()> {
    if !links.is_back() {
        return Ok(());
    }
    let (seen, any) = (links.seen(), format!("{}{SESSIONS}", links.target.root));
    let answer = links.read(Range::one(any.as_bytes()).read(1), until).await?;
    links.checked(answer, RangeResponse::as_of, seen).map(drop)
}

impl Drop for Session {
    fn drop(&mut self) {
        let is_over = self.liveness.is_over();
        self.liveness.end();
        if is_over {
            return;
        }
        self.revoke();
    }
}
