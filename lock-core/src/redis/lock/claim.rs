//! The verbs of one claim.

use std::future::{Future, poll_fn};
use std::mem;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use redis::{Cmd, Value};

use super::doubts::Doubts;
use super::naming::{NameKey, Naming};
use crate::backend::{
    Attempt, Change, Claim, ClaimId, Fault, FaultKind, Grant, Manner, Mode, NotReplicated, Renewal,
    Replicas, Terms, Withdrawal,
};
use crate::ground::{Plus as _, clock};
use crate::key::Key;
use crate::proto::lease::drift;
use crate::redis::protocol::modes;
use crate::redis::protocol::names::{Names, Owner};
use crate::redis::protocol::script::{ATTEMPT, FORCE_ACQUIRE, WITHDRAW};
use crate::redis::topology::Topology;
use crate::redis::topology::cluster::Listening;
use crate::redis::topology::probe;
use crate::redis::wire::fault;
use crate::redis::wire::free::{Answer, Part, Verb};
use crate::redis::wire::inbox::{Handed, Inbox};
use crate::redis::wire::renewals::{Renew, Renewed};
use crate::redis::wire::request::{Call, REQUEST_WITHIN, Unserved};
use crate::token::TokenBlock;

/// A waiting claim asks again at least this often; beside a push it is what refreshes its place.
const RECHECK: Duration = Duration::from_millis(500);

/// A lock of another library is not pushed to us when it is released, so it is asked for often.
const RECHECK_FOREIGN: Duration = Duration::from_millis(50);

/// A grant that was pushed lives so long, or its lease if that is shorter, until it is renewed. A
/// waiting claim that did not ask again for as long counts as dead.
pub(super) const CLAIM_LEASE: Duration = Duration::from_millis(1_500);

/// The tokens of a grant for which nothing was looked at but whether the key is free.
const FREE_TOKENS: u64 = 32;

/// So many tokens a renewal brings one who holds its key beside others, and an attempt one who shares it:
/// as many as the clock counts in 128 µs; and where many readers of a process come and go, in 4 ms.
const REFILL: u32 = 1_024;
const REFILL_MAX: u32 = 32_768;

/// A renewal so soon behind the last is for want of tokens.
const REFILL_SOON: Duration = Duration::from_millis(250);

/// A healthy server on a loaded machine answers within this.
const RENEW_WITHIN_MIN: Duration = Duration::from_millis(50);

/// The time for a renewal: two more can be made over new connections before the lease ends.
pub(in crate::redis) fn renew_within(lease: Duration) -> Duration {
    (lease / 6).clamp(RENEW_WITHIN_MIN, REQUEST_WITHIN)
}

/// The answer of a script that found several holders, and would have to name their keys.
pub(super) const NAME_ALL: Value = Value::Int(3);

/// One process's place in the contention for a key at a Redis server.
#[derive(Debug)]
pub struct RedisClaim {
    pub(super) servers: Arc<Topology>,
    pub(super) names: Names,
    id: ClaimId,
    lease_nanos: u64,
    pub(super) inbox: Option<Arc<Inbox>>,
    /// None where a free key was taken: those are the many.
    more: Option<Box<More>>,
    pub(super) tokens_max: u32,
    pub(super) mode: Mode,
    /// The number of a permit.
    pub(super) slot: u32,
    /// Several hold the key together, or did: a call names their keys too, where keys are named.
    pub(super) together: bool,
    manner: Manner,
    naming: Naming,
    at: At,
    /// The server tells when others write its key.
    is_tracked: bool,
    /// Others wait, as far as is known.
    pub(super) wanted: bool,
    /// It may be in line at the server, or was.
    is_in_line: bool,
}

/// How far a claim is, as far as is known here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    // ## Nowhere => (Asked | Held)
    // Nothing of it is at the server.
    Nowhere,
    // ## Asked => Held
    // It was asked for before, so something of it may be there.
    Asked,
    // ## Held => Asked
    Held {
        /// The first and the last token; 0 where those may be others' by now.
        tokens: (u64, u64),
        /// Held for the full lease, not only for what is left of a pushed grant.
        is_full: bool,
    },
}

/// One that stands for election.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) value: Arc<str>,
    /// The token of its term, once that is published.
    pub(super) term: u64,
}

/// State that few claims have.
#[derive(Debug, Default)]
pub(super) struct More {
    replicas: Option<Replicas>,
    /// Has the pushes to the inbox heard, where that is not so anyway.
    listening: Option<Listening>,
    /// The last attempt that was answered with "blocked".
    blocked: Option<Blocked>,
    /// The clock that its tokens end at, in a quorum.
    pub(super) clock: Option<u64>,
    doubts: Doubts,
    /// The last renewal of one that holds the key beside others, or the attempt that was granted.
    refill: Refill,
    pub(super) candidate: Option<Candidate>,
}

