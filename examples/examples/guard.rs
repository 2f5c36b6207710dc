//! The guard: take a lock, use it, give it back.
//!
//! `cargo run -p examples --example guard [redis://127.0.0.1]`

use std::error::Error;
use std::time::Duration;

use lock_core::LockClient;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory:".to_owned());
    let locks = LockClient::connect(&url).await?;
    let key = "example:guard";

    let guard = locks
        .lock(key)
        .wait(Duration::from_secs(2))
        .retries(1)
        .lease(Duration::from_secs(10))
        .await?;
    println!("{} is held under token {}", guard.key(), guard.token());

    // Nobody else gets it meanwhile, at once or after a wait.
    assert!(locks.lock(key).try_acquire().await?.is_none());
    let busy = locks.lock(key).wait(Duration::from_millis(50)).await.unwrap_err();
    assert!(busy.is_timeout());
    println!("a second caller: {busy}");

    // Dropping a guard gives its lock back too; this waits for the answer of the store.
    let first = guard.token();
    guard.release().await?;

    // The work is stopped at its next await if the lock is lost.
    let second = locks
        .lock(key)
        .run(|lock| async move {
            assert!(lock.is_held());
            lock.token()
        })
        .await?;
    assert!(second > first, "every holder has a higher token than the ones before");
    println!("and again, under token {second}");

    locks.shutdown(Duration::from_secs(1)).await;
    Ok(())
}
