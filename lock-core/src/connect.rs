//! From a URL to a backend.

use std::sync::Arc;

use crate::backend::DynBackend;
use crate::error::ConnectError;
use crate::memory::Memory;

/// The schemes of this build, for error messages.
#[cfg(not(feature = "redis"))]
const KNOWN: &str = "`memory:` (`redis:` needs the feature `redis`)";
#[cfg(all(feature = "redis", not(feature = "redis-tls")))]
const KNOWN: &str =
    "`memory:`, `redis:` or `redis+unix:` (`rediss:` needs the feature `redis-tls`)";
#[cfg(feature = "redis-tls")]
const KNOWN: &str = "`memory:`, `redis:`, `rediss:` or `redis+unix:`";

/// The longest part of an unknown scheme that an error repeats.
const SCHEME_SHOWN_MAX: usize = 24;

pub(crate) async fn backend(
    url: &str,
    #[cfg(feature = "deadpool")] pool: Option<deadpool_redis::Pool>,
) -> Result<Arc<dyn DynBackend>, ConnectError> {
    let (scheme, rest) = url.split_once(':').unwrap_or(("", url));
    match scheme {
        "memory" => memory(rest),
        #[cfg(feature = "redis")]
        "redis" | "redis+unix" => {
            redis(
                url,
                #[cfg(feature = "deadpool")]
                pool,
            )
            .await
        }
        #[cfg(feature = "redis-tls")]
        "rediss" => {
            redis(
                url,
                #[cfg(feature = "deadpool")]
                pool,
            )
            .await
        }
        _ => {
            let scheme: String = scheme.escape_default().take(SCHEME_SHOWN_MAX).collect();
            Err(ConnectError::Scheme { scheme, known: KNOWN })
        }
    }
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
async fn redis(
    url: &str,
    #[cfg(feature = "deadpool")] pool: Option<deadpool_redis::Pool>,
) -> Result<Arc<dyn DynBackend>, ConnectError> {
    let backend = crate::redis::Redis::connect(
        url,
        #[cfg(feature = "deadpool")]
        pool,
    )
    .await?;
    Ok(Arc::new(backend))
}
