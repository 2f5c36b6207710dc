//! The fencing token: a holder that was too slow can't undo what the next one wrote.
//!
//! `cargo run -p examples --example fenced_write [redis://127.0.0.1]`

use std::error::Error;
use std::time::Duration;

use lock_core::{FencingToken, LockClient};

/// The document that the lock protects. It remembers the highest token that it has seen; in SQL
/// that is `UPDATE … SET text = ?, fence = :token WHERE id = ? AND fence <= :token`.
#[derive(Debug, Default)]
struct Document {
    text: String,
    fence: Option<FencingToken>,
}

impl Document {
    /// Answers whether the write was accepted.
    fn write(&mut self, text: &str, token: FencingToken) -> bool {
        if self.fence.is_some_and(|seen| token < seen) {
            return false;
        }
        self.fence = Some(token);
        self.text = text.to_owned();
        true
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory:".to_owned());
    let locks = LockClient::connect(&url).await?;
    let key = "example:fenced-write";
    let mut document = Document::default();

    // The first writer takes longer than it may, as one does whose process was paused.
    let slow = locks.lock(key).hold_limit(Duration::from_millis(50)).await?;
    let lost = slow.lost().await;
    println!("the slow writer is told: {lost}");

    // The lock was handed on, and the next writer is done before the first one wakes up.
    let quick = locks.lock(key).await?;
    assert!(document.write("the quick one", quick.token()));
    quick.release().await?;

    // A lock alone can't stop this late write. The document can.
    assert!(!document.write("the slow one", slow.token()));
    assert_eq!(document.text, "the quick one");
    println!("the late write under token {} was refused", slow.token());

    drop(slow);
    locks.shutdown(Duration::from_secs(1)).await;
    Ok(())
}
