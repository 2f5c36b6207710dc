//! A key that goes from one client to another and back: each release hands it on, and the server
//! pushes it.

use futures_util::StreamExt as _;

use crate::connect;

const KEY: &str = "handed";

/// Where the server tells what becomes of the line.
const LINE: &str = "__keyspace@0__:lock:{handed}:queue";

pub(crate) async fn from_client_to_client(url: &str, count: usize) {
    let clients = [connect(url).await, connect(url).await];
    let mut lines = redis::Client::open(url).expect("a URL").get_async_pubsub().await;
    let lines = lines.as_mut().expect("a server");
    tell_of_lines(url).await;
    lines.subscribe(LINE).await.expect("a server");
    let mut lines = lines.on_message();
    let mut guard = clients[0].lock(KEY).await.expect("a free key");
    for n in 1..=count {
        let next = tokio::spawn(clients[n % 2].lock(KEY).acquire());
        while lines.next().await.expect("a server").get_payload_bytes() != b"rpush" {}
        guard.release().await.expect("a held lock");
        guard = next.await.expect("no panic").expect("a grant within a minute");
    }
    guard.release().await.expect("a held lock");
    let handed: u64 = clients.iter().map(|client| client.stats().handoffs_remote).sum();
    assert_eq!(handed, count as u64, "not each was a hand-off");
}

async fn tell_of_lines(url: &str) {
    let client = redis::Client::open(url).expect("a URL");
    let mut connection = client.get_multiplexed_async_connection().await.expect("a server");
    let mut set = redis::cmd("CONFIG");
    set.arg("SET").arg("notify-keyspace-events").arg("Kl");
    set.exec_async(&mut connection).await.expect("a server of our own");
}
