//! The ZooKeeper fixtures, and the proxy before a ZooKeeper, do what they say.

#![allow(clippy::disallowed_methods)]

mod ensemble;
mod proxy;
mod server;

use tests::wait::within;
use zookeeper_client::{Acls, Client, CreateMode, CreateOptions};

/// Anyone may do anything to it, and it stays.
const LASTING: CreateOptions<'static> = CreateMode::Persistent.with_acls(Acls::anyone_all());

/// Anyone may do anything to it, and it ends with its session.
const EPHEMERAL: CreateOptions<'static> = CreateMode::Ephemeral.with_acls(Acls::anyone_all());

/// A session of 6 s at the hosts `to`.
async fn connect(to: &str) -> Client {
    within("a session", Client::connect(to)).await.unwrap()
}
