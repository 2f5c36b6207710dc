//! The verbs as the engine uses them.

use std::time::{Duration, Instant};

use tokio::time::{sleep, timeout};

use super::played::ran_out;
use crate::backend::{
    Attempt, Backend, Capabilities, Claim, ClaimId, Fault, Follower, Following, Grant, Mode,
    Renewal, Terms, Withdrawal,
};
use crate::ground::clock;
use crate::key::Key;
use crate::test_util::answered::answered;
use crate::test_util::any::{AnyBackend, AnyClaim};
use crate::test_util::scripted::{Script, Scripted};
use crate::test_util::subject::Subject;
use crate::view::{Holder, Inspection, Leader, Waiter};

/// Tokens that a claim asks for.
const FENCES: u32 = 16;

/// A lease that does not end while a property looks on.
const LONG: Duration = Duration::from_secs(60);

/// More questions than any property needs: a `changed` that never stops resolving must not keep
/// a paused clock from going on.
const ATTEMPTS_MAX: u32 = 100_000;

/// How often a condition is looked at.
pub(super) const LOOK: Duration = Duration::from_millis(5);

/// One property at work on one key.
pub(super) struct Case<'a> {
    pub(super) subject: &'a dyn Subject,
    pub(super) key: Key,
}

impl<'a> Case<'a> {
    pub(super) fn new(subject: &'a dyn Subject, property: &str) -> Self {
        let id = ClaimId::random().to_string();
        let key = Key::from_segments(["conformance", property, id.as_str()]);
        Self { subject, key: key.expect("a short key") }
    }

    /// The same property on a further key.
    pub(super) fn other(&self, number: usize) -> Self {
        let text = format!("{}:{number}", self.key);
        Self { subject: self.subject, key: Key::from_encoded(text).expect("a short key") }
    }

    pub(super) async fn process(&self) -> Process {
        let mode = self.subject.mode();
        Process { backend: self.subject.open().await, key: self.key.clone(), mode }
    }

    pub(super) fn lease(&self) -> Duration {
        self.subject.lease()
    }

    /// A lease, and what the store may need on top.
    pub(super) fn a_lease_later(&self) -> Duration {
        self.lease() + self.subject.slack()
    }

    pub(super) fn soon(&self) -> Duration {
        self.subject.slack()
    }

    /// `next` takes a key that was given back a moment ago. Where there is no one line, one member may
    /// hear of that after the others, and who comes in between is blocked.
    pub(super) async fn takes(&self, process: &Process, next: &mut Asker) -> Grant {
        match process.capabilities().fifo {
            true => next.takes().await,
            false => next.is_granted(self.soon()).await,
        }
    }

    /// Nobody holds or waits, soon.
    pub(super) async fn is_free(&self, process: &Process) {
        let what = "nobody holds the key or waits for it";
        eventually(what, self.soon(), async || is_idle(&process.inspect().await)).await;
    }
}

fn is_idle(seen: &Inspection) -> bool {
    seen.holders.is_empty() && seen.waiters.is_empty()
}

/// Asks until `holds`.
pub(super) async fn eventually(what: &str, within: Duration, mut holds: impl AsyncFnMut() -> bool) {
    let end = clock::now() + within;
    while !holds().await {
        assert!(clock::now() < end, "after {within:?} it still does not hold: {what}");
        sleep(LOOK).await;
    }
}

/// A process at the store.
pub(super) struct Process {
    pub(super) backend: AnyBackend,
    pub(super) key: Key,
    /// That of its claims, but for [`claim_in`](Self::claim_in).
    mode: Mode,
}

impl Process {
    pub(super) fn capabilities(&self) -> Capabilities {
        Backend::capabilities(&self.backend)
    }

    /// The same process, whose replies the script can lose.
    pub(super) fn scripted(self) -> (Self, Script) {
        let (backend, script) = Scripted::new(self.backend);
        (Self { backend: AnyBackend::new(backend), ..self }, script)
    }

