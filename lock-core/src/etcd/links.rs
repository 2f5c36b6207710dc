//! Requests of one client to the members of a cluster.
//!
//! One link is used at a time. It is left for the next member as soon as one does not answer in
//! time, cannot be connected to, or says that it has no leader; what is under way over it goes on.
//! A connection or a login may take longer than an answer: the next try waits for the same.
//! All requests run at home and to their end, whatever becomes of the caller. The caller waits no
//! longer than it said, also where the home stands still.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::Stream;
use prost::Message;
use scopeguard::{ScopeGuard, guard};
use tokio::sync::watch;
use tonic::metadata::AsciiMetadataValue;
use tonic::{Request, Status, Streaming};

use super::fault::{self, Failure};
use super::link::{Choice, Link};
use super::login::Logins;
pub(super) use super::rpc::Answer;
use super::rpc::{Departure, carried, streaming, unary};
use super::target::{CONNECT_WITHIN, Target};
use super::wire::{
    AsOf, LeaseRequest, LeaseResponse, RangeRequest, RangeResponse, StatusResponse, TxnRequest,
    TxnResponse, WatchRequest, WatchResponse,
};
use crate::backend::Fault;
use crate::backend::io::{Home, by, within};
use crate::ground::{FAULT_PAUSES, Plus as _, clock};

/// How long one request may take, on all members together.
pub(super) const REQUEST_WITHIN: Duration = Duration::from_secs(2);

/// How long one member may take, as a part of the session, before the next is asked.
const PATIENCE_SHARE: u32 = 10;
const PATIENCE_MIN: Duration = Duration::from_millis(300);
const PATIENCE_MAX: Duration = Duration::from_secs(1);

/// How much later than the home's own word a caller stops waiting for it.
const HOME_LATE: Duration = Duration::from_millis(50);

/// How often one request has the client log in anew: a member that lags may know neither token.
const LOGINS_MAX: u32 = 2;

const RANGE: &str = "/etcdserverpb.KV/Range";
const TXN: &str = "/etcdserverpb.KV/Txn";
pub(super) const GRANT: &str = "/etcdserverpb.Lease/LeaseGrant";
pub(super) const REVOKE: &str = "/etcdserverpb.Lease/LeaseRevoke";
const KEEP_ALIVE: &str = "/etcdserverpb.Lease/LeaseKeepAlive";
const WATCH: &str = "/etcdserverpb.Watch/Watch";
const AUTHENTICATE: &str = "/etcdserverpb.Auth/Authenticate";
const STATUS: &str = "/etcdserverpb.Maintenance/Status";

/// Whether a request whose answer was lost may be sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Repeat {
    /// It does no harm the second time, however late the first one is.
    Yes,
    No,
}

/// The outcome of one try.
enum Tried<R> {
    Answered(R),
    /// The connection is not made yet, or the login has no answer yet. What is done of the
    /// connection would be lost with the link.
    Waits(Fault),
    Failed(Failure),
}

/// The revisions that this client has seen.
#[derive(Debug, Default)]
struct Revisions {
    /// The highest of an answer.
    seen: AtomicI64,
    /// Whether the last was below one that was seen before it was asked for.
    is_back: AtomicBool,
}

/// All links of one client.
#[derive(Debug)]
pub(super) struct Links {
    pub(super) target: Target,
    pub(super) home: Arc<Home>,
    choice: Choice,
    pub(super) logins: Logins,
    /// Whether the last request that ended was answered.
    is_served: watch::Sender<bool>,
    revisions: Revisions,
    requests: AtomicU64,
}

impl Links {
    pub(super) fn new(target: Target, home: Arc<Home>) -> Arc<Self> {
        let choice = Choice::among(target.endpoints.len());
        let logins = Logins::new(target.login.clone());
        let is_served = watch::Sender::new(true);
        let (revisions, requests) = (Revisions::default(), AtomicU64::new(0));
        Arc::new(Self { target, home, choice, logins, is_served, revisions, requests })
    }

    pub(super) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Says when requests are answered again, and when they are not.
    pub(super) fn served(&self) -> watch::Receiver<bool> {
        self.is_served.subscribe()
    }

    /// How long one member may take.
    fn patience(&self) -> Duration {
        (self.target.session / PATIENCE_SHARE).clamp(PATIENCE_MIN, PATIENCE_MAX)
    }

    /// The link in use. To be called at home, as it is served by the runtime that makes it.
    pub(super) fn link(&self) -> Arc<Link> {
        self.choice.link(&self.target.endpoints)
    }

