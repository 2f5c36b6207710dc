//! Links to the members of a cluster, and the requests that are sent over them.
//!
//! One link is used at a time. It is left for the next member as soon as one does not answer in
//! time, cannot be connected to, or says that it has no leader; what is under way over it goes on.
//! All requests run at home and to their end, whatever becomes of who asked.

use std::future::{Future, ready};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::{Stream, stream};
use http::uri::PathAndQuery;
use prost::Message;
use tokio::sync::watch;
use tokio::time::timeout_at;
use tonic::client::Grpc;
use tonic::metadata::{AsciiMetadataValue, MetadataMap};
use tonic::transport::Channel;
use tonic::{Request, Status, Streaming};
use tonic_prost::ProstCodec;

use super::fault::{self, Failure};
use super::target::Target;
use super::wire::{
    AuthenticateRequest, AuthenticateResponse, LeaseRequest, LeaseResponse, RangeRequest,
    RangeResponse, StatusResponse, TxnRequest, TxnResponse, WatchRequest, WatchResponse,
};
use crate::backend::io::Home;
use crate::ground::{FAULT_PAUSES, Plus as _, clock, lock};

/// How long one request may take, on all members together.
pub(super) const REQUEST_WITHIN: Duration = Duration::from_secs(2);

/// How long one member may take, as a part of the session, before the next is asked.
const PATIENCE_SHARE: u32 = 10;
const PATIENCE_MIN: Duration = Duration::from_millis(300);
const PATIENCE_MAX: Duration = Duration::from_secs(1);

/// The largest answer: a line of some hundred thousand claims.
const ANSWER_BYTES_MAX: usize = 64 << 20;

const RANGE: &str = "/etcdserverpb.KV/Range";
const TXN: &str = "/etcdserverpb.KV/Txn";
pub(super) const GRANT: &str = "/etcdserverpb.Lease/LeaseGrant";
pub(super) const REVOKE: &str = "/etcdserverpb.Lease/LeaseRevoke";
const KEEP_ALIVE: &str = "/etcdserverpb.Lease/LeaseKeepAlive";
const WATCH: &str = "/etcdserverpb.Watch/Watch";
const AUTHENTICATE: &str = "/etcdserverpb.Auth/Authenticate";
const STATUS: &str = "/etcdserverpb.Maintenance/Status";

pub(super) type Answer<T> = Result<T, Failure>;

/// Whether a request whose answer was lost may be sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Repeat {
    /// It changes nothing more the second time, however late the first one is.
    Yes,
    No,
}

/// The link to one member.
#[derive(Debug)]
pub(super) struct Link {
    channel: Channel,
    member: usize,
    left: watch::Sender<bool>,
}

impl Link {
    /// Resolves when another link is used in its place.
    pub(super) async fn left(&self) {
        // The sender is here.
        drop(self.left.subscribe().wait_for(|left| *left).await);
    }
}

/// As whom requests are sent.
#[derive(Debug, Clone)]
enum Login {
    Unknown,
    /// The cluster asks for none.
    Off,
    Token(AsciiMetadataValue),
}

/// The link in use, and which members were left.
#[derive(Debug)]
struct Current {
    link: Option<Arc<Link>>,
    /// When each member was left last.
    left_at: Vec<Option<Instant>>,
}

impl Current {
    /// Whom to ask behind this member: the first of those who were never left, else of those who
    /// were left before the others.
    fn next(&mut self, member: usize, now: Instant) -> usize {
        if let Some(left_at) = self.left_at.get_mut(member) {
            *left_at = Some(now);
        }
        let behind = (0..self.left_at.len()).cycle().skip(member.saturating_add(1));
        let others = behind.take(self.left_at.len());
        others.min_by_key(|other| self.left_at.get(*other).copied().flatten()).unwrap_or(0)
    }
}

/// All links of one client.
#[derive(Debug)]
pub(super) struct Links {
    pub(super) target: Target,
    pub(super) home: Arc<Home>,
    current: Mutex<Current>,
    login: Mutex<Login>,
    requests: AtomicU64,
}

impl Links {
    pub(super) fn new(target: Target, home: Arc<Home>) -> Arc<Self> {
        let current = Current { link: None, left_at: vec![None; target.endpoints.len()] };
        let (current, login) = (Mutex::new(current), Mutex::new(Login::Unknown));
        Arc::new(Self { target, home, current, login, requests: AtomicU64::new(0) })
    }

    pub(super) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// How long one member may take.
    fn patience(&self) -> Duration {
        (self.target.session / PATIENCE_SHARE).clamp(PATIENCE_MIN, PATIENCE_MAX)
    }

    /// The link in use. To be called at home, as it is served by the runtime that makes it.
    pub(super) fn link(&self) -> Arc<Link> {
        let mut current = lock(&self.current);
        current.link.get_or_insert_with(|| self.link_to(0)).clone()
    }

    fn link_to(&self, member: usize) -> Arc<Link> {
        let channel = self.target.endpoints[member].connect_lazy();
        Arc::new(Link { channel, member, left: watch::Sender::new(false) })
    }

