//! A resource that a lock protects.
//!
//! A lock alone cannot stop a holder that was frozen past its lease: only the resource can, by
//! refusing a write whose fencing token is below one that it has seen. [`FencedRegister`] is the
//! smallest such resource, kept in a Redis that need not be the one of the lock.

use redis::AsyncConnectionConfig;
use redis::aio::MultiplexedConnection;

use crate::wait::PATIENCE;

/// One step at the server: compare the token, remember it, count the write.
const WRITE: &str = r"
local seen = tonumber(redis.call('HGET', KEYS[1], 'token') or '0')
if tonumber(ARGV[1]) < seen then return 0 end
redis.call('HSET', KEYS[1], 'token', ARGV[1], 'writer', ARGV[2])
redis.call('HINCRBY', KEYS[1], 'writes', 1)
return 1";

/// A register per key that refuses a token below the highest one it has seen.
#[derive(Clone)]
pub struct FencedRegister {
    connection: MultiplexedConnection,
}

impl std::fmt::Debug for FencedRegister {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FencedRegister").finish_non_exhaustive()
    }
}

/// A connection whose requests wait for their answers: a process that was stopped in the middle of
/// one finds the answer when it goes on, and not that its time is over.
///
/// # Errors
///
/// If the server cannot be reached.
///
/// # Cancel safety
///
/// Cancel safe; a connection is closed.
pub async fn patient(url: &str) -> redis::RedisResult<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(PATIENCE))
        .set_response_timeout(None);
    redis::Client::open(url)?.get_multiplexed_async_connection_with_config(&config).await
}

impl FencedRegister {
    /// Connects to the Redis at `url`.
    ///
    /// # Errors
    ///
    /// If it cannot be reached.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe; a connection is closed.
    pub async fn connect(url: &str) -> redis::RedisResult<Self> {
        Ok(FencedRegister { connection: patient(url).await? })
    }

    /// Writes as `writer` with `token`; false if the register has seen a higher one.
    ///
    /// # Errors
    ///
    /// If Redis does not answer; the write may have been made then.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: the write may or may not be made.
    pub async fn write(&self, key: &str, token: u64, writer: &str) -> redis::RedisResult<bool> {
        let mut connection = self.connection.clone();
        // With its source each time: a test may flush the scripts at any moment.
        let mut call = redis::cmd("EVAL");
        call.arg(WRITE).arg(1).arg(format!("resource:{key}")).arg(token).arg(writer);
        call.query_async(&mut connection).await
    }
}
