//! Several keys at once, all or none.

mod budget;
mod cancel;
mod lost;
mod many;
mod order;
mod release;

use lock_core::{AcquireError, LockClient};

use crate::Stage;

const KEYS: [&str; 3] = ["j", "k", "l"];

/// Whether somebody has `key`, so that nobody else can.
async fn is_taken(client: &LockClient, key: &str) -> Result<bool, AcquireError> {
    match client.lock(key).try_acquire().await? {
        Some(guard) => {
            guard.release().await.expect("a store that is well");
            Ok(false)
        }
        None => Ok(true),
    }
}

/// The keys of [`KEYS`] that another process finds taken.
async fn taken(stage: &Stage) -> Result<[bool; 3], AcquireError> {
    let mut taken = [false; 3];
    for (is, key) in taken.iter_mut().zip(KEYS) {
        *is = is_taken(&stage.rival, key).await?;
    }
    Ok(taken)
}
