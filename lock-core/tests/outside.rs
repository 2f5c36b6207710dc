//! A backend from outside of the workspace: which options its client can have, and what the engine
//! does with each kind of fault and each change that it tells of.

#![allow(clippy::disallowed_methods)] // the clock is paused

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lock_core::backend::{
    Attempt, Backend, Capabilities, Change, Claim, ClaimId, Driver, Fault, FaultKind, Grant,
    NotReplicated, Renewal, Scheme, Terms, TokenBlock, UrlError, UrlPart, Withdrawal, url::Login,
};
use lock_core::error::ConnectError;
use lock_core::view::Inspection;
use lock_core::{AcquireError, ClientBuilder, Key, LockClient, LockGuard, LockOptions};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

type Test = Result<(), Box<dyn std::error::Error + Send + Sync>>;

const KINDS: [FaultKind; 6] = [
    FaultKind::Transient,
    FaultKind::Superseded,
    FaultKind::Refused,
    FaultKind::ForeignValue,
    FaultKind::Unready,
    FaultKind::NotReplicated(FOUND),
];

const FOUND: NotReplicated = NotReplicated { wanted: 2, acknowledged: 1, timeout: ms(50) };

/// Reserved with a grant; there are no more for the claim.
const TOKENS: u64 = 8;

const LEASE: Duration = ms(9_000);

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn fault(kind: FaultKind) -> Fault {
    match kind {
        FaultKind::NotReplicated(found) => Fault::not_replicated(found),
        kind => Fault::new(kind, "as the test says"),
    }
}

/// The calls of a verb, and its next answers in place of the store.
#[derive(Debug)]
struct Verb<A> {
    calls: Vec<Instant>,
    next: VecDeque<Result<A, Fault>>,
}

impl<A> Default for Verb<A> {
    fn default() -> Self {
        Self { calls: Vec::new(), next: VecDeque::new() }
    }
}

impl<A> Verb<A> {
    fn asked(&mut self) -> Option<Result<A, Fault>> {
        self.calls.push(Instant::now());
        self.next.pop_front()
    }

    /// How long after `since` each call was.
    fn calls_after(&self, since: Instant) -> Vec<Duration> {
        self.calls.iter().map(|at| at.duration_since(since)).collect()
    }
}

/// One lock, without a line.
#[derive(Debug, Default)]
struct State {
    holder: Option<ClaimId>,
    token: u64,
    change: Option<Change>,
    attempts: Verb<Attempt>,
    renewals: Verb<Renewal>,
    withdrawals: Verb<Withdrawal>,
}

#[derive(Debug, Clone, Default)]
struct Outside {
    state: Arc<Mutex<State>>,
    poke: Arc<Notify>,
}

impl Outside {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody else has the lock, for good.
    fn is_taken(&self) {
        self.state().holder = Some(ClaimId::from_bits(0));
    }

    fn push(&self, change: Change) {
        self.state().change = Some(change);
        self.poke.notify_one();
    }
}

impl Backend for Outside {
    type Claim = Place;

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::none();
        (capabilities.fencing, capabilities.push, capabilities.replicas) = (true, true, true);
        // In this process, and on the paused clock of its runtime.
        capabilities.in_process = true;
        capabilities
    }

    fn claim(&self, _: &Key, id: ClaimId, terms: Terms) -> Place {
        Place { store: self.clone(), id, lease: terms.lease }
    }

    async fn inspect(&self, _: &Key) -> Result<Inspection, Fault> {
        Ok(Inspection::default())
    }
}

struct Place {
    store: Outside,
    id: ClaimId,
    lease: Duration,
}

impl Place {
    fn grant(&self, tokens: TokenBlock) -> Grant {
        Grant::new(tokens, self.lease)
    }
}

impl Claim for Place {
    async fn attempt(&mut self) -> Result<Attempt, Fault> {
        let mut state = self.store.state();
        state.change = None;
        if let Some(answer) = state.attempts.asked() {
            return answer;
        }
        if state.holder.is_some_and(|holder| holder != self.id) {
            return Ok(Attempt::Blocked { ahead: None, recheck: ms(60_000) });
        }
        state.holder = Some(self.id);
        state.token += TOKENS;
        let last = state.token;
        Ok(Attempt::Granted(self.grant(TokenBlock::new(last - TOKENS + 1, last))))
    }

    async fn changed(&mut self) -> Change {
        loop {
            let change = self.store.state().change;
            match change {
                Some(change) => return change,
                None => self.store.poke.notified().await,
            }
        }
    }

