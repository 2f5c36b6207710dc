//! The requests of our client without our client: what is left of ours is the engine's.

use cycles::BareSession;
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
        let session = BareSession::open(&mut connection).await.expect("a server");
        OurScripts { connection, session }
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