    /// The same process, at another key.
    pub(super) fn at(&self, key: Key) -> Self {
        Self { backend: self.backend.clone(), key, mode: self.mode }
    }

    /// A claim that waits, with a lease that does not end by itself here.
    pub(super) fn claim(&self, name: &'static str) -> Asker {
        self.claim_for(LONG, name)
    }

    pub(super) fn claim_for(&self, lease: Duration, name: &'static str) -> Asker {
        self.asker(self.mode, lease, true, name)
    }

    /// A claim in this mode, whatever that of the property.
    pub(super) fn claim_in(&self, mode: Mode, name: &'static str) -> Asker {
        self.asker(mode, LONG, true, name)
    }

    pub(super) fn claim_in_for(&self, mode: Mode, lease: Duration, name: &'static str) -> Asker {
        self.asker(mode, lease, true, name)
    }

    fn asker(&self, mode: Mode, lease: Duration, queues: bool, name: &'static str) -> Asker {
        let id = ClaimId::random();
        let claim = self.backend.claim(&self.key, id, terms(mode, lease, queues));
        Asker::new(claim, id, name)
    }

    /// One that takes the key from all who hold it.
    pub(super) fn forcer(&self, name: &'static str) -> Asker {
        let id = ClaimId::random();
        let claim = self.backend.forced(&self.key, id, terms(Mode::Exclusive, LONG, true));
        Asker::new(claim, id, name)
    }

    /// One that stands for election.
    pub(super) fn candidate(&self, value: &'static str) -> Asker {
        self.candidate_for(LONG, value)
    }

    pub(super) fn candidate_for(&self, lease: Duration, value: &'static str) -> Asker {
        let id = ClaimId::random();
        let terms = terms(Mode::Exclusive, lease, true);
        let claim = self.backend.candidate(&self.key, id, terms, &value.into());
        Asker::new(claim, id, value)
    }

    /// One that follows an election.
    pub(super) fn follower(&self, name: &'static str) -> Watcher {
        Watcher { follower: self.backend.follow(&self.key, LONG), name, sent: clock::now() }
    }

    /// A claim in this mode that may not stand in line.
    pub(super) fn unqueued_in(&self, mode: Mode, name: &'static str) -> Asker {
        self.asker(mode, LONG, false, name)
    }

    /// A claim that may not stand in line.
    pub(super) fn unqueued(&self, name: &'static str) -> Asker {
        self.asker(self.mode, LONG, false, name)
    }

    pub(super) async fn inspect(&self) -> Inspection {
        answered!("an inspection", Backend::inspect(&self.backend, &self.key))
    }

    pub(super) async fn holder(&self) -> Option<Holder> {
        answered!("a holder", Backend::holder(&self.backend, &self.key))
    }

    /// The `many` who wait. Where there is no one line, members may show somebody a moment after the
    /// answer of others said that it waits.
    pub(super) async fn waiters(&self, many: usize, soon: Duration) -> Vec<Waiter> {
        let end = clock::now() + soon;
        loop {
            let seen = self.inspect().await;
            if seen.waiters.len() == many {
                return seen.waiters;
            }
            let may_come = !self.capabilities().fifo && clock::now() < end;
            assert!(may_come, "{many} wait, and it shows {seen:?}");
            sleep(LOOK).await;
        }
    }

    /// Asks whoever holds the key to give it up; false if nobody does.
    pub(super) async fn asks_to_give_up(&self) -> bool {
        answered!("a request to give up", self.backend.request_revoke(&self.key))
    }

    /// Takes the key away from whoever holds it.
    pub(super) async fn forces(&self) {
        let (found, asked) = self.force_release().await;
        // An answer that was lost may have said so.
        assert!(found || asked > 1, "somebody holds the key");
    }

    /// Takes the key away from whoever holds it, and nobody may.
    pub(super) async fn forces_nobody(&self) {
        assert!(!self.force_release().await.0, "nobody holds the key");
    }

