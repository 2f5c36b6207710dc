//! A backend that answers as the test says: at once, late, never, or not at all.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::backend::{
    Attempt, Backend, BoxFuture, Capabilities, Change, Claim, ClaimId, Enrolment, Fault, FaultKind,
    Follower, Following, Member, MemberClaim, Probe, Renewal, Terms, Withdrawal,
};
use crate::ground::clock;
use crate::key::Key;
use crate::view::{Holder, Inspection, KeyList};

/// A verb of a [`Claim`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Verb {
    /// [`Claim::attempt`].
    Attempt,
    /// [`Claim::renew`].
    Renew,
    /// [`Claim::withdraw`].
    Withdraw,
    /// [`Claim::downgrade`].
    Downgrade,
    /// [`Follower::leader`], recorded as one of claim 0 without a reply; so is
    /// [`Follower::leave`], as a `Withdraw`.
    Follow,
    /// [`Member::probe`] and [`Member::enrol`]: no verb of a claim, and recorded as one of claim 0
    /// without a reply. So are the next two.
    Probe,
    /// [`Backend::inspect`].
    Inspect,
    /// [`Backend::force_release`].
    ForceRelease,
}

impl Verb {
    /// All of them.
    pub const ALL: [Self; VERBS] = [
        Self::Attempt,
        Self::Renew,
        Self::Withdraw,
        Self::Downgrade,
        Self::Follow,
        Self::Probe,
        Self::Inspect,
        Self::ForceRelease,
    ];
}

/// How many verbs there are.
const VERBS: usize = 8;

/// The claim of a request that is of none.
const NO_CLAIM: ClaimId = ClaimId::from_bits(0);

/// The fate of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Act {
    /// It is served.
    Ok,
    /// It does not reach the store: a fault of this kind at once.
    Err(FaultKind),
    /// It takes effect, and the reply is lost: a transient fault at once.
    Lost,
    /// It takes effect at once, and is answered after this time.
    Slow(Duration),
    /// It takes effect at once, and is answered when the test opens the gate.
    Never,
    /// It takes effect, and is answered, when the test opens the gate.
    Stuck,
}

/// The store's answer, whether the caller got to see it or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reply {
    /// To an attempt.
    Attempt(Attempt),
    /// To a renewal.
    Renewal(Renewal),
    /// To a withdrawal.
    Withdrawal(Withdrawal),
}

/// One request.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Call {
    /// The verb that was asked.
    pub verb: Verb,
    /// The claim that asked.
    pub claim: ClaimId,
    /// When, by Tokio's clock.
    pub at: Instant,
    /// Its fate, as the script had it.
    pub act: Act,
    /// The store's answer; `None` if it was not reached, or failed by itself.
    pub reply: Option<Reply>,
    /// Whether the caller was given an answer or a fault.
    pub ended: bool,
}

#[derive(Debug)]
struct Rules {
    next: [VecDeque<Act>; VERBS],
    always: [Act; VERBS],
    calls: Vec<Call>,
    claims: Vec<(ClaimId, Terms)>,
}

#[derive(Debug)]
struct Stage {
    rules: Mutex<Rules>,
    /// Counts the openings of each verb's gate.
    gates: [watch::Sender<u64>; VERBS],
    /// Poked with every call.
    called: watch::Sender<()>,
}

/// The test's hand on a [`Scripted`] backend. It keeps a record of every call, so it is for
/// thousands of requests, not for millions.
#[derive(Debug, Clone)]
pub struct Script(Arc<Stage>);

impl Script {
    fn rules(&self) -> MutexGuard<'_, Rules> {
        self.0.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on `verb` does this, unless [`next`](Self::next) says otherwise.
    pub fn always(&self, verb: Verb, act: Act) {
        self.rules().always[verb as usize] = act;
    }

    /// One coming request does this; called again, the one after it.
    pub fn next(&self, verb: Verb, act: Act) {
        self.rules().next[verb as usize].push_back(act);
    }

    /// Lets the requests go on that stand at the gate of `verb` now.
    pub fn open(&self, verb: Verb) {
        self.0.gates[verb as usize].send_modify(|opened| *opened += 1);
    }

    /// From now on everything is served, and what stands at a gate goes on.
    pub fn heal(&self) {
        for verb in Verb::ALL {
            self.rules().next[verb as usize].clear();
            self.always(verb, Act::Ok);
            self.open(verb);
        }
    }

    /// Every call so far, in order.
    #[must_use]
    pub fn calls(&self) -> Vec<Call> {
        self.rules().calls.clone()
    }

