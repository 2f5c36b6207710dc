//! The way from a URL, and pools of the application if there are any, to a store.

use super::schemes::{QUORUM, STORES};
use super::topology::origin;
use super::{Layout, Redis, RedisPool, Redisson};
use crate::backend::{ConnectError, Opening, Scheme, StoreUrl, opening};

pub(super) fn store(url: StoreUrl) -> Result<Opening, ConnectError> {
    match origin::layout(&url)? {
        Layout::Own => Ok(opening(Redis::open(&url, None)?)),
        Layout::Redisson => Ok(opening(Redisson::open(&url)?)),
    }
}

pub(super) fn quorum(url: StoreUrl) -> Result<Opening, ConnectError> {
    Ok(opening(Redis::open_quorum(&url, Vec::new())?))
}

/// An application's own pools, which go with the URL of a client.
#[derive(Default)]
pub(crate) struct Pools {
    pub(crate) one: Option<RedisPool>,
    /// The pools of a quorum, in the order of its members.
    pub(crate) each: Vec<RedisPool>,
}

impl Pools {
    pub(crate) fn are_none(&self) -> bool {
        self.one.is_none() && self.each.is_empty()
    }

    /// Connects through them. Where nothing would go through them they are refused, not passed
    /// over without a word.
    pub(crate) fn open(self, url: &StoreUrl) -> Result<Opening, ConnectError> {
        let is = |scheme: &Scheme| url.scheme() == scheme.name();
        let (is_quorum, is_store) = (is(&QUORUM), STORES.iter().any(is));
        let reason = match (self.one, self.each) {
            (None, each) if is_quorum => return Ok(opening(Redis::open_quorum(url, each)?)),
            _ if is_store && origin::layout(url)? == Layout::Redisson => {
                "`layout=redisson` goes over connections of its own: leave the pool out"
            }
            _ if is_quorum => "a quorum takes one pool for each member: `redis_pools`",
            (one, each) if is_store && each.is_empty() => {
                return Ok(opening(Redis::open(url, one)?));
            }
            (_, each) if !each.is_empty() => {
                "`redis_pools` are for `redlock:`; others take one `redis_pool`"
            }
            _ => "`redis_pool` is for `redis:` URLs",
        };
        Err(ConnectError::Pools { reason: reason.into() })
    }
}
