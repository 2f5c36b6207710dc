//! From a claim that holds its key alone to one that shares it.

use redis::Value;

use super::claim::{RedisClaim, ints, millis, no_quorum, token};
use crate::backend::{Fault, Mode, Renewal};
use crate::redis::protocol::script::DOWNGRADE;
use crate::redis::wire::fault;
use crate::token::TokenBlock;

impl RedisClaim {
    /// It is no attempt: late or twice, it gives nothing to a claim that holds nothing. So one whose
    /// answer was lost leaves no doubt behind that a withdrawal would have to see to.
    pub(super) async fn share(&mut self) -> Result<Renewal, Fault> {
        if self.clock().is_some() {
            return Err(no_quorum());
        }
        if let Some(inbox) = &self.inbox {
            self.wanted |= inbox.clear_wanted();
        }
        let mut call = self.servers.call_for(&DOWNGRADE, &self.names, true);
        call.command.arg(self.owner()).arg(millis(self.lease()));
        let answer = match self.servers.call(call).await {
            Ok(answer) => answer,
            Err(unserved) => return Err(self.named(unserved.fault.into_fault()).await),
        };
        match (&answer, ints(&answer, &mut [0; 5])) {
            (Value::Int(0), _) => {
                self.tokens = (0, 0);
                Ok(Renewal::Lost)
            }
            (_, &[first, last, wanted]) => {
                (self.mode, self.together, self.renewed) = (Mode::Shared, true, true);
                let tokens = TokenBlock::new(token(first)?, token(last)?);
                self.holds(tokens);
                Ok(Renewal::Held(self.granted(tokens, Some(wanted != 0))))
            }
            _ => Err(fault::strange("a downgrade")),
        }
    }
}
