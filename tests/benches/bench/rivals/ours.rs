//! This workspace's lock.

use lock_core::options::Fairness;
use lock_core::{LockClient, LockOptions};

use super::{Contender, LEASE, PERMITS, Rival};

#[derive(Clone)]
pub(crate) struct Ours {
    client: LockClient,
    options: LockOptions,
}

impl Ours {
    pub(crate) async fn connect(contender: Contender, url: &str) -> Self {
        let options = match contender {
            Contender::OursStrict => options().with_fairness(Fairness::Strict),
            Contender::OursShared => options().shared(),
            Contender::OursPermits => options().permits(PERMITS),
            _ => options(),
        };
        Ours { client: client(url, options).await, options }
    }

    /// The same client, whose acquires are as `options` say.
    pub(crate) fn of(client: LockClient, options: LockOptions) -> Self {
        Ours { client, options }
    }

    pub(crate) fn requests(&self) -> u64 {
        self.client.stats().store_requests
    }
}

impl Rival for Ours {
    async fn cycle<H: Future<Output = ()> + Send>(
        &self,
        key: &str,
        held: impl FnOnce() -> H + Send,
    ) {
        let guard = self
            .client
            .lock(key)
            .options(self.options)
            .acquire()
            .await
            .expect("a grant within a minute");
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