/// The time when tokens were asked for, and the number of them.
#[derive(Debug, Default)]
struct Refill {
    at: Option<Instant>,
    tokens: u32,
}

/// The key as it is known since an attempt was blocked.
#[derive(Debug, Clone, Copy)]
struct Blocked {
    /// The time when the attempt was sent: a hand-off that counts is later.
    sent: Instant,
    /// The last token of the server then, or its clock in tokens if that is more; in a quorum, the
    /// last token of the key. A hand-off that counts has greater ones.
    latest: u64,
}

impl RedisClaim {
    pub(in crate::redis) fn new(
        servers: Arc<Topology>,
        key: &Key,
        id: ClaimId,
        terms: Terms,
    ) -> Self {
        let Terms { lease, mode, name, tokens_max, tokens_likely, replicas, .. } = terms;
        let tokens = tokens_likely.saturating_mul(2).clamp(REFILL, REFILL_MAX);
        let refill = (mode == Mode::Shared).then_some(Refill { at: None, tokens });
        let has_more = replicas.is_some() || refill.is_some();
        let refill = refill.unwrap_or_default();
        let more = has_more.then(|| Box::new(More { replicas, refill, ..More::default() }));
        Self {
            names: Names::new(key),
            servers,
            id,
            lease_nanos: u64::try_from(lease.as_nanos()).unwrap_or(u64::MAX),
            inbox: None,
            more,
            tokens_max,
            mode,
            slot: 0,
            together: mode != Mode::Exclusive,
            manner: Manner::of(&terms),
            naming: Naming::of(name),
            at: At::Nowhere,
            is_tracked: false,
            wanted: false,
            is_in_line: false,
        }
    }

    /// Has it take the key from all who hold it.
    pub(in crate::redis) fn forcing(mut self) -> Self {
        self.manner = Manner::Forces;
        self
    }

    pub(super) fn lease(&self) -> Duration {
        Duration::from_nanos(self.lease_nanos)
    }

    pub(super) fn more(&mut self) -> &mut More {
        self.more.get_or_insert_default()
    }

    fn replicas(&self) -> Option<Replicas> {
        self.more.as_ref()?.replicas
    }

    fn listening(&self) -> Option<&Listening> {
        self.more.as_ref()?.listening.as_ref()
    }

    /// From now on it can be pushed to.
    pub(super) fn open_inbox(&mut self) {
        if self.inbox.is_none() {
            self.inbox = Some(self.servers.session.inboxes.open(self.id));
            if let Some(listening) = self.servers.listen(&self.names, self.id) {
                self.more().listening = Some(listening);
            }
        }
    }

    /// Whether a push to it would be heard now.
    pub(super) fn is_heard(&self) -> bool {
        self.servers.is_heard(self.listening())
    }

    /// Waits until it would be, and not for long.
    pub(super) async fn heard(&self) {
        self.servers.heard(self.listening()).await;
    }

    /// The number of tokens that a renewal may bring: none in a quorum, whose members agree on them
    /// when they grant. Beside others who hold the key, more from renewal to renewal, as long as
    /// those are made for want of them.
    fn tokens_wanted(&mut self) -> u32 {
        if self.clock().is_some() {
            return 0;
        }
        if self.mode == Mode::Exclusive {
            return 1;
        }
        let (now, lease) = (clock::now(), self.lease());
        let refill = &mut self.more().refill;
        let is_soon = refill.at.is_some_and(|at| now < at.plus(REFILL_SOON.min(lease / 4)));
        refill.at = Some(now);
        refill.tokens = if is_soon { (refill.tokens * 8).min(REFILL_MAX) } else { REFILL };
        refill.tokens
    }

    pub(super) fn candidate(&self) -> Option<&Candidate> {
        self.more.as_ref()?.candidate.as_ref()
    }

    fn is_held(&self) -> bool {
        matches!(self.at, At::Held { .. })
    }

    /// The first and the last token of its hold; 0 where it has none.
    fn tokens(&self) -> (u64, u64) {
        match self.at {
            At::Held { tokens, .. } => tokens,
            At::Nowhere | At::Asked => (0, 0),
        }
    }

    fn take_blocked(&mut self) -> Option<Blocked> {
        self.more.as_mut()?.blocked.take()
    }

    pub(super) fn clock(&self) -> Option<u64> {
        self.more.as_ref()?.clock
    }

