//! One Redis server: its connections, and how a script is called there.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use redis::aio::MultiplexedConnection;
use redis::{Client, Cmd, Value};

use super::inbox::Inboxes;
use super::link::{self, Failure, Link, Unserved};
#[cfg(feature = "deadpool")]
use super::pool::RedisPool;
use super::renewals::Renewals;
use super::script::Script;
use super::{names, probe};
use crate::backend::Fault;
use crate::engine::clock;

/// See the module.
#[derive(Debug)]
pub(super) struct Node {
    /// 64 random bits that name this client.
    pub(super) session: String,
    pub(super) inboxes: Arc<Inboxes>,
    pub(super) renewals: Renewals,
    /// Commands and pushes.
    main: Arc<Link>,
    #[cfg(feature = "deadpool")]
    pool: Option<RedisPool>,
    requests: Arc<AtomicU64>,
}

impl Node {
    pub(super) async fn connect(
        client: Client,
        #[cfg(feature = "deadpool")] pool: Option<RedisPool>,
    ) -> Result<Arc<Self>, Fault> {
        super::url::install_tls();
        let session = format!("{:016x}", clock::random_claim_id().bits() as u64);
        let inboxes = Arc::new(Inboxes::default());
        let requests = Arc::new(AtomicU64::new(0));
        let channel = names::channel(&session);
        let renewals = Renewals::start(Link::plain(client.clone()), requests.clone());
        let main = Link::listening(client, channel, inboxes.clone());
        main.get().await?;
        let node = Self {
            session,
            inboxes,
            renewals,
            main,
            #[cfg(feature = "deadpool")]
            pool,
            requests,
        };
        probe::rights(&node).await?;
        probe::eviction(&node).await;
        #[cfg(feature = "deadpool")]
        probe::pool(&node).await?;
        Ok(Arc::new(node))
    }

    #[cfg(feature = "deadpool")]
    pub(super) fn has_pool(&self) -> bool {
        self.pool.is_some()
    }

    pub(super) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Calls a script by its hash, and with its source if the server does not know it.
    pub(super) async fn call(&self, script: &Script, command: Cmd) -> Result<Value, Unserved> {
        match self.send(&command).await {
            Err(unserved) if unserved.fault.is_no_script() => {
                self.send(&script.eval(&command)).await
            }
            answer => answer,
        }
    }

    /// Calls a script over a connection of the past.
    pub(super) async fn call_over(
        connection: &mut MultiplexedConnection,
        script: &Script,
        command: &Cmd,
    ) -> Result<Value, Failure> {
        link::send(connection, &script.eval(command), link::REQUEST_WITHIN).await
    }

    #[cfg(not(feature = "deadpool"))]
    pub(super) async fn send(&self, command: &Cmd) -> Result<Value, Unserved> {
        self.send_main(command).await
    }

    #[cfg(feature = "deadpool")]
    pub(super) async fn send(&self, command: &Cmd) -> Result<Value, Unserved> {
        let Some(pool) = &self.pool else { return self.send_main(command).await };
        self.requests.fetch_add(1, Ordering::Relaxed);
        pool.send(command).await
    }

    /// Sends over the connection of our own.
    pub(super) async fn send_main(&self, command: &Cmd) -> Result<Value, Unserved> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.main.call(command, link::REQUEST_WITHIN).await
    }
}
