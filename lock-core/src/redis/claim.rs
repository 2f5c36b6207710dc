//! The verbs of one claim.

use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::Value;
use redis::aio::MultiplexedConnection;
use tokio::sync::oneshot;

use super::fault;
use super::inbox::{Handed, Inbox};
use super::link::{Failure, Unserved};
use super::names::{self, Names};
use super::node::Node;
use super::probe;
use super::renewals::Due;
use super::script::{ATTEMPT, WITHDRAW};
use crate::backend::{
    Attempt, Claim, ClaimId, Fault, FaultKind, Grant, Mode, Renewal, Terms, Withdrawal,
};
use crate::engine::clock;
use crate::key::Key;
use crate::proto::FenceRange;

/// A waiting claim asks again at least this often; beside a push it is what refreshes its place.
const RECHECK: Duration = Duration::from_millis(500);

/// A lock of another library is not pushed to us when it is released, so it is asked for often.
const RECHECK_FOREIGN: Duration = Duration::from_millis(50);

/// A grant that was pushed lives so long, or the lease if that is shorter, until it is renewed;
/// a waiting claim that did not ask again for as long counts as dead.
const CLAIM_LEASE: Duration = Duration::from_millis(1_500);

/// See the module.
#[derive(Debug)]
pub struct RedisClaim {
    node: Arc<Node>,
    names: Names,
    id: ClaimId,
    owner: Arc<str>,
    terms: Terms,
    inbox: Option<Arc<Inbox>>,
    /// When the last attempt was sent that was answered with "blocked": a hand-off is later.
    blocked_at: Option<Instant>,
    /// The mark of that answer: a hand-off with tokens up to it is older. A process that was
    /// stopped can find a push of long ago behind a new answer.
    mark: u64,
    held: bool,
    /// Where an attempt was sent whose effect is not known: it may take effect later still, and
    /// only there is a withdrawal sure to come after it.
    doubt: Option<Box<MultiplexedConnection>>,
}

impl RedisClaim {
    pub(super) fn new(node: Arc<Node>, key: &Key, id: ClaimId, terms: Terms) -> Self {
        let owner = names::owner(id, &node.session).into();
        Self {
            names: Names::new(key),
            node,
            id,
            owner,
            terms,
            inbox: None,
            blocked_at: None,
            mark: 0,
            held: false,
            doubt: None,
        }
    }

    /// A refusal with the rights that are missing, which not every server tells by itself.
    async fn named(&self, fault: Fault) -> Fault {
        if fault.kind() != FaultKind::Refused {
            return fault;
        }
        match probe::rights(&self.node).await {
            Err(named) if named.kind() == FaultKind::Refused => named,
            _ => fault,
        }
    }

    fn claim_lease(&self) -> Duration {
        self.terms.lease.min(CLAIM_LEASE)
    }

    fn recheck(&self) -> Duration {
        RECHECK.min(self.claim_lease() / 3)
    }

    /// A hand-off was pushed: it is good for what is left of the claim lease, counted from before
    /// it can have happened.
    fn handed_on(&self, handed: Handed) -> Option<Grant> {
        if handed.fences.last().is_none_or(|last| last <= self.mark) {
            return None;
        }
        let since = clock::now().saturating_duration_since(self.blocked_at?);
        let valid_for = self.claim_lease().checked_sub(since)?;
        // Too little to be of use: ask, and have the full lease.
        if valid_for < self.claim_lease() / 3 {
            return None;
        }
        Some(Grant { fences: handed.fences, valid_for, wanted: handed.wanted, handed_on: true })
    }

    fn granted(&mut self, first: i64, last: i64, wanted: i64) -> Result<Grant, Fault> {
        let number = |n: i64| u64::try_from(n).map_err(|_| fault::strange("a token"));
        Ok(Grant {
            fences: FenceRange::new(number(first)?, number(last)?),
            valid_for: self.terms.lease,
            wanted: wanted != 0,
            handed_on: false,
        })
    }

