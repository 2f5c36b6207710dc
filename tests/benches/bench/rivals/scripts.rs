//! The requests of our client without our client: what is left of ours is the engine's.

use lock_core::__bare::BareSession;
use lock_core::Key;
use redis::aio::MultiplexedConnection;

use super::{LEASE, Rival, multiplexed};

#[derive(Clone)]
pub(crate) struct OurScripts {
    connection: MultiplexedConnection,
    session: BareSession,
}

impl OurScripts {
    pub(crate) async fn connect(url: &str) -> Self {
        let mut connection = multiplexed(url).await;
        for load in BareSession::load() {
            load.exec_async(&mut connection).await.expect("a server");
        }
        OurScripts { connection, session: BareSession::new() }
    }
}

impl Rival for OurScripts {
    async fn cycle<H: Future<Output = ()> + Send>(
        &self,
        key: &str,
        held: impl FnOnce() -> H + Send,
    ) {
        let mut connection = self.connection.clone();
        let claim = self.session.claim(&Key::new(key).expect("a key"), LEASE);
        let attempt = claim.attempt();
        attempt.query_async::<redis::Value>(&mut connection).await.expect("a server");
        held().await;
        let withdraw = claim.withdraw();
        withdraw.query_async::<redis::Value>(&mut connection).await.expect("a server");
    }
}
