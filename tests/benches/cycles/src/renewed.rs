//! Holds that are renewed, many at once.

use std::time::Duration;

use futures_util::future::try_join_all;

use crate::connect_for;

/// As many as are renewed in the shorter run, which has each once.
const HOLDS: usize = 500;

/// Each is renewed at a third of it.
const LEASE: Duration = Duration::from_millis(1_500);

pub(crate) async fn renewals(url: &str, count: usize) {
    let locks = connect_for(url, LEASE).await;
    let acquires = (0..HOLDS).map(|n| locks.lock(format!("renewed:{n}")).acquire());
    let guards = try_join_all(acquires).await.expect("free keys");
    while locks.stats().renewals < count as u64 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    for guard in guards {
        guard.release().await.expect("a held lock");
    }
}
