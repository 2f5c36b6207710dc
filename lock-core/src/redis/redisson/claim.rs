//! The verbs of one claim.

use std::future::{Future, poll_fn};
use std::mem;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use redis::Cmd;

use super::given_back::GivenBack;
use crate::backend::{
    Attempt, Change, Claim, ClaimId, Fault, Grant, Renewal, Replicas, Terms, Withdrawal,
};
use crate::ground::{clock, timeout};
use crate::key::Key;
use crate::redis::lock::claim::{ints, millis, named, renew_within, token, withdrawn};
use crate::redis::lock::doubts::Doubts;
use crate::redis::protocol::names::{CLOCK, Owner};
use crate::redis::protocol::redisson::RLock;
use crate::redis::protocol::script::{REDISSON_ATTEMPT, REDISSON_RENEW, REDISSON_WITHDRAW, Script};
use crate::redis::topology::{HEARD_WITHIN, Topology};
use crate::redis::wire::fault;
use crate::redis::wire::hearing::Hearing;
use crate::redis::wire::inbox::Inbox;
use crate::redis::wire::request::Call;
use crate::token::TokenBlock;

/// A claim that waits asks again so often: a release that was not heard costs no more.
const RECHECK: Duration = Duration::from_millis(500);

/// A claim of ours that has not asked for so long does not count as one that waits.
const WAITS_FOR: Duration = Duration::from_millis(1_500);

/// Tokens that a grant or a renewal brings. Who waits in Java is seen once they are used up, as nobody
/// tells it.
const TOKENS: u64 = 64;

/// One process's place in the contention for a key in the layout of Redisson.
#[derive(Debug)]
pub struct RedissonClaim {
    servers: Arc<Topology>,
    given_back: Arc<GivenBack>,
    rlock: RLock,
    id: ClaimId,
    lease: Duration,
    queues: bool,
    replicas: Option<Replicas>,
    /// There once it was asked for something: the server may be another later.
    inbox: Option<Arc<Inbox>>,
    /// It waits for a release.
    hearing: Option<Hearing>,
    /// The tokens of its hold, while it has one as far as is known.
    held: Option<TokenBlock>,
    /// Others want the key, as far as is known.
    wanted: bool,
    /// It gives the key back for their sake, and has no answer yet.
    gives_way: bool,
    doubts: Doubts,
}

impl RedissonClaim {
    pub(super) fn new(
        servers: Arc<Topology>,
        given_back: Arc<GivenBack>,
        key: &Key,
        id: ClaimId,
        terms: Terms,
    ) -> Self {
        Self {
            servers,
            given_back,
            rlock: RLock::new(key),
            id,
            lease: terms.lease,
            queues: terms.queues,
            replicas: terms.replicas,
            inbox: None,
            hearing: None,
            held: None,
            wanted: false,
            gives_way: false,
            doubts: Doubts::default(),
        }
    }

    /// A call of a script on these keys, that begins with who asks.
    fn call(&self, script: &'static Script, keys: &[&str]) -> Call {
        let session = &*self.servers.session.id;
        let mut command = script.evalsha(keys.len());
        command.arg(keys).arg(Owner { claim: self.id, session, of_quorum: false });
        Call { script, command, slot: 0 }
    }

    /// A call of a script that grants or extends.
    fn call_for_lease(&self, script: &'static Script) -> Call {
        let (counter, waiting) = (self.rlock.counter(), self.rlock.waiting());
        let mut call = self.call(script, &[self.rlock.lock(), CLOCK, &counter, &waiting]);
        call.command.arg(millis(self.lease));
        call
    }

    /// Says where a release is told, and whether this client listens there: it is none of the others
    /// who do.
    fn add_channel(&self, command: &mut Cmd) {
        let channel = self.rlock.channel();
        let listens = self.servers.listens(&channel);
        command.arg(channel).arg(u8::from(listens));
    }

    fn withdrawal(&self) -> Call {
        let waiting = self.rlock.waiting();
        let mut call = self.call(&REDISSON_WITHDRAW, &[self.rlock.lock(), &waiting]);
        call.command.arg(self.rlock.channel());
        call
    }

    fn grant(&mut self, tokens: TokenBlock, wanted: i64) -> Grant {
        self.wanted = wanted != 0;
        Grant { wanted: self.wanted, ..Grant::new(tokens, self.lease) }
    }

