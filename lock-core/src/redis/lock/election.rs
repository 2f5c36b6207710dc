//! A claim that stands for election, and one that follows.
//!
//! The value of a leader is beside the lock, with the claim that it is of: it counts as long as
//! that one holds the key. Followers are listed with the channel of their session, as waiters are,
//! and told when it changes.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use redis::FromRedisValue as _;
use redis::Value;

use super::claim::{RedisClaim, Role, millis};
use crate::backend::{Attempt, Claim, Fault, FaultKind, Following, Withdrawal};
use crate::ground::timeout;
use crate::redis::protocol::names::{self, Names};
use crate::redis::protocol::script::{FOLLOW, PUBLISH, Script};
use crate::redis::protocol::slots;
use crate::redis::topology::Topology;
use crate::redis::wire::fault;
use crate::redis::wire::request::{Call, REQUEST_WITHIN};
use crate::token::FencingToken;
use crate::view::Leader;

/// The time for which a follower is told without asking again.
const TOLD_FOR: Duration = Duration::from_secs(30);

/// A resignation that is done waits no longer for its followers to be told.
const RETRACTED_WITHIN: Duration = Duration::from_millis(300);

/// A follower asks again this often, should a push have been lost.
const RECHECK: Duration = Duration::from_secs(10);

/// The same while nobody leads.
const RECHECK_VACANT: Duration = Duration::from_secs(1);

/// A script's call for an election. In a cluster, where the keys have a tag, it names them all.
fn call(servers: &Topology, script: &'static Script, names: &Names) -> Call {
    let (script, slot) = (servers.script(script), servers.slot(names));
    let mut command = script.evalsha(if servers.cluster().is_some() { 4 } else { 1 });
    command.arg(names.lock());
    if servers.cluster().is_some() {
        let clock = names::clock(slots::tag_of(slot));
        command.arg(clock).arg(names.value()).arg(names.followers());
    }
    Call { script, command, slot }
}

impl RedisClaim {
    /// Has it stand for election.
    pub(in crate::redis) fn publishing(mut self, value: &Arc<str>) -> Self {
        self.more().role = Some(Role::Candidate { value: value.clone(), term: 0 });
        self
    }

    /// An answer counts once those who follow are shown whom it made the leader. Until then the
    /// claim has nothing: it may lose the key meanwhile, and what it was told of tokens is of the
    /// past then.
    pub(super) async fn shown(&mut self, answer: Attempt) -> Result<Attempt, Fault> {
        let Attempt::Granted(grant) = answer else { return Ok(answer) };
        if let Some(Role::Candidate { term, .. }) = &mut self.more().role {
            *term = grant.tokens.first().unwrap_or(0);
        }
        let shown = self.publish(REQUEST_WITHIN).await;
        if !matches!(shown, Ok(true)) {
            self.holds_nothing();
        }
        match shown? {
            true => Ok(answer),
            // It was taken away meanwhile.
            false => Ok(Attempt::Blocked { ahead: None, recheck: self.recheck() }),
        }
    }

    /// Publishes its value for two leases; `false` if it does not hold the key.
    pub(super) async fn publish(&mut self, within: Duration) -> Result<bool, Fault> {
        let mut call = call(&self.servers, &PUBLISH, &self.names);
        let lease_ms = millis(self.lease());
        call.command.arg(self.owner()).arg(lease_ms);
        if let Some(Role::Candidate { value, term }) = self.role() {
            call.command.arg(term).arg(&**value);
        }
        let late = Fault::new(FaultKind::Transient, "what a leader publishes was not answered");
        match timeout::within(within, self.servers.call(call)).await {
            Err(timeout::Late) => Err(late),
            Ok(Ok(Value::Int(0))) => Ok(false),
            Ok(Ok(_)) => Ok(true),
            Ok(Err(unserved)) => Err(self.named(unserved.fault.into_fault()).await),
        }
    }

