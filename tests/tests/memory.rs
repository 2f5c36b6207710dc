//! Every fault of the matrix that the store in this process can suffer.

use lock_core::LockClient;
use tests::support::idle;

tests::scenes!(MEMORY);

/// F35 (V6): 100,000 keys that are used once each leave nothing.
#[tokio::test]
async fn a_hundred_thousand_keys_used_once_each_leave_nothing() {
    let memory = LockClient::memory();
    for n in 0..100_000 {
        memory.lock(format!("k:{n}")).await.unwrap().release().await.unwrap();
    }
    idle(&memory).await;
    assert_eq!(memory.stats().acquired, 100_000);
}
