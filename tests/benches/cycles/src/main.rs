//! One thing of our client's or of a rival's on a runtime of one thread, so many times and nothing
//! else.
//!
//! `cycles WORK COUNT URL`; for `tests/benches/instructions`, which runs this under callgrind for
//! two counts: what the longer run takes more than the shorter one is the price of its cycles,
//! without that of starting, connecting and ending.
//!
//! Everything is some fifty times as slow there, so no time limit may come into play: the locks
//! live for a minute, and connecting is tried again.

mod bare;
mod free;
mod handed;
mod layer;
mod local;
mod renewed;

use std::time::Duration;

use lock_core::{LockClient, LockOptions};

const LEASE: Duration = Duration::from_secs(60);

/// How often connecting is tried: the client gives each try two seconds.
const CONNECTS_MAX: usize = 30;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [work, count, url] = &arguments[..] else { panic!("cycles WORK COUNT URL") };
    let count = count.parse().expect("a number of cycles");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        match work.as_str() {
            "ours" => free::ours(url, count).await,
            "our-scripts" => bare::OurScripts::connect(url).await.run(count).await,
            "set-and-delete" => bare::SetAndDelete::connect(url).await.run(count).await,
            "rslock" => free::rslock(url, count).await,
            "layer" => layer::requests(url, count).await,
            "remote-hand-off" => handed::from_client_to_client(url, count).await,
            "renewal" => renewed::renewals(url, count).await,
            "local-hand-off" => local::hand_offs(count).await,
            "tokio-mutex" => local::hand_offs_of_tokio(count).await,
            "reader" => local::readers(count).await,
            "tokio-rwlock" => local::readers_of_tokio(count).await,
            "permit" => local::permits(count).await,
            "tokio-semaphore" => local::permits_of_tokio(count).await,
            _ => panic!("no such work: {work}"),
        }
    });
}

/// A client whose holds last for longer than any run.
async fn connect(url: &str) -> LockClient {
    connect_for(url, LEASE).await
}

async fn connect_for(url: &str, lease: Duration) -> LockClient {
    let options = LockOptions::default().with_lease(lease).with_wait(LEASE);
    for _ in 1..CONNECTS_MAX {
        if let Ok(locks) = LockClient::builder(url).defaults(options).connect().await {
            return locks;
        }
    }
    LockClient::builder(url).defaults(options).connect().await.expect("a server")
}