    /// Every claim that was opened so far, and on which terms, in order.
    #[must_use]
    pub fn claims(&self) -> Vec<(ClaimId, Terms)> {
        self.rules().claims.clone()
    }

    /// The calls of one verb so far, in order.
    #[must_use]
    pub fn calls_of(&self, verb: Verb) -> Vec<Call> {
        self.rules().calls.iter().filter(|call| call.verb == verb).copied().collect()
    }

    /// Waits until `verb` was called `times` times, counted from the beginning.
    ///
    /// # Cancel safety
    ///
    /// Keeps no state.
    pub async fn called(&self, verb: Verb, times: usize) {
        let mut calls = self.0.called.subscribe();
        while self.calls_of(verb).len() < times {
            // The sender lives as long as `self`.
            drop(calls.changed().await);
        }
    }

    fn begin(&self, verb: Verb, claim: ClaimId) -> Pass {
        let mut rules = self.rules();
        let act = rules.next[verb as usize].pop_front().unwrap_or(rules.always[verb as usize]);
        let call = Call { verb, claim, at: clock::now(), act, reply: None, ended: false };
        rules.calls.push(call);
        // Under the mutex, so that no opening comes between the rule and the gate.
        let gate = self.0.gates[verb as usize].subscribe();
        let pass = Pass { script: self.clone(), number: rules.calls.len() - 1, act, gate };
        drop(rules);
        self.0.called.send_replace(());
        pass
    }
}

/// One request on its way.
struct Pass {
    script: Script,
    number: usize,
    act: Act,
    gate: watch::Receiver<u64>,
}

impl Pass {
    /// Before the store is asked.
    async fn enter(mut self) -> Result<Self, Fault> {
        match self.act {
            Act::Err(kind) => {
                self.end();
                Err(Fault::new(kind, "the script lets no request through").unsent())
            }
            Act::Stuck => {
                drop(self.gate.changed().await);
                Ok(self)
            }
            _ => Ok(self),
        }
    }

    /// After the store has answered.
    async fn leave<T: Copy>(
        self,
        answer: Result<T, Fault>,
        reply: fn(T) -> Reply,
    ) -> Result<T, Fault> {
        self.script.rules().calls[self.number].reply = answer.as_ref().ok().copied().map(reply);
        self.pass_on(answer).await
    }

    async fn pass_on<T>(mut self, answer: Result<T, Fault>) -> Result<T, Fault> {
        let answer = match self.act {
            Act::Lost => Err(Fault::new(FaultKind::Transient, "the script lost the reply")),
            Act::Slow(time) => {
                tokio::time::sleep(time).await;
                answer
            }
            Act::Never => {
                drop(self.gate.changed().await);
                answer
            }
            Act::Ok | Act::Err(_) | Act::Stuck => answer,
        };
        self.end();
        answer
    }

    fn end(&self) {
        self.script.rules().calls[self.number].ended = true;
    }
}

/// A backend whose requests do what its [`Script`] says before and after they reach `B`.
#[derive(Debug, Clone)]
pub struct Scripted<B> {
    inner: B,
    script: Script,
}

impl<B: Backend> Scripted<B> {
    /// Serves everything, until the script says otherwise.
    #[must_use]
    pub fn new(inner: B) -> (Self, Script) {
        let rules = Rules {
            next: Default::default(),
            always: [Act::Ok; VERBS],
            calls: Vec::new(),
            claims: Vec::new(),
        };
        let gates = std::array::from_fn(|_| watch::Sender::new(0));
        let stage = Stage { rules: Mutex::new(rules), gates, called: watch::Sender::new(()) };
        let script = Script(Arc::new(stage));
        (Self { inner, script: script.clone() }, script)
    }

    fn claimed(&self, inner: B::Claim, id: ClaimId, terms: Terms) -> ScriptedClaim<B::Claim> {
        self.script.rules().claims.push((id, terms));
        ScriptedClaim { inner, id, script: self.script.clone() }
    }
}

impl<B: Backend> Backend for Scripted<B> {
    type Claim = ScriptedClaim<B::Claim>;

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn claim(&self, key: &Key, id: ClaimId, terms: Terms) -> Self::Claim {
        self.claimed(self.inner.claim(key, id, terms), id, terms)
    }

    fn candidate(&self, key: &Key, id: ClaimId, terms: Terms, value: &Arc<str>) -> Self::Claim {
        self.claimed(self.inner.candidate(key, id, terms, value), id, terms)
    }