    /// Withdraws it. What it published is taken back behind that: until then nobody else leads.
    pub(super) fn leave_election(&mut self) -> BoxFuture<'_, Result<Withdrawal, Fault>> {
        Box::pin(async {
            let role = self.more().role.take();
            let answer = match role {
                Some(Role::Follower) => {
                    self.ask_for(Duration::ZERO).await.map(|_| Withdrawal::NotHeld)
                }
                _ => self.withdraw().await,
            };
            self.more().role = role;
            if answer.is_ok() {
                self.retract().await;
            }
            answer
        })
    }

    /// Publishes it no more. Where that is lost it ends by itself, and counts for nobody.
    async fn retract(&mut self) {
        let Some(Role::Candidate { term, .. }) = &mut self.more().role else { return };
        if std::mem::take(term) == 0 {
            return;
        }
        let mut call = call(&self.servers, &PUBLISH, &self.names);
        call.command.arg(self.owner());
        drop(timeout::within(RETRACTED_WITHIN, self.servers.call(call)).await);
    }

    /// Has itself told of who leads, and asks.
    pub(super) async fn ask_who_leads(&mut self) -> Result<Following, Fault> {
        self.open_inbox();
        if let Some(inbox) = &self.inbox {
            inbox.clear_wanted();
        }
        self.more().role = Some(Role::Follower);
        let is_heard = self.is_heard();
        let answer = self.ask_for(TOLD_FOR).await?;
        if is_heard {
            return Ok(answer);
        }
        // A change before anybody listened was pushed to nobody.
        self.heard().await;
        self.ask_for(TOLD_FOR).await
    }

    async fn ask_for(&self, told_for: Duration) -> Result<Following, Fault> {
        let mut call = call(&self.servers, &FOLLOW, &self.names);
        call.command.arg(self.owner()).arg(millis(told_for));
        let answer = match self.servers.call(call).await {
            Ok(answer) => answer,
            Err(unserved) => return Err(self.named(unserved.fault.into_fault()).await),
        };
        if told_for.is_zero() {
            return Ok(Following { leader: None, recheck: Duration::ZERO });
        }
        let (holder, left_ms, said) =
            <(Option<Vec<u8>>, i64, Option<Vec<u8>>)>::from_redis_value(answer)
                .map_err(|_| fault::strange("who leads"))?;
        let leader = leader(holder.as_deref().unwrap_or_default(), said.as_deref());
        let most = if leader.is_some() { RECHECK } else { RECHECK_VACANT };
        // The server drops a key when its time has passed, not when it has come.
        let left = u64::try_from(left_ms).ok().map(|left_ms| Duration::from_millis(left_ms + 1));
        Ok(Following { leader, recheck: left.map_or(most, |left| left.min(most)) })
    }
}

/// The leader, by what is at the lock and what was published: that counts if it is the holder's.
fn leader(holder: &[u8], said: Option<&[u8]>) -> Option<Leader> {
    let mut parts = said?.splitn(3, |byte| *byte == b' ');
    let (owner, term, value) = (parts.next()?, parts.next()?, parts.next()?);
    let claim = names::claim_of(holder).filter(|claim| names::claim_of(owner) == Some(*claim))?;
    let term = std::str::from_utf8(term).ok()?.parse().ok().map(FencingToken::new);
    Some(Leader::new(String::from_utf8_lossy(value), term, claim.to_string()))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::super::claim::tests::{claim_at, sha};
    use super::*;
    use crate::backend::ClaimId;
    use crate::redis::protocol::names::Owner;
    use crate::redis::protocol::script::{ATTEMPT, WITHDRAW};
    use crate::redis::wire::fake;

    #[test]
    fn what_was_published_counts_for_the_claim_that_holds_the_key() {
        let owner = |bits| {
            let claim = ClaimId::from_bits(bits);
            Owner { claim, session: "0123456789abcdef", of_quorum: false }.to_string()
        };
        let said = format!("{} 42 host 3", owner(5));
        let found = |holder: String| leader(holder.as_bytes(), Some(said.as_bytes()));
        for holder in [owner(5), owner(5) + "+"] {
            let leader = found(holder).unwrap();
            assert_eq!((&*leader.value, leader.token), ("host 3", Some(FencingToken::new(42))));
            assert_eq!(leader.claim, ClaimId::from_bits(5).to_string());
        }
        assert_eq!(found(owner(6)), None);
        assert_eq!(found(String::new()), None);
        assert_eq!(leader(owner(5).as_bytes(), None), None);
        assert_eq!(leader(b"", Some(b"x")), None);
    }

    /// It may have lost the key before it was shown, and another may have had greater tokens since:
    /// what it was told of its own is not to be told to the server, which would go on behind them.
    #[tokio::test]
    async fn a_claim_that_could_not_be_shown_tells_no_token_when_it_leaves() {
        let [attempt, publish, withdraw] = [&ATTEMPT, &PUBLISH, &WITHDRAW].map(|it| sha(it));
        for shown in [":0\r\n", "-ERR no\r\n"] {
            let told = Arc::new(Mutex::new(Vec::new()));
            let port = fake::start({
                let (told, attempt) = (told.clone(), attempt.clone());
                let (publish, withdraw) = (publish.clone(), withdraw.clone());
                move |words| match words {
                    ["SUBSCRIBE", channel] => Some(fake::subscribed(channel)),
                    ["EVALSHA", sha, ..] if *sha == attempt => {
                        Some("*4\r\n:1\r\n:100\r\n:131\r\n:1\r\n".into())
                    }
                    ["EVALSHA", sha, ..] if *sha == publish => Some(shown.into()),
                    ["EVALSHA", sha, _, _, _, last @ ..] if *sha == withdraw => {
                        told.lock().unwrap().push(last.concat());
                        Some(":1\r\n".into())
                    }
                    _ => Some("+OK\r\n".into()),
                }
            });
            let mut claim = claim_at(port, Duration::from_secs(9)).publishing(&"a".into());
            let answer = claim.attempt().await;
            assert!(!matches!(answer, Ok(Attempt::Granted(_))), "{answer:?}");
            assert_eq!(claim.withdraw().await.unwrap(), Withdrawal::Released);
            assert_eq!(*told.lock().unwrap(), ["0"]);
        }
    }
}
