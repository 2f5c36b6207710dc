//! Two requests over one connection, without a lock's promises.

use cycles::BareSession;
use lock_core::Key;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, Value};

use crate::LEASE;
use crate::free::keys;

/// The requests of our client without our client.
pub(crate) struct OurScripts {
    connection: MultiplexedConnection,
    session: BareSession,
}

impl OurScripts {
    pub(crate) async fn connect(url: &str) -> Self {
        let mut connection = patient(url).await;
        let session = BareSession::open(&mut connection).await.expect("a server");
        Self { connection, session }
    }

    pub(crate) async fn run(mut self, count: usize) {
        for key in keys(count) {
            let claim = self.session.claim(&Key::new(key).expect("a key"), LEASE);
            ask(&mut self.connection, &claim.attempt()).await;
            ask(&mut self.connection, &claim.withdraw()).await;
        }
    }
}

/// The least scripts that lock and unlock.
pub(crate) struct SetAndDelete {
    connection: MultiplexedConnection,
    set: String,
    delete: String,
}

impl SetAndDelete {
    pub(crate) async fn connect(url: &str) -> Self {
        let mut connection = patient(url).await;
        let set = "return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])";
        let delete = "if redis.call('GET', KEYS[1]) == ARGV[1] then \
                      return redis.call('DEL', KEYS[1]) end return 0";
        let set = load(&mut connection, set).await;
        let delete = load(&mut connection, delete).await;
        Self { connection, set, delete }
    }

    pub(crate) async fn run(mut self, count: usize) {
        let lease_ms = LEASE.as_millis() as u64;
        for key in keys(count) {
            let mut set = redis::cmd("EVALSHA");
            set.arg(&self.set).arg(1).arg(key).arg("0123456789abcdef").arg(lease_ms);
            ask(&mut self.connection, &set).await;
            let mut delete = redis::cmd("EVALSHA");
            delete.arg(&self.delete).arg(1).arg(key).arg("0123456789abcdef");
            ask(&mut self.connection, &delete).await;
        }
    }
}

/// A connection that never gives a slow answer up.
async fn patient(url: &str) -> MultiplexedConnection {
    let config =
        AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
    let client = redis::Client::open(url).expect("a URL");
    client.get_multiplexed_async_connection_with_config(&config).await.expect("a server")
}

/// Loads the script; the name that the server has for it.
async fn load(connection: &mut MultiplexedConnection, source: &str) -> String {
    let mut load = redis::cmd("SCRIPT");
    load.arg("LOAD").arg(source).query_async(connection).await.expect("a server")
}

async fn ask(connection: &mut MultiplexedConnection, command: &Cmd) {
    command.query_async::<Value>(connection).await.expect("a server");
}