    /// Sends an attempt, and has its effect replicated if that is asked for; also what is wrong
    /// with that.
    async fn ask(&self, attempt: Call) -> Result<(Value, Option<NotReplicated>), Unserved> {
        let Some(replicas) = self.replicas() else {
            let answer = match (self.pass(), self.servers.cluster()) {
                (None, None) => self.servers.call(attempt).await?,
                // On the heap, as its way is long.
                (None, Some(cluster)) => {
                    Box::pin(cluster.attempt(&attempt, self.inbox.as_deref())).await?
                }
                (Some(pass), _) => Box::pin(self.ask_member(attempt, &pass)).await?,
            };
            return Ok((answer, None));
        };
        // The call is on the heap, as few ask for replicas.
        Box::pin(self.servers.call_replicated(attempt, replicas)).await
    }

    pub(super) fn owner(&self) -> Owner<'_> {
        Owner {
            claim: self.id,
            session: &self.servers.session.id,
            of_quorum: self.clock().is_some(),
        }
    }

    pub(super) fn claim_lease(&self) -> Duration {
        self.lease().min(CLAIM_LEASE)
    }

    pub(super) fn recheck(&self) -> Duration {
        RECHECK.min(self.claim_lease() / 3)
    }

    /// A renewal is begun at a third of the lease. One that hangs is given up after a sixth, so
    /// that two more can be made over new connections before the lease ends.
    pub(super) fn renew_within(&self) -> Duration {
        let is_full = matches!(self.at, At::Held { is_full: true, .. });
        let lease = if is_full { self.lease() } else { self.claim_lease() };
        renew_within(lease)
    }

    /// A hand-off was pushed: it is good for what is left of the claim lease, counted from before
    /// it can have happened.
    fn handed_on(&self, handed: Handed) -> Option<Grant> {
        let Blocked { sent, latest } = self.more.as_ref()?.blocked?;
        if handed.tokens.last()? <= latest {
            // A push of an earlier hand-off, which has run out: it was long on its way.
            return None;
        }
        let since = clock::now().saturating_duration_since(sent);
        let valid_for = left_of(self.claim_lease(), since)?;
        // Too little to be of use: ask, and have the full lease.
        if valid_for < self.claim_lease() / 3 {
            return None;
        }
        let (slot, wanted, handed_on) = (handed.slot, handed.wanted, true);
        Some(Grant { slot, wanted, handed_on, ..Grant::new(handed.tokens, valid_for) })
    }

    /// Whether a grant was pushed that counts by itself. With replicas it does only once they have it,
    /// too: the store is asked.
    fn is_handed(&self) -> bool {
        self.replicas().is_none() && self.inbox.as_ref().is_some_and(|inbox| inbox.is_handed())
    }

    /// Takes the grant that was pushed, if one was and is good.
    fn pushed(&mut self) -> Option<Attempt> {
        let handed = self.inbox.as_ref().and_then(|inbox| inbox.handed());
        // Its term is looked at now, not when it came: there may have been another master since.
        let handed = handed.filter(|handed| self.servers.is_current(handed.term));
        let handed = handed.filter(|_| self.replicas().is_none())?;
        let grant = self.handed_on(handed)?;
        (self.slot, self.wanted) = (handed.slot, handed.wanted);
        let (first, last) = (handed.tokens.first(), handed.tokens.last());
        let tokens = (first.unwrap_or(0), last.unwrap_or(0));
        self.at = At::Held { tokens, is_full: false };
        self.take_blocked();
        Some(Attempt::Granted(grant))
    }

    pub(super) fn granted(&mut self, tokens: TokenBlock, wanted: Option<bool>) -> Grant {
        self.wanted = wanted.unwrap_or(self.wanted);
        let (slot, wanted) = (self.slot, self.wanted);
        Grant { slot, wanted, ..Grant::new(tokens, self.lease()) }
    }

    /// Granted from now on, with these tokens, for the full lease.
    pub(super) fn holds(&mut self, tokens: TokenBlock) {
        let tokens = (tokens.first().unwrap_or(0), tokens.last().unwrap_or(0));
        self.at = At::Held { tokens, is_full: true };
    }

    /// It holds nothing, as far as is known: what it had of tokens may be others' by now.
    pub(super) fn holds_nothing(&mut self) {
        if self.is_held() {
            self.at = At::Asked;
        }
    }

    /// It was lost: its tokens may be others' by now.
    pub(super) fn has_no_tokens(&mut self) {
        if let At::Held { tokens, .. } = &mut self.at {
            *tokens = (0, 0);
        }
    }

    fn blocked(&mut self, blocked: Blocked, ahead: i64, left_ms: i64, foreign: bool) -> Attempt {
        (self.more().blocked, self.is_in_line) = (Some(blocked), true);
        let mut recheck = self.recheck();
        if let Ok(left) = u64::try_from(left_ms) {
            // The server drops a key when its time has passed, not when it has come.
            recheck = recheck.min(Duration::from_millis(left + 1));
        }
        if foreign {
            recheck = recheck.min(RECHECK_FOREIGN);
        }
        Attempt::Blocked { ahead: u32::try_from(ahead).ok(), recheck }
    }

    /// Asks the store where the claim stands; `join`: and stands in line if need be.
    async fn stand(&mut self, join: bool) -> Result<Attempt, Fault> {
        let is_asked = self.at != At::Nowhere;
        if !is_asked {
            self.at = At::Asked;
        }
        let forces = self.manner == Manner::Forces;
        let is_alone = self.mode == Mode::Exclusive && !forces;
        if is_alone && self.clock().is_none() && self.replicas().is_none() && !(join && is_asked) {
            let take = Verb::Take { lease_ms: millis(self.lease()) };
            match self.ask_with_others(take).await {
                Ok(Answer::Taken(first)) => return Ok(self.takes(free_tokens(first), false)),
                Ok(_) => {}
                Err(unserved) => return Err(self.in_doubt(unserved).await),
            }
        }
        let call = match self.clock() {
            None if forces => {
                // On the heap, as it is rare.
                let until = Box::pin(self.servers.until(self.servers.slot(&self.names))).await?;
                let mut call = self.servers.call_for(&FORCE_ACQUIRE, &self.names, self.together);
                call.command.arg(self.owner()).arg(millis(self.lease())).arg(until);
                call
            }
            None => {
                let mut call = self.servers.call_for(&ATTEMPT, &self.names, self.together);
                let stands = Stands::of(join, is_asked);
                add_attempt(&mut call.command, self.owner(), self.lease(), stands, self.mode);
                if self.mode == Mode::Shared {
                    let refill = &mut self.more().refill;
                    refill.at = Some(clock::now());
                    call.command.arg(refill.tokens);
                }
                call
            }
            Some(clock) => self.attempt_of_quorum(join, clock),
        };
        let sent = clock::now();
        let (answer, not_replicated) = match self.ask(call).await {
            Ok(answer) => answer,
            Err(unserved) => return Err(self.in_doubt(unserved).await),
        };
        let (tokens, wanted) = match (&answer, ints(&answer, &mut [0; 5])) {
            (Value::Int(first), _) => (free_tokens(token(*first)?), false),
            (_, &[1, first, last, wanted, ref slot @ ..]) => {
                self.slot = u32::try_from(slot.first().copied().unwrap_or(0)).unwrap_or(0);
                (TokenBlock::new(token(first)?, token(last)?), wanted != 0)
            }
            (_, &[2, in_use]) => {
                return Err(Fault::other_limit(u32::try_from(in_use).unwrap_or(u32::MAX)));
            }
            (_, &[3]) if !mem::replace(&mut self.together, true) => {
                return Box::pin(self.stand(join)).await;
            }
            (_, &[0, ahead, left, foreign, latest]) => {
                let blocked = Blocked { sent, latest: token(latest)? };
                return Ok(self.blocked(blocked, ahead, left, foreign == 1));
            }
            _ => return Err(fault::strange("an attempt")),
        };
        if let Some(found) = not_replicated {
            return Err(Fault::not_replicated(found));
        }
        Ok(self.takes(tokens, wanted))
    }

    /// An attempt was answered with a grant.
    fn takes(&mut self, tokens: TokenBlock, wanted: bool) -> Attempt {
        let mut grant = self.granted(tokens, Some(wanted));
        // It stood in line, and found itself the owner. A push that says so is of the past.
        grant.handed_on = self.take_blocked().is_some();
        self.holds(tokens);
        Attempt::Granted(grant)
    }

    /// An attempt was not served, and may have an effect all the same.
    async fn in_doubt(&mut self, unserved: Unserved) -> Fault {
        let fault = unserved.fault.into_fault();
        self.is_in_line = true;
        if unserved.sent.is_some() {
            self.more().doubts.keep(&fault, unserved.sent);
        }
        named(&self.servers, fault).await
    }

    /// Asks together with other claims, where enough of them do.
    async fn ask_with_others(&self, verb: Verb) -> Result<Answer, Unserved> {
        let part = || Part { names: self.names.clone(), claim: self.id, verb };
        self.servers.ask_with_others(part).await
    }

    /// Whether others may be in line, or it is there itself.
    fn knows_of_others(&self) -> bool {
        self.wanted || self.is_in_line
    }

    /// It tells the `last` token of its block, if it knows that. Where that is not told, the next
    /// block begins at the clock.
    fn withdrawal(&self, last: u64) -> Call {
        if let Some(clock) = self.clock() {
            return self.withdrawal_of_quorum(clock);
        }
        let mut call = self.servers.call_for(&WITHDRAW, &self.names, self.together);
        call.command.arg(self.owner()).arg(self.knows_of_others().then_some(last));
        call
    }
}