    async fn renew(&mut self) -> Result<Renewal, Fault> {
        let mut state = self.store.state();
        state.change = None;
        let held = Renewal::Held(self.grant(TokenBlock::empty()));
        state.renewals.asked().unwrap_or(Ok(held))
    }

    async fn withdraw(&mut self) -> Result<Withdrawal, Fault> {
        let mut state = self.store.state();
        if let Some(answer) = state.withdrawals.asked() {
            return answer;
        }
        match state.holder.take_if(|holder| *holder == self.id) {
            Some(_) => Ok(Withdrawal::Released),
            None => Ok(Withdrawal::NotHeld),
        }
    }
}

/// A store, and a client of it.
async fn stage() -> Result<(Outside, LockClient), Box<dyn std::error::Error + Send + Sync>> {
    let store = Outside::default();
    let defaults = LockOptions::new().with_lease(LEASE).with_wait(ms(5_000)).with_retries(0);
    let locks = LockClient::builder_with(store.clone()).defaults(defaults).connect().await?;
    Ok((store, locks))
}

#[tokio::test(start_paused = true)]
async fn a_client_of_a_backend_from_outside_has_the_options_of_its_builder() -> Test {
    let store = Outside::default();
    let defaults = LockOptions::new().with_wait(ms(70)).with_retries(0);
    let builder = LockClient::builder_with(store.clone()).defaults(defaults).waiters_per_key_max(2);
    let begun = Instant::now();
    let locks = builder.connect().await?;
    assert_eq!((begun.elapsed(), store.state().attempts.calls.len()), (ms(0), 0));
    assert_eq!(locks.defaults(), defaults);
    assert_eq!(LockClient::with_backend(store.clone()).defaults(), LockOptions::new());

    store.is_taken();
    let waiting: Vec<_> = (0..2).map(|_| tokio::spawn(locks.lock("k").acquire())).collect();
    sleep(ms(1)).await;
    let error = locks.lock("k").await.unwrap_err();
    assert!(error.is_overloaded(), "{error}");
    for waiter in waiting {
        assert!(waiter.await?.unwrap_err().is_timeout());
    }
    assert!(begun.elapsed() >= ms(70) && begun.elapsed() < ms(75), "{:?}", begun.elapsed());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_url_of_a_scheme_of_its_own_leads_to_it_and_what_the_url_says_is_there() -> Test {
    const SCHEME: Scheme =
        Scheme::new("outside").with_hosts(2, 7).with_login().with_path().with_tls();
    let store = Outside::default();
    let driver = || {
        let store = store.clone();
        Driver::new(SCHEME, move |url| {
            assert!(url.is_tls() && url.hosts().len() == 2);
            assert_eq!(url.login().map(Login::password), Some("hush"));
            let answer = match url.path() {
                "/locks" => Ok(store.clone()),
                _ => Err(UrlError::new(UrlPart::Path, "there is `/locks` alone").into()),
            };
            std::future::ready(answer)
        })
    };
    let builder = |url: &str| LockClient::builder(url).driver(driver());
    let locks = builder("outside+tls://:hush@a,b/locks").connect().await?;
    locks.lock("k").await?.release().await?;
    assert_eq!(store.state().attempts.calls.len(), 1);

    let refused = async |builder: ClientBuilder| builder.connect().await.unwrap_err();
    let error = refused(builder("outside+tls://:hush@a,b/x")).await;
    assert!(matches!(&error, ConnectError::Url(error) if error.part() == UrlPart::Path), "{error}");
    let error = refused(builder("outsides://:hush@a")).await.to_string();
    assert!(error.contains("`outside+tls:`") && !error.contains("hush"), "{error}");
    let error = refused(builder("memory:").driver(driver())).await;
    assert!(matches!(error, ConnectError::SchemeTaken { scheme: "outside" }), "{error}");
    builder("memory:").connect().await?.lock("k").await?.release().await?;
    Ok(())
}

#[cfg(feature = "deadpool")]
#[tokio::test]
async fn a_pool_is_refused_beside_a_url_through_whose_store_nothing_would_go() -> Test {
    let config = deadpool_redis::Config::from_url("redis://127.0.0.1:1");
    let pool = config.create_pool(None)?;
    for (url, pools, right) in [
        ("memory:", 1, "`redis_pool` is for `redis:`"),
        ("memory:", 2, "`redis_pools` are for `redlock:`"),
        ("redis+tls://h", 2, "others take one `redis_pool`"),
        ("redlock://a,b,c", 1, "one pool for each member"),
        ("redlock://a,b,c", 2, "2 pools for 3 servers"),
    ] {
        let builder = LockClient::builder(url);
        let builder = match pools {
            1 => builder.redis_pool(pool.clone()),
            _ => builder.redis_pools([pool.clone(), pool.clone()]),
        };
        let error = builder.connect().await.unwrap_err();
        assert!(matches!(error, ConnectError::Pools { .. }), "{url}: {error:?}");
        assert!(error.to_string().contains(right), "{url}: {error}");
    }
    Ok(())
}

#[cfg(feature = "deadpool")]
#[tokio::test]
async fn pools_are_refused_beside_a_backend_through_which_nothing_would_go() -> Test {
    let config = deadpool_redis::Config::from_url("redis://127.0.0.1:1");
    let pool = config.create_pool(None)?;
    let builder = || LockClient::builder_with(Outside::default());
    for builder in [builder().redis_pool(pool.clone()), builder().redis_pools([pool])] {
        let error = builder.connect().await.unwrap_err().to_string();
        assert!(error.contains("pools go with a URL"), "{error}");
    }
    Ok(())
}

/// Asks for the lock, whose first attempt meets this.
async fn acquire_after(kind: FaultKind) -> (Outside, Result<LockGuard, AcquireError>, Duration) {
    let (store, locks) = stage().await.expect("a client");
    store.state().attempts.next.push_back(Err(fault(kind)));
    let begun = Instant::now();
    let answer = locks.lock("k").replicas(FOUND.wanted, FOUND.timeout).await;
    (store, answer, begun.elapsed())
}

#[tokio::test(start_paused = true)]
async fn those_who_wait_ask_again_or_are_told_by_the_kind_of_the_fault() -> Test {
    for kind in KINDS {
        let (store, answer, took) = acquire_after(kind).await;
        let asked = store.state().attempts.calls.len();
        match kind {
            FaultKind::Transient => {
                assert!(took >= ms(10) && took <= ms(22), "{took:?}");
                answer?.release().await?;
            }
            FaultKind::Superseded => {
                assert_eq!(took, ms(0), "another server is there to be asked");
                answer?.release().await?;
            }
            FaultKind::NotReplicated(_) => {
                let error = answer.unwrap_err();
                assert!(error.is_not_replicated() && error.is_retryable(), "{error}");
                sleep(ms(1)).await;
                assert_eq!(store.state().withdrawals.calls.len(), 1, "it was granted");
            }
            kind => {
                let error = answer.unwrap_err();
                assert!(error.is_unavailable(), "{error}");
                assert_eq!(error.is_retryable(), kind == FaultKind::Unready, "{error}");
            }
        }
        let again = matches!(kind, FaultKind::Transient | FaultKind::Superseded);
        assert_eq!(asked, 1 + usize::from(again), "{kind:?}");
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_store_may_grant_without_an_end_and_need_not_be_asked_again() -> Test {
    let (store, locks) = stage().await?;
    let day = ms(86_400_000);
    let endless = Grant::new(TokenBlock::new(1, TOKENS), Duration::MAX);
    store.state().attempts.next.push_back(Ok(Attempt::Granted(endless)));
    store.state().withdrawals.next.push_back(Ok(Withdrawal::Released));
    let guard = locks.lock("k").await?;
    sleep(day).await;
    assert!(guard.is_held() && guard.lease_left() > day, "{:?}", guard.lease_left());
    assert_eq!(store.state().renewals.calls.len(), 0, "it is not over for long");
    guard.release().await?;

    // A waiter is told by a push alone.
    let blocked = Attempt::Blocked { ahead: None, recheck: Duration::MAX };
    store.state().attempts.next.push_back(Ok(blocked));
    let waiting = tokio::spawn(locks.lock("k").wait(day).acquire());
    sleep(day / 2).await;
    assert!(!waiting.is_finished());
    store.push(Change::Here);
    waiting.await??.release().await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn whoever_does_not_wait_is_told_of_every_fault() -> Test {
    for kind in KINDS {
        let (store, locks) = stage().await?;
        store.state().attempts.next.push_back(Err(fault(kind)));
        let error = locks.lock("k").try_acquire().await.unwrap_err();
        let passes = !matches!(kind, FaultKind::Refused | FaultKind::ForeignValue);
        assert_eq!(error.is_retryable(), passes, "{kind:?}: {error}");
        assert_eq!(store.state().attempts.calls.len(), 1, "{kind:?}");
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_renewal_is_made_again_at_once_if_superseded_and_else_at_a_ninth() -> Test {
    for kind in KINDS {
        let (store, locks) = stage().await?;
        let guard = locks.lock("k").await?;
        let begun = Instant::now();
        store.state().renewals.next.push_back(Err(fault(kind)));
        sleep(LEASE * 2).await;
        assert!(guard.is_held(), "{kind:?}: a fault is no loss");
        let calls = store.state().renewals.calls_after(begun);
        let pause = calls[1] - calls[0];
        match kind {
            FaultKind::Superseded => assert_eq!(pause, ms(0)),
            _ => assert!(pause > ms(900) && pause < ms(1_100), "{kind:?}: {pause:?}"),
        }
        guard.release().await?;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_release_says_what_its_withdrawals_can_have_brought_about() -> Test {
    use Withdrawal::{Elsewhere, NotHeld, Released};
    let lost = || Err(fault(FaultKind::Transient));
    let unsent = || lost().map_err(Fault::unsent);
    let moved = || Err(fault(FaultKind::Superseded));
    let moved_unsent = || moved().map_err(Fault::unsent);
    let refused = || Err(fault(FaultKind::Refused));
    for (number, (answers, expected)) in [
        (vec![Ok(Released)], "released"),
        (vec![Ok(NotHeld)], "not held"),
        (vec![Ok(Elsewhere)], "not held"),
        (vec![Err(fault(FaultKind::Unready)), Ok(Released)], "released"),
        // The last answer was lost, not the lock.
        (vec![lost(), Ok(NotHeld)], "released"),
        (vec![unsent(), lost(), Ok(NotHeld)], "released"),
        // Nothing of ours has reached the store, so the lock was lost before.
        (vec![unsent(), Ok(NotHeld)], "not held"),
        (vec![unsent(), unsent(), Ok(Elsewhere)], "not held"),
        (vec![moved_unsent(), Ok(NotHeld)], "not held"),
        // The server that has gone may not have told this one of the grant.
        (vec![lost(), Ok(Elsewhere)], "unknown"),
        (vec![moved(), Ok(NotHeld)], "unknown"),
        (vec![lost(), moved_unsent(), Ok(NotHeld)], "unknown"),
        (vec![refused(), Ok(Released)], "unknown"),
    ]
    .into_iter()
    .enumerate()
    {
        let (store, locks) = stage().await?;
        let guard = locks.lock("k").await?;
        let is_final = matches!(&answers[0], Err(fault) if !fault.is_transient());
        let asked = if is_final { 1 } else { answers.len() };
        store.state().withdrawals.next.extend(answers);
        let answer = match guard.release().await {
            Ok(()) => "released",
            Err(error) if error.is_not_held() => "not held",
            Err(error) => {
                assert!(error.is_unavailable());
                "unknown"
            }
        };
        assert_eq!(answer, expected, "case {number}");
        assert_eq!(store.state().withdrawals.calls.len(), asked, "case {number}");
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_change_ends_the_pause_after_a_fault_only_if_there_is_another_server() -> Test {
    for change in [Change::Here, Change::Elsewhere] {
        let (store, locks) = stage().await?;
        // The pause after the third is 40 ms at least.
        store.state().attempts.next.extend([(); 3].map(|()| Err(fault(FaultKind::Transient))));
        let acquire = tokio::spawn(locks.lock("k").acquire());
        while store.state().attempts.calls.len() < 3 {
            sleep(ms(1)).await;
        }
        store.push(change);
        let guard = timeout(ms(10), acquire).await;
        assert_eq!(guard.is_ok(), change == Change::Elsewhere);
        if let Ok(guard) = guard {
            guard??.release().await?;
        }
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_holder_renews_at_a_change_and_with_another_server_before_it_hands_on() -> Test {
    for change in [Change::Here, Change::Elsewhere] {
        let (store, locks) = stage().await?;
        let guard = locks.lock("k").await?;
        let next = tokio::spawn(locks.lock("k").acquire());
        sleep(ms(1)).await;
        let begun = Instant::now();
        let asked = store.state().renewals.calls.len();
        store.push(change);
        sleep(ms(1)).await;
        assert_eq!(store.state().renewals.calls.len(), asked + 1, "{change:?}");
        store.state().renewals.next.push_back(Err(fault(FaultKind::Transient)));
        store.push(change);
        sleep(ms(1)).await;
        assert_eq!(store.state().renewals.calls.len(), asked + 2, "{change:?}");
        guard.release().await?;
        let next = next.await??;
        match change {
            Change::Here | Change::Tried => {
                assert_eq!(begun.elapsed(), ms(2), "it is handed on without the store");
            }
            // The renewal was not answered: it may have given the key to another.
            Change::Elsewhere => assert_eq!(store.state().renewals.calls.len(), asked + 3),
        }
        assert_eq!(store.state().attempts.calls.len(), 1);
        next.release().await?;
    }
    Ok(())
}
