//! One who follows an election. Followers are listed with the channel of their session, as waiters
//! are, and told when what is published changes.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use redis::FromRedisValue as _;

use super::claim::{millis, named};
use super::election::call;
use crate::backend::{BoxFuture, ClaimId, Fault, Follower, Following};
use crate::key::Key;
use crate::redis::protocol::names::{self, Names, Owner};
use crate::redis::protocol::script::FOLLOW;
use crate::redis::topology::Topology;
use crate::redis::topology::cluster::Listening;
use crate::redis::wire::fault;
use crate::redis::wire::inbox::Inbox;
use crate::token::FencingToken;
use crate::view::Leader;

/// The time for which a follower is told without asking again.
const TOLD_FOR: Duration = Duration::from_secs(30);

/// A follower asks again this often, should a push have been lost.
const RECHECK: Duration = Duration::from_secs(10);

/// The same while nobody leads.
const RECHECK_VACANT: Duration = Duration::from_secs(1);

/// One who follows the election on a key at a Redis server.
#[derive(Debug)]
pub(in crate::redis) struct RedisFollower {
    servers: Arc<Topology>,
    names: Names,
    id: ClaimId,
    inbox: Arc<Inbox>,
    /// Has the pushes to the inbox heard, where that is not so anyway.
    listening: Option<Listening>,
}

impl RedisFollower {
    pub(in crate::redis) fn new(servers: Arc<Topology>, key: &Key) -> Self {
        let (names, id) = (Names::new(key), ClaimId::random());
        let (inbox, listening) = (servers.session.inboxes.open(id), servers.listen(&names, id));
        Self { servers, names, id, inbox, listening }
    }

    async fn ask_for(&self, told_for: Duration) -> Result<Following, Fault> {
        let owner = Owner { claim: self.id, session: &self.servers.session.id, of_quorum: false };
        let mut call = call(&self.servers, &FOLLOW, &self.names);
        call.command.arg(owner).arg(millis(told_for));
        let answer = match self.servers.call(call).await {
            Ok(answer) => answer,
            Err(unserved) => return Err(named(&self.servers, unserved.fault.into_fault()).await),
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

impl Follower for RedisFollower {
    fn leader(&mut self) -> BoxFuture<'_, Result<Following, Fault>> {
        Box::pin(async {
            self.inbox.clear_wanted();
            let is_heard = self.servers.is_heard(self.listening.as_ref());
            let answer = self.ask_for(TOLD_FOR).await?;
            if is_heard {
                return Ok(answer);
            }
            // A change before anybody listened was pushed to nobody.
            self.servers.heard(self.listening.as_ref()).await;
            self.ask_for(TOLD_FOR).await
        })
    }

    fn changed(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            poll_fn(|cx| self.inbox.poll_changed(false, cx)).await;
        })
    }

    /// Where its word is lost, the server forgets it by itself.
    fn leave(&mut self) -> BoxFuture<'_, Result<(), Fault>> {
        Box::pin(async { self.ask_for(Duration::ZERO).await.map(drop) })
    }
}

impl Drop for RedisFollower {
    fn drop(&mut self) {
        self.servers.session.inboxes.close(self.id);
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
    use super::*;

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
}