impl Claim for RedisClaim {
    async fn attempt(&mut self) -> Result<Attempt, Fault> {
        if self.clock().is_some() && self.mode != Mode::Exclusive {
            return Err(no_quorum());
        }
        self.open_inbox();
        if let Some(granted) = self.pushed() {
            return if self.candidate().is_some() {
                Box::pin(self.shown(granted)).await
            } else {
                Ok(granted)
            };
        }
        let heard = self.is_heard();
        let join = self.manner == Manner::Queues;
        let answer = match self.stand(join).await {
            // It came while this was asked, which may be why it was not served.
            Err(fault) if fault.is_transient() && self.is_handed() => self.pushed().ok_or(fault)?,
            answer => answer?,
        };
        if let (false, true, Attempt::Blocked { .. }) = (heard, join, &answer) {
            // A hand-off before anybody listened was pushed to nobody, and this claim passed over.
            self.heard().await;
            let answer = Box::pin(self.stand(join)).await?;
            return if self.candidate().is_some() {
                Box::pin(self.shown(answer)).await
            } else {
                Ok(answer)
            };
        }
        if self.candidate().is_some() { Box::pin(self.shown(answer)).await } else { Ok(answer) }
    }

    // Not an async fn: each held key has room for one.
    fn changed(&mut self) -> impl Future<Output = Change> + Send {
        poll_fn(|cx| match &self.inbox {
            Some(inbox) => inbox.poll_changed(self.is_held(), cx),
            None => Poll::Pending,
        })
    }

