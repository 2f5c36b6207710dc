//! Processes of one shop, and the Redis in which they write down what they did.

use std::net::SocketAddr;

use serde_json::Value;
use tests::redis::RedisServer;
use tests::wait::{eventually, within};
use tests::worker::Worker;

/// The shop: a Redis of locks and records, and one that is its own.
#[derive(Debug)]
pub(crate) struct Shop {
    pub(crate) redis: RedisServer,
    ledger: RedisServer,
}

/// One process of it, or only its address.
#[derive(Debug)]
pub(crate) struct Process {
    worker: Option<Worker>,
    address: SocketAddr,
}

impl Shop {
    pub(crate) fn open() -> Self {
        Self { redis: RedisServer::start(), ledger: RedisServer::start() }
    }

    /// Starts a process whose locks and records are at `url`.
    pub(crate) async fn process_at(&self, url: &str, options: &[&str]) -> Process {
        let ledger = self.ledger.url();
        let arguments = [&["--url", url, "--ledger", &ledger], options].concat();
        let mut worker = Worker::spawn(env!("CARGO_BIN_EXE_orders"), &arguments);
        let ready = worker.reply().await;
        let address = ready.value.as_ref().and_then(Value::as_str).map(str::parse);
        let address = address.and_then(Result::ok).unwrap_or_else(|| panic!("{ready:?}"));
        Process { worker: Some(worker), address }
    }

    pub(crate) async fn process(&self, options: &[&str]) -> Process {
        self.process_at(&self.redis.url(), options).await
    }

    pub(crate) fn open_gate(&self, name: &str) {
        let _: () = self.ledger.command(&["SET", &format!("gate:{name}"), "open"]);
    }

    /// How many handlers have begun, in all processes.
    pub(crate) fn runs(&self) -> usize {
        self.ledger.command(&["LLEN", "runs"])
    }

    /// How each handler that came to its end was answered by the stock.
    pub(crate) fn ended(&self) -> Vec<String> {
        self.ledger.command(&["LRANGE", "ended", "0", "-1"])
    }

    pub(crate) async fn has_begun(&self, runs: usize) {
        eventually("the handler has begun", || self.runs() >= runs).await;
    }
}

impl Process {
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address alone, for another task.
    pub(crate) fn remote(&self) -> Self {
        Self { worker: None, address: self.address }
    }

    pub(crate) fn worker(&mut self) -> &mut Worker {
        self.worker.as_mut().expect("the process itself")
    }

    /// Waits until it has noticed that no client waits for it.
    pub(crate) async fn has_no_client(&mut self) {
        let noticed = async {
            while self.count("open").await > 0 {
                tokio::time::sleep(std::time::Duration::from_millis(2)).await;
            }
        };
        within("the process to notice that its client is gone", noticed).await;
    }

    /// A counter of its engine, or of its `open` requests.
    pub(crate) async fn count(&mut self, name: &str) -> u64 {
        let stats = self.worker().ask("stats").await.value.expect("the counters");
        stats[name].as_u64().unwrap_or_else(|| panic!("no {name} in {stats}"))
    }
}