    /// Asks the server where the claim stands.
    async fn ask(&mut self) -> Result<Attempt, Fault> {
        let mut call = self.call_for_lease(&REDISSON_ATTEMPT);
        call.command.arg(TOKENS);
        self.add_channel(&mut call.command);
        call.command.arg(if self.queues { millis(WAITS_FOR) } else { 0 });
        let answer = match self.replicas {
            None => self.servers.call(call).await.map(|answer| (answer, None)),
            Some(replicas) => Box::pin(self.servers.call_replicated(call, replicas)).await,
        };
        let (answer, not_replicated) = match answer {
            Ok(answer) => answer,
            Err(unserved) => {
                let fault = unserved.fault.into_fault();
                self.doubts.keep(&fault, unserved.sent);
                return Err(named(&self.servers, fault).await);
            }
        };
        match *ints(&answer, &mut [0; 5]) {
            [1, first, last, wanted] => {
                if let Some(found) = not_replicated {
                    return Err(Fault::not_replicated(found));
                }
                let tokens = TokenBlock::new(token(first)?, token(last)?);
                self.held = Some(tokens);
                Ok(Attempt::Granted(self.grant(tokens, wanted)))
            }
            [0, left_ms] => {
                // The server drops a key when its time has passed, not when it has come.
                let left =
                    u64::try_from(left_ms).map_or(RECHECK, |left| Duration::from_millis(left + 1));
                Ok(Attempt::Blocked { ahead: None, recheck: RECHECK.min(left) })
            }
            _ => Err(fault::strange("an attempt")),
        }
    }

    /// Has it hear of a release, and waits until it does, though not for long.
    async fn hears(&mut self) {
        if self.hearing.is_none() {
            self.hearing = self.servers.hear(&self.rlock.channel(), self.id);
        }
        if let Some(hearing) = &self.hearing {
            let _late = timeout::within(HEARD_WITHIN, hearing.on()).await;
        }
    }
}

impl Claim for RedissonClaim {
    async fn attempt(&mut self) -> Result<Attempt, Fault> {
        let (servers, id) = (&self.servers, self.id);
        let inbox = self.inbox.get_or_insert_with(|| servers.session.inboxes.open(id));
        // A word that came before is looked at by this.
        inbox.handed();
        if self.queues && self.held.is_none() {
            while let Some(left) = self.given_back.left(self.rlock.key(), clock::now()) {
                clock::alarm_in(left).await;
            }
        }
        let is_heard = self.hearing.as_ref().is_some_and(Hearing::is_on);
        let answer = match self.ask().await? {
            // A release before anybody listened was told to nobody.
            Attempt::Blocked { .. } if self.queues && !is_heard => {
                self.hears().await;
                self.ask().await?
            }
            answer => answer,
        };
        if self.held.is_some() {
            // It waits no more, so it does not count as one of those who do.
            self.hearing = None;
        }
        Ok(answer)
    }

    // Not an async fn: each held key has room for one.
    fn changed(&mut self) -> impl Future<Output = Change> + Send {
        poll_fn(|cx| match &self.inbox {
            Some(inbox) => inbox.poll_changed(self.held.is_some(), cx),
            None => Poll::Pending,
        })
    }

    async fn renew(&mut self) -> Result<Renewal, Fault> {
        if let Some(inbox) = &self.inbox {
            // Others may be gone again: the answer tells.
            inbox.clear_wanted();
        }
        let mut call = self.call_for_lease(&REDISSON_RENEW);
        self.add_channel(&mut call.command);
        let answer = self.servers.call_to_renew(&call, renew_within(self.lease)).await;
        let answer = answer.map_err(|unserved| unserved.fault.into_fault())?;
        self.inbox.iter().for_each(|inbox| inbox.answered());
        match *ints(&answer, &mut [0; 5]) {
            [1, last, wanted] => {
                let tokens = match (self.held, token(last)?) {
                    (_, 0) | (None, _) => TokenBlock::empty(),
                    // All up to where the server's end now are its own; it takes some of them.
                    (Some(had), last) => {
                        let (first, before) =
                            (had.first().unwrap_or(last), had.last().unwrap_or(last));
                        TokenBlock::new(first, last.min(before.saturating_add(TOKENS)).max(before))
                    }
                };
                if tokens.last().is_some() {
                    self.held = Some(tokens);
                }
                Ok(Renewal::Held(self.grant(tokens, wanted)))
            }
            [0] => {
                self.held = None;
                Ok(Renewal::Lost)
            }
            _ => Err(fault::strange("a renewal")),
        }
    }

    async fn withdraw(&mut self) -> Result<Withdrawal, Fault> {
        let (held, doubts) = (self.held.take(), mem::take(&mut self.doubts));
        self.hearing = None;
        self.wanted |= self.inbox.as_ref().is_some_and(|inbox| inbox.is_wanted());
        self.gives_way |= held.is_some() && mem::take(&mut self.wanted);
        let began = clock::now();
        if self.gives_way {
            // The next claim may ask before this is answered.
            self.given_back.note(self.rlock.key(), began, Duration::ZERO);
        }
        let call = self.withdrawal();
        let behind = (!doubts.is_empty()).then(|| call.clone());
        let answer = self.servers.call(call).await;
        if let Some(call) = behind {
            doubts.undo(&self.servers, &call);
        }
        if answer.is_ok() && mem::take(&mut self.gives_way) {
            let now = clock::now();
            self.given_back.note(self.rlock.key(), now, now.saturating_duration_since(began));
        }
        withdrawn(answer, self.inbox.as_deref())
    }
}

impl Drop for RedissonClaim {
    fn drop(&mut self) {
        if self.inbox.is_some() {
            self.servers.session.inboxes.close(self.id);
        }
    }
}