    async fn renew(&mut self) -> Result<Renewal, Fault> {
        if let Some(inbox) = &self.inbox {
            self.wanted |= inbox.clear_wanted();
        }
        // Before it is sent: a write behind it may be told before its answer is looked at. Renewals of
        // others write the key that several hold: of that nothing is told.
        if self.mode == Mode::Exclusive && !mem::replace(&mut self.is_tracked, true) {
            self.servers.session.inboxes.renewed(self.names.tag(), self.id);
        }
        let (within, began) = (self.renew_within(), self.candidate().is_some().then(clock::now));
        let renew = Renew {
            names: self.names.clone(),
            claim: self.id,
            lease_ms: millis(self.lease()),
            tokens: self.tokens_wanted(),
            within,
            together: self.mode != Mode::Exclusive,
            permit: matches!(self.mode, Mode::Permit { .. }).then_some(self.slot),
            slot: self.servers.slot(&self.names),
        };
        let answer = self.servers.renew(renew).await?;
        self.inbox.iter().for_each(|inbox| inbox.answered());
        match answer {
            // Another server has the key in its place, which never heard that it is a reader's.
            Renewed::Held { first: None, last: Some(_), wanted } if self.mode == Mode::Shared => {
                match Box::pin(self.share()).await {
                    // The lease is good all the same, and the next renewal asks again.
                    Err(_) => Ok(Renewal::Held(self.granted(TokenBlock::empty(), wanted))),
                    answer => answer,
                }
            }
            Renewed::Held { first, last, wanted } => {
                let (begun, before) = self.tokens();
                // What is pushed begins behind the tokens of the holder before, at a time of that one.
                let is_pushed = matches!(self.at, At::Held { is_full: false, .. });
                let held_since = if is_pushed { last.unwrap_or(0) } else { begun };
                let tokens = match (first, last) {
                    (Some(first), Some(last)) => TokenBlock::new(first, last),
                    // Those that it has go on to where the server's end now.
                    (None, Some(last)) => TokenBlock::new(begun, last.max(before)),
                    (_, None) => TokenBlock::empty(),
                };
                match last {
                    Some(_) => self.holds(tokens),
                    None => self.at = At::Held { tokens: (begun, before), is_full: true },
                }
                if let Some(began) = began {
                    // The value is published in the time of the renewal, and the hold is renewed
                    // all the same. A published value lasts for two leases.
                    let spent = clock::now().saturating_duration_since(began);
                    drop(Box::pin(self.publish(within.saturating_sub(spent))).await);
                }
                // The members of a quorum have other keys, and no names.
                if self.clock().is_none() {
                    let key = || NameKey::of(&self.servers, &self.names, self.id);
                    self.naming.renewed(held_since, Duration::from_nanos(self.lease_nanos), key);
                }
                Ok(Renewal::Held(self.granted(tokens, wanted)))
            }
            Renewed::Lost => {
                self.has_no_tokens();
                Ok(Renewal::Lost)
            }
            Renewed::Foreign => Err(Fault::new(
                FaultKind::ForeignValue,
                "something that is no lock is stored at the key of this lock",
            )),
        }
    }

