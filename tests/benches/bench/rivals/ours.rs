//! This workspace's lock.

use lock_core::{Fairness, LockClient, LockOptions};

use super::{Contender, LEASE, Rival};

#[derive(Clone)]
pub(crate) struct Ours(LockClient);

impl Ours {
    pub(crate) async fn connect(contender: Contender, url: &str) -> Self {
        let options = match contender {
            Contender::OursStrict => options().with_fairness(Fairness::Strict),
            _ => options(),
        };
        Ours(client(url, options).await)
    }

    pub(crate) fn requests(&self) -> u64 {
        self.0.stats().store_requests
    }
}

impl Rival for Ours {
    async fn cycle<H: Future<Output = ()> + Send>(
        &self,
        key: &str,
        held: impl FnOnce() -> H + Send,
    ) {
        let guard = self.0.lock(key).acquire().await.expect("a grant within a minute");
        held().await;
        guard.release().await.expect("a held lock");
    }
}

/// The defaults, with a wait that no run reaches.
pub(crate) fn options() -> LockOptions {
    LockOptions::default().with_lease(LEASE).with_wait(std::time::Duration::from_secs(60))
}

pub(crate) async fn client(url: &str, options: LockOptions) -> LockClient {
    LockClient::builder(url).defaults(options).connect().await.expect("a server")
}