    fn leave(&self, link: &Arc<Link>) {
        self.is_served(false);
        self.choice.leave(link, &self.target.endpoints, clock::now());
    }

    fn is_served(&self, is_served: bool) {
        self.is_served.send_if_modified(|before| std::mem::replace(before, is_served) != is_served);
    }

    /// Asks members until one answers.
    pub(super) async fn ask<Q, R>(
        self: &Arc<Self>,
        path: &'static str,
        request: Q,
        repeat: Repeat,
        until: Instant,
    ) -> Answer<R>
    where
        Q: Message + Clone + Unpin + 'static,
        R: Message + Default + 'static,
    {
        let this = self.clone();
        let asking = async move {
            let once = |this: Arc<Self>, link: Arc<Link>, departure: Departure| {
                let request = request.clone();
                async move { this.once(&link, path, request, &departure).await }
            };
            this.until_answered(repeat, until, once).await
        };
        self.at_home(until, asking).await
    }

    /// Has it done at home, for as long as it takes there. The caller waits until then, and need
    /// not be told what becomes of it.
    pub(super) async fn at_home<T: Send + 'static>(
        &self,
        until: Instant,
        asking: impl Future<Output = Answer<T>> + Send + 'static,
    ) -> Answer<T> {
        let asking = self.home.spawn(asking);
        match by(until.plus(HOME_LATE), asking).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) | Err(_) => Err(Failure::Unknown(fault::timed_out(REQUEST_WITHIN))),
        }
    }

    /// Tries this link once, for its share of the time.
    async fn try_over<R, F: Future<Output = Answer<R>>>(
        self: &Arc<Self>,
        link: &Arc<Link>,
        until: Instant,
        once: impl Fn(Arc<Self>, Arc<Link>, Departure) -> F,
    ) -> Tried<R> {
        let departure = Departure::default();
        link.waits();
        // Also where this is dropped: nobody waits for the link then.
        let waiting = guard((), |()| link.waits_no_more());
        let end = until.min(clock::now().plus(self.patience()));
        let trying = once(self.clone(), link.clone(), departure.clone());
        let answer = by(end, trying).await;
        let is_unsent = departure.call_off();
        let waits = is_unsent && answer.is_err();
        if waits {
            ScopeGuard::into_inner(waiting);
        } else {
            drop(waiting);
        }
        let late = |_| Err(Failure::Unknown(fault::timed_out(self.patience())));
        match answer.unwrap_or_else(late) {
            Ok(answer) => Tried::Answered(answer),
            Err(Failure::Unknown(fault)) if waits && link.waited() < CONNECT_WITHIN => {
                Tried::Waits(fault)
            }
            // The connection or the login failed, or took too long.
            Err(Failure::Unknown(fault)) if is_unsent => Tried::Failed(Failure::Unsent(fault)),
            Err(failure) => Tried::Failed(failure),
        }
    }

    /// Tries one link after the other. Of the time, each has a share.
    async fn until_answered<R, F: Future<Output = Answer<R>>>(
        self: &Arc<Self>,
        repeat: Repeat,
        until: Instant,
        once: impl Fn(Arc<Self>, Arc<Link>, Departure) -> F,
    ) -> Answer<R> {
        let (mut failures, mut logins, mut unknown) = (0_u32, 0, None);
        if clock::now() >= until {
            // The home stood still meanwhile, and nobody waits any more.
            return Err(Failure::Unsent(fault::timed_out(REQUEST_WITHIN)));
        }
        loop {
            let (link, login) = (self.link(), self.logins.number());
            let failure = match self.try_over(&link, until, &once).await {
                Tried::Answered(answer) => {
                    self.is_served(true);
                    return Ok(answer);
                }
                Tried::Waits(_) if clock::now() < until => {
                    self.is_served(false);
                    continue;
                }
                Tried::Waits(fault) => {
                    return Err(unknown.map_or(Failure::Unsent(fault), Failure::Unknown));
                }
                Tried::Failed(failure) => failure,
            };
            match failure {
                Failure::TokenOver | Failure::LoginAsked(_)
                    if logins < LOGINS_MAX && self.logins.forget(login) =>
                {
                    logins += 1;
                    continue;
                }
                Failure::Unknown(fault) => {
                    self.leave(&link);
                    if repeat == Repeat::No {
                        return Err(Failure::Unknown(fault));
                    }
                    unknown = Some(fault);
                }
                Failure::Unsent(fault) => {
                    self.leave(&link);
                    if clock::now() >= until {
                        return Err(unknown.map_or(Failure::Unsent(fault), Failure::Unknown));
                    }
                }
                failure => return Err(failure),
            }
            failures = failures.saturating_add(1);
            // Each member is asked once before a pause.
            let members = u32::try_from(self.target.endpoints.len()).unwrap_or(u32::MAX);
            let mut next = clock::now();
            if failures.is_multiple_of(members) {
                let pause = FAULT_PAUSES.pause(failures / members, clock::random_bits());
                next = next.plus(pause);
            }
            if next >= until {
                let unsent = || Failure::Unsent(fault::timed_out(REQUEST_WITHIN));
                return Err(unknown.map_or_else(unsent, Failure::Unknown));
            }
            clock::alarm(next).await;
        }
    }

    /// Asks the member at the end of this link.
    async fn once<Q, R>(
        &self,
        link: &Arc<Link>,
        path: &'static str,
        request: Q,
        departure: &Departure,
    ) -> Answer<R>
    where
        Q: Message + Unpin + 'static,
        R: Message + Default + 'static,
    {
        let request = self.signed(link, request).await?;
        unary(&link.channel, path, request, departure).await
    }

    /// Adds as whom it is sent, and that a member without a leader is to say so at once.
    async fn signed<Q>(&self, link: &Arc<Link>, request: Q) -> Answer<Request<Q>> {
        let mut request = Request::new(request);
        let metadata = request.metadata_mut();
        metadata.insert("hasleader", AsciiMetadataValue::from_static("true"));
        let log_in = |asked| {
            self.requests.fetch_add(1, Ordering::Relaxed);
            let channel = link.channel.clone();
            async move {
                let departure = Departure::default();
                let asking = unary(&channel, AUTHENTICATE, Request::new(asked), &departure);
                let late = |_| Err(Failure::Unknown(fault::timed_out(REQUEST_WITHIN)));
                within(REQUEST_WITHIN, asking).await.unwrap_or_else(late)
            }
        };
        self.logins.sign(metadata, link.number, log_in).await?;
        self.requests.fetch_add(1, Ordering::Relaxed);
        Ok(request)
    }

    /// Reads what a majority confirms.
    pub(super) async fn read(
        self: &Arc<Self>,
        request: RangeRequest,
        until: Instant,
    ) -> Answer<RangeResponse> {
        self.ask(RANGE, request, Repeat::Yes, until).await
    }

    pub(super) async fn transact(
        self: &Arc<Self>,
        request: TxnRequest,
        repeat: Repeat,
        until: Instant,
    ) -> Answer<TxnResponse> {
        self.ask(TXN, request, repeat, until).await
    }

    /// The highest revision that was seen. What is read from now on has one that is no lower, as a
    /// majority confirms it, and what is written has a higher one.
    pub(super) fn seen(&self) -> i64 {
        self.revisions.seen.load(Ordering::Acquire)
    }

    /// An answer to what was asked for when `seen` was the highest revision.
    pub(super) fn checked<T>(&self, answer: T, as_of: fn(&T) -> AsOf, seen: i64) -> Answer<T> {
        let now = as_of(&answer);
        let (revision, is_back) = match now {
            AsOf::Read(revision) => (revision, revision < seen),
            AsOf::Written(revision) => (revision, revision <= seen),
        };
        self.revisions.is_back.store(is_back, Ordering::Release);
        if is_back {
            return Err(Failure::WentBack(fault::went_back(revision, seen)));
        }
        self.revisions.seen.fetch_max(revision, Ordering::AcqRel);
        Ok(answer)
    }

    /// Whether the last answer was of a cluster that was restored from a backup.
    pub(super) fn is_back(&self) -> bool {
        self.revisions.is_back.load(Ordering::Acquire)
    }

    /// The version of a member.
    pub(super) async fn version(self: &Arc<Self>, until: Instant) -> Answer<String> {
        let answer = self.ask(STATUS, LeaseRequest::default(), Repeat::Yes, until).await;
        answer.map(|StatusResponse { version }| version)
    }

    /// One keepalive, on a stream of its own: an answer that does not come holds up no other. To be
    /// called at home.
    pub(super) async fn keep_alive(
        self: &Arc<Self>,
        lease: i64,
        until: Instant,
    ) -> Answer<LeaseResponse> {
        let once = |this: Arc<Self>, link: Arc<Link>, departure: Departure| async move {
            let request = this.signed(&link, LeaseRequest { id: lease }).await?;
            let one = carried(request, &departure);
            let mut answers: Streaming<LeaseResponse> =
                streaming(&link.channel, KEEP_ALIVE, one).await?;
            match answers.message().await {
                Ok(Some(answer)) => Ok(answer),
                Ok(None) => Err(Failure::of(Status::unavailable("no answer to a keepalive"))),
                Err(status) => Err(Failure::of(status)),
            }
        };
        self.until_answered(Repeat::No, until, once).await
    }

    /// A stream of watches over this link. To be called at home.
    pub(super) async fn watch(
        &self,
        link: &Arc<Link>,
        requests: impl Stream<Item = WatchRequest> + Send + 'static,
    ) -> Answer<Streaming<WatchResponse>> {
        let request = self.signed(link, requests).await?;
        streaming(&link.channel, WATCH, request).await
    }
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, TcpListener, TcpStream};

    use tokio::net::TcpSocket;

    use super::super::schemes::MEMBERS;
    use super::*;
    use crate::backend::StoreUrl;

    /// Far more than any bound here, and less than a reader of a log waits.
    const PATIENCE: Duration = Duration::from_secs(30);

    fn links(member: SocketAddr, home: &Arc<Home>) -> Arc<Links> {
        let url = StoreUrl::parse(&format!("etcd://{member}?session=2s"), &[MEMBERS]).unwrap();
        Links::new(Target::of(&url).unwrap(), home.clone())
    }

    async fn write(links: &Arc<Links>) -> Failure {
        let until = clock::now().plus(Duration::from_millis(400));
        let asked = links.transact(TxnRequest::default(), Repeat::No, until);
        let answer = tokio::time::timeout(PATIENCE, asked).await.expect("it is bounded");
        answer.expect_err("nobody answers")
    }

    #[tokio::test]
    async fn what_was_written_to_a_member_that_is_silent_may_have_run() {
        let home = Home::start("test").unwrap();
        let silent = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let failure = write(&links(silent.local_addr().unwrap(), &home)).await;
        assert!(matches!(failure, Failure::Unknown(_)), "{failure:?}");
    }

    #[tokio::test]
    async fn what_waited_for_a_connection_never_ran() {
        let home = Home::start("test").unwrap();
        // Its queue is full: what else is sent there to connect is not answered at all.
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let listener = socket.listen(1).unwrap();
        let addr = listener.local_addr().unwrap();
        let soon = Duration::from_millis(200);
        let mut queued = Vec::new();
        while let Ok(one) = TcpStream::connect_timeout(&addr, soon) {
            queued.push(one);
        }
        let failure = write(&links(addr, &home)).await;
        assert!(matches!(failure, Failure::Unsent(_)), "{failure:?}");
    }

    #[cfg(feature = "etcd-tls")]
    #[tokio::test]
    async fn a_connection_that_takes_longer_than_an_answer_is_waited_for() {
        use tonic::transport::{ClientTlsConfig, Endpoint};

        let home = Home::start("test").unwrap();
        // It takes what comes, and says nothing to the beginning of TLS.
        let slow = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let addr = slow.local_addr().unwrap();
        let url = StoreUrl::parse(&format!("etcd://{addr}?session=2s"), &[MEMBERS]).unwrap();
        let endpoint = Endpoint::from_shared(format!("https://{addr}")).unwrap();
        let endpoint = endpoint.connect_timeout(CONNECT_WITHIN);
        let endpoints = vec![endpoint.tls_config(ClientTlsConfig::new()).unwrap()];
        let links = Links::new(Target { endpoints, ..Target::of(&url).unwrap() }, home.clone());
        slow.set_nonblocking(true).unwrap();
        // A pause of the machine may leave no time for several tries.
        for _ in 0..9 {
            let before = links.requests();
            let asking = links.clone();
            let asking = home.spawn(async move {
                let until = clock::now().plus(CONNECT_WITHIN);
                asking.transact(TxnRequest::default(), Repeat::No, until).await.map(drop)
            });
            let mut begun = Vec::new();
            while !asking.is_finished() {
                begun.extend(slow.accept());
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            let failure = asking.await.unwrap().expect_err("nobody answers");
            assert!(matches!(failure, Failure::Unsent(_)), "{failure:?}");
            // Each try is counted when it begins to wait for the connection.
            if links.requests() - before >= 3 {
                return assert_eq!(begun.len(), 1, "another connection was begun");
            }
        }
        panic!("there were never three tries");
    }

    #[tokio::test]
    async fn who_asks_waits_no_longer_where_the_home_stands_still() {
        let home = Home::start("test").unwrap();
        let silent = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let links = links(silent.local_addr().unwrap(), &home);
        let still = home.stand_still();
        let failure = write(&links).await;
        assert!(matches!(failure, Failure::Unknown(_)), "{failure:?}");
        drop(still);
    }
}