    async fn downgrade(&mut self) -> Result<Renewal, Fault> {
        self.share().await
    }

    async fn withdraw(&mut self) -> Result<Withdrawal, Fault> {
        if self.candidate().is_some() {
            return self.resign().await;
        }
        // A push still on its way is of a place in line that is given up.
        let held = self.is_held();
        self.take_blocked();
        let pass = self.pass();
        self.wanted |= self.inbox.as_ref().is_some_and(|inbox| inbox.is_wanted());
        let doubts = self.more.as_mut().map(|more| mem::take(&mut more.doubts));
        let doubts = doubts.unwrap_or_default();
        // Told once: a withdrawal that is asked again, or late, may find a later holder whose
        // tokens those are.
        let (_, last) = self.tokens();
        self.holds_nothing();
        let is_alone = !self.together && self.clock().is_none();
        if is_alone && doubts.is_empty() && !self.knows_of_others() {
            match self.ask_with_others(Verb::Give).await {
                Ok(Answer::Given) => return Ok(Withdrawal::Released),
                Ok(_) => {}
                Err(unserved) => return Err(unserved.fault.into_fault()),
            }
        }
        // Nor where others may hold it with this one: a server that lost that has given them tokens
        // right behind its own.
        let last = if doubts.is_empty() && !self.together { last } else { 0 };
        let call = self.withdrawal(last);
        let behind = (!doubts.is_empty()).then(|| call.clone());
        let mut answer = match &pass {
            None => self.servers.withdraw(call, &self.names, self.owner(), held).await,
            Some(pass) => Box::pin(self.leave_member(call, pass)).await,
        };
        if matches!(answer, Ok(NAME_ALL)) && !mem::replace(&mut self.together, true) {
            let call = self.withdrawal(last);
            answer = self.servers.withdraw(call, &self.names, self.owner(), held).await;
        }
        if let Some(call) = behind {
            doubts.undo(&self.servers, &call);
        }
        withdrawn(answer, self.inbox.as_deref())
    }
}

impl Drop for RedisClaim {
    fn drop(&mut self) {
        if self.inbox.is_some() {
            self.servers.session.inboxes.close(self.id);
        }
        if self.is_tracked {
            self.servers.session.inboxes.given_up(self.names.tag(), self.id);
        }
    }
}

/// The standing of a claim that attempts at the server.
#[derive(Debug, Clone, Copy)]
enum Stands {
    /// Nothing of it is there.
    New,
    /// It may be in line, or hold the lock.
    Asked,
    /// It does not wait, whatever is there.
    Passing,
}

impl Stands {
    fn of(join: bool, is_asked: bool) -> Self {
        match (join, is_asked) {
            (false, _) => Self::Passing,
            (true, false) => Self::New,
            (true, true) => Self::Asked,
        }
    }
}

/// Adds what an attempt says of its claim, behind the keys.
fn add_attempt(command: &mut Cmd, owner: Owner<'_>, lease: Duration, stands: Stands, mode: Mode) {
    command.arg(owner).arg(millis(lease));
    let mode = modes::written(mode);
    match stands {
        Stands::New if mode.is_none() => {}
        Stands::New => drop(command.arg("")),
        Stands::Asked => drop(command.arg(1)),
        Stands::Passing => drop(command.arg(0)),
    }
    command.arg(mode);
}

/// A refusal with the rights that are missing, which not every server tells by itself.
pub(in crate::redis) async fn named(servers: &Topology, fault: Fault) -> Fault {
    if fault.kind() != FaultKind::Refused {
        return fault;
    }
    // The check is on the heap, as it is rare, and every request has room for what it holds.
    match Box::pin(probe::rights(servers)).await {
        Err(named) if named.kind() == FaultKind::Refused => named,
        _ => fault,
    }
}

pub(super) fn no_quorum() -> Fault {
    Fault::new(FaultKind::Refused, "a quorum of `redis:` servers serves exclusive locks only")
}

/// The tokens of a grant on a free key.
fn free_tokens(first: u64) -> TokenBlock {
    TokenBlock::new(first, first + (FREE_TOKENS - 1))
}

/// The meaning of the answer to a withdrawal of the claim with this inbox.
pub(in crate::redis) fn withdrawn(
    answer: Result<Value, Unserved>,
    inbox: Option<&Inbox>,
) -> Result<Withdrawal, Fault> {
    match answer {
        Ok(Value::Int(1 | 2)) => Ok(Withdrawal::Released),
        Ok(Value::Int(0)) if inbox.is_some_and(Inbox::is_elsewhere) => Ok(Withdrawal::Elsewhere),
        Ok(Value::Int(0)) => Ok(Withdrawal::NotHeld),
        Ok(_) => Err(fault::strange("a withdrawal")),
        Err(unserved) => Err(unserved.fault.into_fault()),
    }
}