    fn blocked(&mut self, sent: Instant, ahead: i64, left_ms: i64, foreign: bool) -> Attempt {
        self.blocked_at = Some(sent);
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
}

impl Claim for RedisClaim {
    async fn attempt(&mut self) -> Result<Attempt, Fault> {
        if self.terms.mode != Mode::Exclusive {
            return Err(Fault::new(FaultKind::Refused, "`redis:` serves exclusive locks only"));
        }
        let inbox = self.inbox.get_or_insert_with(|| self.node.inboxes.open(self.id));
        if let Some(handed) = inbox.handed()
            && let Some(grant) = self.handed_on(handed)
        {
            self.held = true;
            return Ok(Attempt::Granted(grant));
        }
        let join = self.terms.patience.is_none_or(|patience| !patience.is_zero());
        let mut command = ATTEMPT.on(&self.names);
        command
            .arg(&*self.owner)
            .arg(millis(self.terms.lease))
            .arg(self.terms.fences)
            .arg(u8::from(join))
            .arg(millis(CLAIM_LEASE))
            .arg(millis(self.claim_lease()));
        let sent = clock::now();
        let answer = match self.node.call(&ATTEMPT, command).await {
            Ok(answer) => answer,
            Err(unserved) => {
                let fault = unserved.fault.into_fault();
                if fault.is_transient() && unserved.sent.is_some() {
                    self.doubt = unserved.sent.map(Box::new);
                }
                return Err(self.named(fault).await);
            }
        };
        match ints(&answer)[..] {
            [1, first, last, wanted] => {
                let mut grant = self.granted(first, last, wanted)?;
                // It stood in line, and found itself the owner.
                grant.handed_on = self.blocked_at.is_some();
                self.held = true;
                Ok(Attempt::Granted(grant))
            }
            [0, ahead, left, foreign, mark] => {
                self.mark = u64::try_from(mark).map_err(|_| fault::strange("a token"))?;
                Ok(self.blocked(sent, ahead, left, foreign == 1))
            }
            _ => Err(fault::strange("an attempt")),
        }
    }

    async fn changed(&mut self) {
        match &self.inbox {
            Some(inbox) => inbox.changed(self.held).await,
            None => std::future::pending().await,
        }
    }

    async fn renew(&mut self) -> Result<Renewal, Fault> {
        if let Some(inbox) = &self.inbox {
            inbox.clear_wanted();
        }
        let (reply, answer) = oneshot::channel();
        let due = Due {
            names: self.names.clone(),
            owner: self.owner.clone(),
            lease_ms: millis(self.terms.lease),
            fences: self.terms.fences,
            reply,
        };
        let answer = self.node.renewals.renew(due, answer).await?;
        match ints(&answer)[..] {
            [1, first, last, wanted] => Ok(Renewal::Held(self.granted(first, last, wanted)?)),
            [0] => Ok(Renewal::Lost),
            [-1, ..] => Err(Fault::new(
                FaultKind::ForeignValue,
                "something that is no lock is stored at the key of this lock",
            )),
            _ => Err(fault::strange("a renewal")),
        }
    }

    async fn withdraw(&mut self) -> Result<Withdrawal, Fault> {
        let mut command = WITHDRAW.on(&self.names);
        command.arg(&*self.owner).arg(self.terms.fences);
        let answer = self.node.call(&WITHDRAW, command.clone());
        let Some(connection) = &mut self.doubt else { return withdrawn(answer.await, None) };
        let behind = Node::call_over(connection, &WITHDRAW, &command);
        if self.held {
            // It held the key by a later attempt, so the answer to this one is the true one: the
            // other must not come first and take the key away from under it.
            let answer = answer.await;
            if answer.is_ok() {
                drop(behind.await);
            }
            return withdrawn(answer, None);
        }
        let (behind, answer) = tokio::join!(behind, answer);
        withdrawn(answer, Some(behind))
    }
}

/// What the answers to a withdrawal mean, `behind` being that of the connection in doubt.
fn withdrawn(
    answer: Result<Value, Unserved>,
    behind: Option<Result<Value, Failure>>,
) -> Result<Withdrawal, Fault> {
    // Either answer is definite; that the claim held the key is the better one to know.
    let released = |answer: &Value| matches!(answer, Value::Int(1 | 2));
    match (answer, behind) {
        (Ok(answer), _) if released(&answer) => Ok(Withdrawal::Released),
        (_, Some(Ok(answer))) if released(&answer) => Ok(Withdrawal::Released),
        (Ok(Value::Int(0)), _) | (_, Some(Ok(Value::Int(0)))) => Ok(Withdrawal::NotHeld),
        (Err(unserved), _) => Err(unserved.fault.into_fault()),
        (Ok(_), _) => Err(fault::strange("a withdrawal")),
    }
}

impl Drop for RedisClaim {
    fn drop(&mut self) {
        if self.inbox.is_some() {
            self.node.inboxes.close(self.id);
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The numbers at the front of an answer.
fn ints(answer: &Value) -> Vec<i64> {
    let Value::Array(items) = answer else { return Vec::new() };
    let numbers = items.iter().map_while(|item| match item {
        Value::Int(number) => Some(*number),
        _ => None,
    });
    numbers.collect()
}
