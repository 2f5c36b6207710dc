//! Shutdown: nobody new gets a lock, who waits is sent away, who holds one may finish.
//!
//! `cargo run -p examples --example shutdown [redis://127.0.0.1]`

use std::error::Error;
use std::time::Duration;

use lock_core::LockClient;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory:".to_owned());
    let locks = LockClient::connect(&url).await?;
    let key = "example:shutdown";

    // One task works under the lock, another one waits for it.
    let guard = locks.lock(key).await?;
    let worker = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let still_held = guard.is_held();
        guard.release().await.map(|()| still_held)
    });
    let waiter = tokio::spawn(locks.lock(key).acquire());
    while locks.stats().waiters == 0 {
        tokio::task::yield_now().await;
    }

    // In a server this follows ctrl-c or SIGTERM, beside the graceful shutdown of the listener.
    let report = locks.shutdown(Duration::from_secs(5)).await;
    println!("{report:?}");
    assert!(report.complete, "every lock was given back");
    assert_eq!(report.abandoned, 0, "the work ended within the deadline");

    assert!(worker.await??, "the worker had its lock until it was done");
    let sent_away = waiter.await?.unwrap_err();
    assert!(sent_away.is_closed());
    println!("the waiter: {sent_away}");
    let too_late = locks.lock(key).await.unwrap_err();
    assert!(too_late.is_closed());
    Ok(())
}