pub(in crate::redis) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

pub(in crate::redis) fn token(number: i64) -> Result<u64, Fault> {
    u64::try_from(number).map_err(|_| fault::strange("a token"))
}

/// The numbers at the front of an answer.
pub(in crate::redis) fn ints<'a>(answer: &Value, numbers: &'a mut [i64; 5]) -> &'a [i64] {
    let Value::Array(items) = answer else { return &[] };
    let mut count = 0;
    for (item, number) in items.iter().zip(numbers.iter_mut()) {
        let Value::Int(read) = item else { break };
        *number = *read;
        count += 1;
    }
    &numbers[..count]
}

/// What is left of a lease that has run for so long by our clock; `None` if that is nothing.
fn left_of(lease: Duration, since: Duration) -> Option<Duration> {
    lease.checked_sub(since)?.checked_sub(drift(since))
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Mutex, OnceLock};

    use super::*;
    use crate::proto::lease::LeaseClock;
    use crate::redis::protocol::script::{RENEW, Script};
    use crate::redis::topology::cluster;
    use crate::redis::topology::origin::{Meant, Origin};
    use crate::redis::wire::fake;
    use crate::redis::wire::route;

    pub(in crate::redis::lock) fn sha(script: &Script) -> String {
        match script.evalsha(0).args_iter().nth(1) {
            Some(redis::Arg::Simple(sha)) => String::from_utf8(sha.to_vec()).unwrap(),
            _ => panic!("a call has a hash"),
        }
    }

    proptest::proptest! {
        #[test]
        fn a_slow_clock_of_what_was_left_of_a_lease_ends_no_later_than_the_store(
            lease_us in 10_000_u64..=86_400_000_000,
            since_us in 0_u64..=86_400_000_000,
        ) {
            let (sent, lease) = (clock::now(), Duration::from_micros(lease_us));
            let since = Duration::from_micros(since_us);
            if let Some(left) = left_of(lease, since) {
                let held = LeaseClock::start(sent, left).valid_until() - sent;
                proptest::prop_assert!(held.is_zero() || (since + held) * 100 / 99 <= lease);
            } else {
                proptest::prop_assert!(since * 100 / 99 + Duration::from_micros(1) >= lease);
            }
        }
    }

    /// An exclusive claim at a fake server.
    pub(in crate::redis::lock) fn claim_at(port: u16, lease: Duration) -> RedisClaim {
        let origin = Origin::Server(route::to_port(port));
        let servers = Topology::new(&origin, None, None);
        let terms = Terms::exclusive(lease);
        let key = Key::new("k").unwrap();
        RedisClaim::new(servers.into(), &key, ClaimId::from_bits(7), terms)
    }

    /// A withdrawal that is asked again may find another holder, at a server that has not heard of
    /// the first. The tokens behind the last one are then those of that other holder.
    #[tokio::test]
    async fn the_last_token_of_a_block_is_told_once() {
        let (attempt, renew) = (sha(&ATTEMPT), sha(&RENEW));
        // The second goes over a connection in place of the first one's.
        let withdraw = [Some(&*WITHDRAW), WITHDRAW.patient()].map(|script| sha(script.unwrap()));
        let told = Arc::new(Mutex::new(Vec::new()));
        let port = fake::start({
            let told = told.clone();
            move |words| match words {
                ["SUBSCRIBE", channel] => Some(fake::subscribed("subscribe", channel)),
                ["EVALSHA", sha, ..] if *sha == attempt => Some(":100\r\n".into()),
                ["EVALSHA", sha, ..] if *sha == renew => Some("*2\r\n:5000\r\n:2\r\n".into()),
                ["EVALSHA", sha, _, _, _, last @ ..]
                    if withdraw.iter().any(|known| sha == known) =>
                {
                    told.lock().unwrap().push(last.concat());
                    // The first is not answered.
                    (told.lock().unwrap().len() > 1).then(|| ":1\r\n".into())
                }
                _ => Some("+OK\r\n".into()),
            }
        });
        let mut claim = claim_at(port, Duration::from_secs(9));
        assert!(matches!(claim.attempt().await, Ok(Attempt::Granted(_))));
        match claim.renew().await {
            Ok(Renewal::Held(grant)) => {
                assert_eq!(grant.tokens, TokenBlock::new(100, 5_000));
                assert!(grant.wanted);
            }
            answer => panic!("{answer:?}"),
        }
        assert!(claim.withdraw().await.is_err());
        assert_eq!(claim.withdraw().await.unwrap(), Withdrawal::Released);
        assert_eq!(*told.lock().unwrap(), ["5000", "0"]);
    }

    /// Its data may be those of a server that never heard of the grant.
    #[tokio::test]
    async fn another_server_is_not_forgotten_by_a_renewal_that_fails() {
        let [attempt, renew] = [&ATTEMPT, &RENEW].map(|script| sha(script));
        for (renews, left) in [(false, Withdrawal::Elsewhere), (true, Withdrawal::NotHeld)] {
            let (attempt, renew) = (attempt.clone(), renew.clone());
            let renewed = if renews { "*2\r\n:5000\r\n:1\r\n" } else { "-ERR no\r\n" };
            let port = fake::start(move |words| match words {
                ["SUBSCRIBE", channel] => Some(fake::subscribed("subscribe", channel)),
                ["EVALSHA", sha, ..] if *sha == attempt => Some(":100\r\n".into()),
                ["EVALSHA", sha, ..] if *sha == renew => Some(renewed.into()),
                ["EVALSHA", ..] => Some(":0\r\n".into()),
                _ => Some("+OK\r\n".into()),
            });
            let mut claim = claim_at(port, Duration::from_secs(9));
            assert!(matches!(claim.attempt().await, Ok(Attempt::Granted(_))));
            claim.servers.session.inboxes.stir();
            assert_eq!(claim.renew().await.is_ok(), renews);
            // It asks alone, as one that may have others behind it.
            claim.wanted = true;
            assert_eq!(claim.withdraw().await.unwrap(), left);
        }
    }

    /// The line is gone with the last who stood in it, and was handed the key. Where the slot is on
    /// its way, the node takes that for keys that are elsewhere, for as long as the slot is.
    #[tokio::test]
    async fn a_hand_off_is_taken_that_comes_while_an_attempt_waits_for_a_slot_on_its_way() {
        let of_cluster = ATTEMPT.sharded();
        let attempts = [Some(of_cluster), of_cluster.patient()].map(|it| sha(it.unwrap()));
        let is_moving = Arc::new(AtomicBool::new(false));
        let servers: Arc<OnceLock<Arc<Topology>>> = Arc::default();
        let (moves, there, own) = (is_moving.clone(), servers.clone(), Arc::new(OnceLock::new()));
        let port_now = own.clone();
        let port = fake::start(move |words| match words {
            ["CLUSTER", "NODES"] => {
                let port: u16 = *port_now.wait();
                let nodes = format!("a 127.0.0.1:{port}@1 master - 0 0 1 connected 0-16383");
                Some(fake::text(&nodes))
            }
            ["SSUBSCRIBE", channel] => Some(fake::subscribed("ssubscribe", channel)),
            ["SUNSUBSCRIBE", channel] => Some(fake::subscribed("sunsubscribe", channel)),
            ["EVALSHA", sha, ..] if attempts.iter().any(|known| sha == known) => {
                if !moves.load(Ordering::SeqCst) {
                    return Some("*5\r\n:0\r\n:1\r\n:9000\r\n:0\r\n:100\r\n".into());
                }
                let session = &there.wait().session;
                let claim = ClaimId::from_bits(7);
                let owner = Owner { claim, session: &session.id, of_quorum: false };
                let data = ["channel".to_owned(), format!("g {owner} 200 231 0")];
                let data = data.map(|part| Value::BulkString(part.into_bytes())).to_vec();
                let push = redis::PushInfo { kind: redis::PushKind::SMessage, data };
                session.inboxes.deliver_in(0, &push);
                Some("-TRYAGAIN Multiple keys request during rehashing of slot\r\n".into())
            }
            ["EVALSHA", ..] => Some("*0\r\n".into()),
            _ => Some("+OK\r\n".into()),
        });
        own.set(port).unwrap();
        let meant = Meant::Cluster(cluster::Target::at(port));
        let topology = Topology::connect(meant, "test", None).await.unwrap();
        assert!(servers.set(topology.clone()).is_ok());
        let (key, terms) = (Key::new("k").unwrap(), Terms::exclusive(Duration::from_secs(9)));
        let mut claim = RedisClaim::new(topology, &key, ClaimId::from_bits(7), terms);
        for _ in 0..9 {
            let asked = clock::now();
            is_moving.store(false, Ordering::SeqCst);
            assert!(matches!(claim.attempt().await, Ok(Attempt::Blocked { .. })));
            is_moving.store(true, Ordering::SeqCst);
            match claim.attempt().await {
                Ok(Attempt::Granted(grant)) => {
                    assert_eq!(grant.tokens, TokenBlock::new(200, 231));
                    return assert!(grant.handed_on);
                }
                // A hand-off is of no use when so much of its lease is over: this stood still.
                _ if asked.elapsed() > Duration::from_millis(500) => {}
                answer => panic!("{answer:?}"),
            }
        }
        panic!("each was pushed too late");
    }
}
