//! What those who watch a service see, on a paused clock.

mod metrics;
mod spans;

use std::time::Duration;

type Test = Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// What no label, field or name may carry.
const SECRET: &str = "account-of-jane-doe";

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// Lets all tasks run that can, without the clock going on.
async fn settle() {
    for _ in 0..32 {
        tokio::task::yield_now().await;
    }
}