    fn forced(&self, key: &Key, id: ClaimId, terms: Terms) -> Self::Claim {
        self.claimed(self.inner.forced(key, id, terms), id, terms)
    }

    fn follow(&self, key: &Key, lease: Duration) -> Box<dyn Follower> {
        let inner = self.inner.follow(key, lease);
        Box::new(ScriptedFollower { inner, script: self.script.clone() })
    }

    async fn inspect(&self, key: &Key) -> Result<Inspection, Fault> {
        let pass = self.script.begin(Verb::Inspect, NO_CLAIM).enter().await?;
        pass.pass_on(self.inner.inspect(key).await).await
    }

    async fn holder(&self, key: &Key) -> Result<Option<Holder>, Fault> {
        self.inner.holder(key).await
    }

    async fn request_revoke(&self, key: &Key) -> Result<bool, Fault> {
        self.inner.request_revoke(key).await
    }

    async fn force_release(&self, key: &Key) -> Result<bool, Fault> {
        let pass = self.script.begin(Verb::ForceRelease, NO_CLAIM).enter().await?;
        pass.pass_on(self.inner.force_release(key).await).await
    }

    async fn list(&self, within: Option<&Key>, max: usize) -> Result<KeyList, Fault> {
        self.inner.list(within, max).await
    }

    fn requests(&self) -> u64 {
        self.inner.requests()
    }
}

impl<M: Member> Member for Scripted<M> {
    async fn probe(&self) -> Result<Probe, Fault> {
        let pass = self.script.begin(Verb::Probe, NO_CLAIM).enter().await?;
        pass.pass_on(self.inner.probe().await).await
    }

    async fn enrol(&self, seen: &Probe, enrolment: &Enrolment) -> Result<bool, Fault> {
        let pass = self.script.begin(Verb::Probe, NO_CLAIM).enter().await?;
        pass.pass_on(self.inner.enrol(seen, enrolment).await).await
    }

    fn serve_under(&self, enrolment: Option<&Enrolment>) {
        self.inner.serve_under(enrolment);
    }
}

/// A claim of a [`Scripted`] backend. Pushes are not touched.
pub struct ScriptedClaim<C> {
    inner: C,
    id: ClaimId,
    script: Script,
}

impl<C> fmt::Debug for ScriptedClaim<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptedClaim").field("id", &self.id).finish_non_exhaustive()
    }
}

impl<C: Claim> Claim for ScriptedClaim<C> {
    async fn attempt(&mut self) -> Result<Attempt, Fault> {
        let pass = self.script.begin(Verb::Attempt, self.id).enter().await?;
        pass.leave(self.inner.attempt().await, Reply::Attempt).await
    }

    async fn changed(&mut self) -> Change {
        self.inner.changed().await
    }

    async fn renew(&mut self) -> Result<Renewal, Fault> {
        let pass = self.script.begin(Verb::Renew, self.id).enter().await?;
        pass.leave(self.inner.renew().await, Reply::Renewal).await
    }

    async fn downgrade(&mut self) -> Result<Renewal, Fault> {
        let pass = self.script.begin(Verb::Downgrade, self.id).enter().await?;
        pass.leave(self.inner.downgrade().await, Reply::Renewal).await
    }

    async fn withdraw(&mut self) -> Result<Withdrawal, Fault> {
        let pass = self.script.begin(Verb::Withdraw, self.id).enter().await?;
        pass.leave(self.inner.withdraw().await, Reply::Withdrawal).await
    }
}

/// One who follows at a [`Scripted`] backend. Pushes are not touched.
struct ScriptedFollower {
    inner: Box<dyn Follower>,
    script: Script,
}

impl Follower for ScriptedFollower {
    fn leader(&mut self) -> BoxFuture<'_, Result<Following, Fault>> {
        Box::pin(async {
            let pass = self.script.begin(Verb::Follow, NO_CLAIM).enter().await?;
            pass.pass_on(self.inner.leader().await).await
        })
    }

    fn changed(&mut self) -> BoxFuture<'_, ()> {
        self.inner.changed()
    }

    fn leave(&mut self) -> BoxFuture<'_, Result<(), Fault>> {
        Box::pin(async {
            let pass = self.script.begin(Verb::Withdraw, NO_CLAIM).enter().await?;
            pass.pass_on(self.inner.leave().await).await
        })
    }
}

impl<C: MemberClaim> MemberClaim for ScriptedClaim<C> {
    fn count_from(&mut self, clock: u64) {
        self.inner.count_from(clock);
    }

    async fn raise(&mut self, to: u64) -> Result<bool, Fault> {
        self.inner.raise(to).await
    }
}