    /// The answer, and how often it was asked for.
    async fn force_release(&self) -> (bool, u32) {
        let mut asked = 0;
        let found = answered!("the key taken away", {
            asked += 1;
            self.backend.force_release(&self.key)
        });
        (found, asked)
    }

    /// Ends without a farewell.
    pub(super) fn dies(self, subject: &dyn Subject) {
        subject.kill(self.backend);
    }
}

fn terms(mode: Mode, lease: Duration, queues: bool) -> Terms {
    Terms { mode, tokens_max: FENCES, queues, ..Terms::exclusive(lease) }
}

/// A claim, and who it is in this property.
pub(super) struct Asker {
    pub(super) claim: AnyClaim,
    pub(super) id: ClaimId,
    name: &'static str,
    /// When the last request was sent.
    pub(super) sent: Instant,
    /// Until when it holds, by what it was told last, which counts from its request.
    until: Option<Instant>,
}

/// The answer to a verb of an `Asker`.
macro_rules! asked {
    ($asker:ident, $asks:ident . $verb:ident) => {
        answered!($asker.name, {
            $asker.sent = clock::now();
            $asker.$asks.$verb()
        })
    };
}

impl Asker {
    fn new(claim: AnyClaim, id: ClaimId, name: &'static str) -> Self {
        Self { claim, id, name, sent: clock::now(), until: None }
    }

    pub(super) async fn attempt(&mut self) -> Attempt {
        let answer = asked!(self, claim.attempt);
        if let Attempt::Granted(grant) = &answer {
            self.holds(grant);
        }
        answer
    }

    /// Asks once, and must be granted.
    pub(super) async fn takes(&mut self) -> Grant {
        match self.attempt().await {
            Attempt::Granted(grant) => {
                assert!(!grant.valid_for.is_zero(), "{}: {grant:?} is over at once", self.name);
                grant
            }
            blocked => {
                panic!("{} should be granted a free key at once, got {blocked:?}", self.name)
            }
        }
    }

    /// Asks once, and must be blocked; says how many are ahead.
    pub(super) async fn is_blocked(&mut self) -> Option<u32> {
        match self.attempt().await {
            Attempt::Blocked { ahead, .. } => ahead,
            granted => panic!("{} should be blocked, got {granted:?}", self.name),
        }
    }

    /// Waits for its turn as the engine does: by push, and by asking again.
    pub(super) async fn is_granted(&mut self, within: Duration) -> Grant {
        let end = clock::now() + within;
        for _ in 0..ATTEMPTS_MAX {
            match self.attempt().await {
                Attempt::Granted(grant) => return grant,
                Attempt::Blocked { recheck, .. } => {
                    let left = end.saturating_duration_since(clock::now());
                    assert!(!left.is_zero(), "{} is not granted within {within:?}", self.name);
                    drop(timeout(recheck.min(left), self.claim.changed()).await);
                }
            }
        }
        panic!("{} was told of changes {ATTEMPTS_MAX} times and is still blocked", self.name)
    }

    /// Something is pushed to it.
    pub(super) async fn is_told(&mut self, within: Duration, or_else: &str) {
        let told = timeout(within, self.claim.changed()).await;
        assert!(told.is_ok(), "{or_else}");
    }

    pub(super) async fn renewal(&mut self) -> Renewal {
        let answer = asked!(self, claim.renew);
        self.goes_on(answer)
    }

    /// Renews, and must still hold.
    pub(super) async fn renews(&mut self) -> Grant {
        let renewal = self.renewal().await;
        self.held(renewal)
    }

    pub(super) async fn downgrade(&mut self) -> Renewal {
        let answer = asked!(self, claim.downgrade);
        self.goes_on(answer)
    }

    /// Becomes a reader, and must still hold.
    pub(super) async fn downgrades(&mut self) -> Grant {
        let renewal = self.downgrade().await;
        self.held(renewal)
    }

