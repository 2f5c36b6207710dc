//! Clients whose clocks differ.

use crate::support::*;

/// V2: who took the key last had a clock that is hours ahead, and its fence has run out since.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_grow_when_a_fence_ran_out_and_the_last_clients_clock_was_ahead() {
    let servers = Servers::start(3);
    let locks = servers.ready().await;
    let guard = lock(&locks, "k").await;
    let ahead = guard.token().get() + 8_000_000 * 3_600 * 3;
    guard.release().await.unwrap();
    for server in &servers.all {
        server.command::<()>(&["SET", "lock:quorum:high", &format!("{ahead:016}")]);
        server.command::<()>(&["DEL", "lock:{k}:fence"]);
    }
    let mut last = ahead;
    for _ in 0..3 {
        let guard = lock(&locks, "k").await;
        assert!(guard.token().get() > last, "a finding of safety: {} after {last}", guard.token());
        last = guard.token().get();
        guard.release().await.unwrap();
    }
}
