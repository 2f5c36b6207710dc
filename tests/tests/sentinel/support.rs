//! What the tests of this binary share.

use std::time::Duration;

use lock_core::{LockClient, LockOptions};

pub(crate) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A client whose acquires wait 10 s, with `lease`.
pub(crate) async fn connect(url: &str, lease: Duration) -> LockClient {
    let options = LockOptions::new().with_wait(ms(10_000)).with_lease(lease);
    LockClient::builder(url).defaults(options).connect().await.expect("a client")
}
