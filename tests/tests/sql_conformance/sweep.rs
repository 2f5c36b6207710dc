//! Rows that nobody uses.

use lock_core::LockClient;

use crate::support::*;

/// V2, V6: rows that nobody uses are swept, those in use stay, and tokens go on to grow.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sweep_deletes_what_is_idle_and_takes_no_token_back() {
    const IDLE: u64 = 250;
    let place = Place::new();
    let store = Store::connect(&place.new_url()).await.expect("a store");
    let locks = LockClient::with_backend(store.clone());
    // First of all, in the middle, and last of all.
    let mut held = Vec::new();
    for key in ["a", "k:100a", "z"] {
        held.push(locks.lock(key).await.expect("a free key"));
    }
    let mut tokens = Vec::new();
    for n in 0..IDLE {
        let guard = locks.lock(format!("k:{n}")).await.expect("a free key");
        tokens.push(guard.token());
        guard.release().await.expect("a release");
    }
    assert_eq!(store.sweep(ms(600_000)).await.expect("a sweep"), 0, "they were just used");
    // A row stays until the clock has passed its token.
    let mut swept = 0;
    while swept < IDLE {
        swept += store.sweep(ms(0)).await.expect("a sweep");
    }
    assert_eq!(swept, IDLE);
    assert!(held.iter().all(|held| held.is_held()));
    for (n, before) in tokens.into_iter().enumerate().step_by(25) {
        let guard = locks.lock(format!("k:{n}")).await.expect("a free key");
        assert!(guard.token() > before);
        guard.release().await.expect("a release");
    }
    for held in held {
        held.release().await.expect("it was left alone");
    }
}
