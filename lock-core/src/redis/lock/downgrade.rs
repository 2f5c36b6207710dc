//! The way from a claim that holds its key alone to one that shares it.

use redis::Value;

use super::claim::{RedisClaim, ints, millis, named, no_quorum, token};
use crate::backend::{Fault, Mode, Renewal};
use crate::redis::protocol::script::DOWNGRADE;
use crate::redis::wire::fault;
use crate::token::TokenBlock;

impl RedisClaim {
    /// It is no attempt: late or twice, it gives nothing to a claim that holds nothing. So one whose
    /// answer was lost leaves no doubt behind that a withdrawal would have to see to. It is a renewal
    /// too, and has no more time than one: the lease does not end with a connection that hangs.
    pub(super) async fn share(&mut self) -> Result<Renewal, Fault> {
        if self.clock().is_some() {
            return Err(no_quorum());
        }
        // It counts as shared from now on, as the answer may be lost.
        self.together = true;
        if let Some(inbox) = &self.inbox {
            self.wanted |= inbox.clear_wanted();
        }
        let mut call = self.servers.call_for(&DOWNGRADE, &self.names, true);
        call.command.arg(self.owner()).arg(millis(self.lease()));
        let answer = match self.servers.call_to_renew(&call, self.renew_within()).await {
            Ok(answer) => answer,
            Err(unserved) => return Err(named(&self.servers, unserved.fault.into_fault()).await),
        };
        self.inbox.iter().for_each(|inbox| inbox.answered());
        match (&answer, ints(&answer, &mut [0; 5])) {
            (Value::Int(0), _) => {
                self.has_no_tokens();
                Ok(Renewal::Lost)
            }
            (_, &[first, last, wanted]) => {
                self.mode = Mode::Shared;
                let tokens = TokenBlock::new(token(first)?, token(last)?);
                self.holds(tokens);
                Ok(Renewal::Held(self.granted(tokens, Some(wanted != 0))))
            }
            _ => Err(fault::strange("a downgrade")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::claim::tests::{claim_at, sha};
    use super::*;
    use crate::backend::Claim as _;
    use crate::ground::clock;
    use crate::redis::protocol::script::{ATTEMPT, RENEW};
    use crate::redis::wire::fake;

    /// The renewal behind it is in time.
    #[tokio::test]
    async fn a_downgrade_that_hangs_has_no_more_time_than_a_renewal() {
        let [attempt, renew, downgrade] = [&ATTEMPT, &RENEW, &DOWNGRADE].map(|script| sha(script));
        let port = fake::start(move |words| match words {
            ["EVALSHA", sha, ..] if *sha == attempt => Some(":100\r\n".into()),
            ["EVALSHA", sha, ..] if *sha == renew => Some("*2\r\n:5000\r\n:1\r\n".into()),
            ["EVALSHA", sha, ..] if *sha == downgrade => Some(String::new()),
            ["SUBSCRIBE", channel] => Some(fake::subscribed("subscribe", channel)),
            _ => Some("+OK\r\n".into()),
        });
        let lease = Duration::from_millis(1_200);
        let mut claim = claim_at(port, lease);
        claim.attempt().await.unwrap();
        let begun = clock::now();
        assert!(claim.downgrade().await.is_err());
        assert!(matches!(claim.renew().await, Ok(Renewal::Held(_))));
        assert!(clock::now() < begun + lease);
    }
}