    fn goes_on(&mut self, answer: Renewal) -> Renewal {
        if let Renewal::Held(grant) = &answer {
            self.holds(grant);
        }
        answer
    }

    fn holds(&mut self, grant: &Grant) {
        self.until = Some(self.sent + grant.valid_for);
    }

    fn held(&self, answer: Renewal) -> Grant {
        match answer {
            Renewal::Held(grant) => grant,
            Renewal::Lost => self.lost("it should hold the key still"),
        }
    }

    /// It does not hold what it should hold, which only its own clock can excuse.
    pub(super) fn lost(&self, what: &str) -> ! {
        let what = format!("{}: {what}", self.name);
        match self.until {
            Some(until) if clock::now() >= until => ran_out(&what),
            _ => panic!("{what}"),
        }
    }

    pub(super) async fn withdrawal(&mut self) -> Withdrawal {
        self.withdraws().await.0
    }

    /// The answer, and how often it was asked for.
    async fn withdraws(&mut self) -> (Withdrawal, u32) {
        let mut asked = 0;
        let answer = answered!(self.name, {
            asked += 1;
            self.claim.withdraw()
        });
        (answer, asked)
    }

    /// Gives up what it holds.
    pub(super) async fn releases(&mut self) {
        let (answer, asked) = self.withdraws().await;
        // An answer that was lost may have said so.
        let is_told = answer == Withdrawal::Released || asked > 1;
        if !is_told {
            self.lost(&format!("it held the key, and was told {answer:?}"));
        }
    }

    /// Leaves without holding anything.
    pub(super) async fn leaves(&mut self) {
        let answer = self.withdrawal().await;
        assert_ne!(answer, Withdrawal::Released, "{} did not hold the key", self.name);
    }

    /// Whether `seen` names this claim, perhaps by the beginning of its id.
    pub(super) fn is(&self, seen: &str) -> bool {
        let id = self.id.to_string();
        seen.starts_with(&id) || (seen.len() >= id.len() / 2 && id.starts_with(seen))
    }

    pub(super) fn holds_in(&self, seen: &Inspection) -> bool {
        seen.holders.iter().any(|holder| self.is(&holder.claim))
    }
}

/// One who follows an election, and who it is in this property.
pub(super) struct Watcher {
    pub(super) follower: Box<dyn Follower>,
    name: &'static str,
    sent: Instant,
}

impl Watcher {
    /// Asks who leads.
    pub(super) async fn follows(&mut self) -> Following {
        asked!(self, follower.leader)
    }

    /// Waits as the engine does until this is what is told of the leader.
    pub(super) async fn is_led_by(
        &mut self,
        value: Option<&str>,
        within: Duration,
    ) -> Option<Leader> {
        let end = clock::now() + within;
        for _ in 0..ATTEMPTS_MAX {
            let Following { leader, recheck } = self.follows().await;
            if leader.as_ref().map(|leader| &*leader.value) == value {
                return leader;
            }
            let left = end.saturating_duration_since(clock::now());
            assert!(!left.is_zero(), "{} is led by {leader:?}, not {value:?}", self.name);
            drop(timeout(recheck.min(left), self.follower.changed()).await);
        }
        panic!("{} was told of changes {ATTEMPTS_MAX} times", self.name)
    }

    /// Something is pushed to it.
    pub(super) async fn is_told(&mut self, within: Duration, or_else: &str) {
        assert!(timeout(within, self.follower.changed()).await.is_ok(), "{or_else}");
    }

    pub(super) async fn leaves(&mut self) {
        self.follower.leave().await.unwrap_or_else(|fault| panic!("{}: {fault}", self.name));
    }
}

/// The reply must have been lost.
pub(super) fn is_lost<T: std::fmt::Debug>(answer: Result<T, Fault>) {
    match answer {
        Err(fault) if fault.is_transient() => {}
        other => panic!("the reply should have been lost, got {other:?}"),
    }
}
