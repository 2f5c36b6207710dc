//! From a URL to a backend.

use std::sync::Arc;

use crate::backend::DynBackend;
use crate::error::ConnectError;
use crate::memory::Memory;
#[cfg(feature = "redis")]
use crate::redis::RedisPool;

/// The schemes that there are, and whether this build has them with the feature in the middle.
const SCHEMES: &[(&str, &str, bool)] = &[
    ("memory", "", true),
    ("redis", "redis", cfg!(feature = "redis")),
    ("redis+unix", "redis", cfg!(feature = "redis")),
    ("redis+cluster", "redis", cfg!(feature = "redis")),
    ("redis+sentinel", "redis", cfg!(feature = "redis")),
    ("redlock", "redis", cfg!(feature = "redis")),
    ("redlocks", "redis-tls", cfg!(feature = "redis-tls")),
    ("rediss", "redis-tls", cfg!(feature = "redis-tls")),
    ("rediss+sentinel", "redis-tls", cfg!(feature = "redis-tls")),
    ("zookeeper", "zookeeper", cfg!(feature = "zookeeper")),
    ("zookeeper+quorum", "zookeeper", cfg!(feature = "zookeeper")),
    ("zookeeper+tls", "zookeeper-tls", cfg!(feature = "zookeeper-tls")),
];

/// The longest part of an unknown scheme that an error repeats.
const SCHEME_SHOWN_MAX: usize = 24;

/// Without Redis there is no pool of its connections.
#[cfg(not(feature = "redis"))]
pub(crate) enum RedisPool {}

/// The application's own pools.
#[derive(Default)]
pub(crate) struct Pools {
    pub(crate) one: Option<RedisPool>,
    /// Of a quorum, in the order of its members.
    pub(crate) each: Vec<RedisPool>,
}

impl Pools {
    /// Those of this scheme; others would be passed over without a word.
    fn of(self, scheme: &str) -> Result<(Option<RedisPool>, Vec<RedisPool>), ConnectError> {
        let (one, each) = (self.one.is_some(), !self.each.is_empty());
        let reason = match scheme {
            "redlock" | "redlocks" if one => {
                "a quorum takes one pool for each member: `redis_pools`"
            }
            "redlock" | "redlocks" => return Ok((self.one, self.each)),
            _ if each => "`redis_pools` are for `redlock:`; others take one `redis_pool`",
            _ if one && !scheme.starts_with("redis") => "`redis_pool` is for `redis:` URLs",
            _ => return Ok((self.one, self.each)),
        };
        Err(ConnectError::Url { reason: reason.into() })
    }

    /// Beside a backend of the application's own nothing would go through them.
    pub(crate) fn are_none(self) -> Result<(), ConnectError> {
        match self.one.is_none() && self.each.is_empty() {
            true => Ok(()),
            false => Err(ConnectError::Url {
                reason: "there is none, only a backend: pools go with a URL".into(),
            }),
        }
    }
}

pub(crate) async fn backend(url: &str, pools: Pools) -> Result<Arc<dyn DynBackend>, ConnectError> {
    let (scheme, rest) = url.split_once(':').unwrap_or(("", url));
    let (pool, pools) = pools.of(scheme)?;
    #[cfg(not(feature = "redis"))]
    let _ = (pool, pools);
    match scheme {
        "memory" => memory(rest),
        #[cfg(feature = "redis")]
        "redis" | "redis+unix" | "redis+sentinel" | "redis+cluster" => redis(url, pool).await,
        #[cfg(feature = "redis-tls")]
        "rediss" | "rediss+sentinel" => redis(url, pool).await,
        #[cfg(feature = "redis")]
        "redlock" => redlock(url, pools).await,
        #[cfg(feature = "redis-tls")]
        "redlocks" => redlock(url, pools).await,
        #[cfg(feature = "zookeeper")]
        "zookeeper" => zookeeper(url).await,
        #[cfg(feature = "zookeeper")]
        "zookeeper+quorum" => Ok(Arc::new(crate::zookeeper::quorum::connect(url).await?)),
        #[cfg(feature = "zookeeper-tls")]
        "zookeeper+tls" => zookeeper(url).await,
        _ => {
            let scheme: String = scheme.escape_default().take(SCHEME_SHOWN_MAX).collect();
            Err(ConnectError::Scheme { scheme, known: known() })
        }
    }
}

/// The schemes of this build and those that it lacks, for error messages.
fn known() -> String {
    let known = |&(scheme, feature, here): &(&str, &str, bool)| match here {
        true => format!("`{scheme}:`"),
        false => format!("`{scheme}:` (needs the feature `{feature}`)"),
    };
    SCHEMES.iter().map(known).collect::<Vec<_>>().join(", ")
}

fn memory(name: &str) -> Result<Arc<dyn DynBackend>, ConnectError> {
    match name {
        "" => Ok(Arc::new(Memory::new())),
        name if name.starts_with('/') || name.contains(['?', '#']) => Err(ConnectError::Url {
            reason: "`memory:` is followed by a plain name, without `/`, `?` or `#`".into(),
        }),
        name => Ok(Arc::new(Memory::named(name))),
    }
}

#[cfg(feature = "redis")]
async fn redis(url: &str, pool: Option<RedisPool>) -> Result<Arc<dyn DynBackend>, ConnectError> {
    Ok(Arc::new(crate::redis::Redis::connect(url, pool).await?))
}

#[cfg(feature = "zookeeper")]
async fn zookeeper(url: &str) -> Result<Arc<dyn DynBackend>, ConnectError> {
    Ok(Arc::new(crate::zookeeper::ZooKeeper::connect(url).await?))
}

#[cfg(feature = "redis")]
async fn redlock(url: &str, pools: Vec<RedisPool>) -> Result<Arc<dyn DynBackend>, ConnectError> {
    Ok(Arc::new(crate::redis::Redis::quorum(url, pools).await?))
}
