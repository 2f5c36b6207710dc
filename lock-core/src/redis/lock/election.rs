//! A claim that stands for election.
//!
//! The value of a leader is beside the lock, with the claim that it is of: it counts as long as
//! that one holds the key.

use std::sync::Arc;
use std::time::Duration;

use redis::Value;

use super::claim::{Candidate, RedisClaim, millis, named};
use crate::backend::{Attempt, BoxFuture, Claim, Fault, FaultKind, Withdrawal};
use crate::ground::timeout;
use crate::redis::protocol::names::{self, Names};
use crate::redis::protocol::script::{PUBLISH, Script};
use crate::redis::protocol::slots;
use crate::redis::topology::Topology;
use crate::redis::wire::request::{Call, REQUEST_WITHIN};

/// A resignation that is done waits no longer for its followers to be told.
const RETRACTED_WITHIN: Duration = Duration::from_millis(300);

/// A script's call for an election. In a cluster, where the keys have a tag, it names them all.
pub(super) fn call(servers: &Topology, script: &'static Script, names: &Names) -> Call {
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
        self.more().candidate = Some(Candidate { value: value.clone(), term: 0 });
        self
    }

    /// An answer counts once those who follow are shown whom it made the leader. Until then the
    /// claim has nothing: it may lose the key meanwhile, and what it was told of tokens is of the
    /// past then.
    pub(super) async fn shown(&mut self, answer: Attempt) -> Result<Attempt, Fault> {
        let Attempt::Granted(grant) = answer else { return Ok(answer) };
        if let Some(Candidate { term, .. }) = &mut self.more().candidate {
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
        if let Some(Candidate { value, term }) = self.candidate() {
            call.command.arg(term).arg(&**value);
        }
        let late = Fault::new(FaultKind::Transient, "what a leader publishes was not answered");
        match timeout::within(within, self.servers.call(call)).await {
            Err(timeout::Late) => Err(late),
            Ok(Ok(Value::Int(0))) => Ok(false),
            Ok(Ok(_)) => Ok(true),
            Ok(Err(unserved)) => Err(named(&self.servers, unserved.fault.into_fault()).await),
        }
    }

    /// Withdraws it. What it published is taken back behind that: until then nobody else leads.
    pub(super) fn resign(&mut self) -> BoxFuture<'_, Result<Withdrawal, Fault>> {
        Box::pin(async {
            let candidate = self.more().candidate.take();
            let answer = self.withdraw().await;
            self.more().candidate = candidate;
            if answer.is_ok() {
                self.retract().await;
            }
            answer
        })
    }

    /// Publishes it no more. Where that is lost it ends by itself, and counts for nobody.
    async fn retract(&mut self) {
        let Some(Candidate { term, .. }) = &mut self.more().candidate else { return };
        if std::mem::take(term) == 0 {
            return;
        }
        let mut call = call(&self.servers, &PUBLISH, &self.names);
        call.command.arg(self.owner());
        drop(timeout::within(RETRACTED_WITHIN, self.servers.call(call)).await);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::super::claim::tests::{claim_at, sha};
    use super::*;
    use crate::redis::protocol::script::{ATTEMPT, WITHDRAW};
    use crate::redis::wire::fake;

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
                    ["SUBSCRIBE", channel] => Some(fake::subscribed("subscribe", channel)),
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