    /// Uses another link than this one from now on: to the next member, or anew to the only one.
    fn leave(&self, link: &Arc<Link>) {
        let mut current = lock(&self.current);
        if current.link.as_ref().is_some_and(|current| Arc::ptr_eq(current, link)) {
            let next = current.next(link.member, clock::now());
            current.link = Some(self.link_to(next));
        }
        drop(current);
        link.left.send_replace(true);
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
        Q: Message + Clone + 'static,
        R: Message + Default + 'static,
    {
        let this = self.clone();
        let asking = self.home.spawn(async move {
            let once = |this: Arc<Self>, link: Arc<Link>| {
                let request = request.clone();
                async move { this.once(&link, path, request).await }
            };
            this.until_answered(repeat, until, once).await
        });
        asking.await.unwrap_or_else(|_| Err(Failure::Unknown(fault::timed_out(REQUEST_WITHIN))))
    }

    /// Tries one link after the other. Of the time, each has a share.
    async fn until_answered<R, F: Future<Output = Answer<R>>>(
        self: &Arc<Self>,
        repeat: Repeat,
        until: Instant,
        once: impl Fn(Arc<Self>, Arc<Link>) -> F,
    ) -> Answer<R> {
        let (mut failures, mut logins, mut unknown) = (0_u32, 0, None);
        loop {
            let link = self.link();
            let end = until.min(clock::now().plus(self.patience()));
            let answer = timeout_at(clock::timer(end), once(self.clone(), link.clone())).await;
            let late = |_| Err(Failure::Unknown(fault::timed_out(self.patience())));
            let failure = match answer.unwrap_or_else(late) {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            match failure {
                Failure::TokenOver if logins == 0 => {
                    logins += 1;
                    *lock(&self.login) = Login::Unknown;
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
                let fault = unknown.unwrap_or_else(|| fault::timed_out(REQUEST_WITHIN).unsent());
                return Err(match fault.is_unsent() {
                    true => Failure::Unsent(fault),
                    false => Failure::Unknown(fault),
                });
            }
            clock::sleep_until(next).await;
        }
    }

    /// Asks the member at the end of this link.
    async fn once<Q, R>(&self, link: &Arc<Link>, path: &'static str, request: Q) -> Answer<R>
    where
        Q: Message + 'static,
        R: Message + Default + 'static,
    {
        let request = self.signed(link, request).await?;
        unary(&link.channel, path, request).await
    }

    /// Adds as whom it is sent, and that a member without a leader is to say so at once.
    async fn signed<Q>(&self, link: &Arc<Link>, request: Q) -> Answer<Request<Q>> {
        let mut request = Request::new(request);
        self.sign(link, request.metadata_mut()).await?;
        self.requests.fetch_add(1, Ordering::Relaxed);
        Ok(request)
    }

    async fn sign(&self, link: &Arc<Link>, metadata: &mut MetadataMap) -> Answer<()> {
        metadata.insert("hasleader", AsciiMetadataValue::from_static("true"));
        let Some(who) = &self.target.login else { return Ok(()) };
        let mut login = lock(&self.login).clone();
        if matches!(login, Login::Unknown) {
            let name = who.user().unwrap_or_default().to_owned();
            let asked = AuthenticateRequest { name, password: who.password().to_owned() };
            self.requests.fetch_add(1, Ordering::Relaxed);
            let answer = unary(&link.channel, AUTHENTICATE, Request::new(asked)).await;
            login = match answer {
                Ok(AuthenticateResponse { token }) => {
                    let odd = |_| Failure::of(Status::internal("a token that is no text"));
                    let mut token: AsciiMetadataValue = token.parse().map_err(odd)?;
                    // It is shown by nobody's `Debug`.
                    token.set_sensitive(true);
                    Login::Token(token)
                }
                Err(Failure::Answer(fault)) if fault.to_string().contains("not enabled") => {
                    Login::Off
                }
                Err(failure) => return Err(failure),
            };
            lock(&self.login).clone_from(&login);
        }
        if let Login::Token(token) = login {
            metadata.insert("authorization", token);
        }
        Ok(())
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

    /// Which version a member is of.
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
        let once = |this: Arc<Self>, link: Arc<Link>| async move {
            let one = stream::once(ready(LeaseRequest { id: lease }));
            let request = this.signed(&link, one).await?;
            let mut answers: Streaming<LeaseResponse> =
                streaming(&link.channel, KEEP_ALIVE, request).await?;
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

async fn unary<Q, R>(channel: &Channel, path: &'static str, request: Request<Q>) -> Answer<R>
where
    Q: Message + 'static,
    R: Message + Default + 'static,
{
    let mut grpc = ready_on(channel).await?;
    let path = PathAndQuery::from_static(path);
    let answer = grpc.unary(request, path, ProstCodec::<Q, R>::default()).await;
    answer.map(tonic::Response::into_inner).map_err(Failure::of)
}

async fn streaming<Q, R>(
    channel: &Channel,
    path: &'static str,
    request: Request<impl Stream<Item = Q> + Send + 'static>,
) -> Answer<Streaming<R>>
where
    Q: Message + 'static,
    R: Message + Default + 'static,
{
    let mut grpc = ready_on(channel).await?;
    let path = PathAndQuery::from_static(path);
    let answer = grpc.streaming(request, path, ProstCodec::<Q, R>::default()).await;
    answer.map(tonic::Response::into_inner).map_err(Failure::of)
}

async fn ready_on(channel: &Channel) -> Answer<Grpc<Channel>> {
    let mut grpc = Grpc::new(channel.clone()).max_decoding_message_size(ANSWER_BYTES_MAX);
    match grpc.ready().await {
        Ok(()) => Ok(grpc),
        Err(error) => Err(Failure::of(Status::from_error(error.into()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_member_that_was_left_longest_ago_is_asked_next() {
        let now = clock::now();
        let mut current = Current { link: None, left_at: vec![None; 3] };
        let mut at = 0;
        let mut asked = Vec::new();
        for second in 0..4 {
            at = current.next(at, now + Duration::from_secs(second));
            asked.push(at);
        }
        assert_eq!(asked, [1, 2, 0, 1]);
        // One that has just been left is not asked before one that was well for long.
        assert_eq!(current.next(1, now + Duration::from_secs(9)), 2);
        let mut alone = Current { link: None, left_at: vec![None] };
        assert_eq!(alone.next(0, now), 0);
    }
}
