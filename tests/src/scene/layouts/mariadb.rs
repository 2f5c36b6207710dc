//! One MariaDB server.

// The same text over another fixture: their rows and errors are types of their own.
#[allow(clippy::duplicate_mod)]
#[path = "on_server.rs"]
mod on_server;

use std::net::SocketAddr;

use sqlx::mysql::MySqlRow as DbRow;

use self::MARIADB as KIND;
use self::on_server::{OnServer, times};
use super::*;
use crate::mariadb::{MariaDbOptions, MariaDbServer as Server};
use crate::proxy::Proxy;

/// A table for each scope.
pub const MARIADB: Kind = Kind {
    name: "MariaDB",
    store: "mysql",
    start: || {
        Box::pin(async {
            let options = MariaDbOptions::new().movable_clock();
            Box::new(OnServer { server: Server::with(options) }) as Box<dyn Layout>
        })
    },
    // The server was killed, not the machine.
    keeps: Keeps::Everything,
    can: OF_A_DATABASE,
    lacks: &[(Power::Push, "there is no push: whoever waits looks")],
    fails: &[],
    patient: times(30_000),
    steady: times(2_000),
    brisk: times(2_000),
};

/// The owner of the tables.
const OWNER: &str = "owner";

/// There is no such view.
const MISSING: &str = "42S02";

/// The protocol's name for a statement that is run with its values.
const RUN: &str = "EXECUTE";

/// How many wait.
const WAITING: &str = "CAST(waiting AS SIGNED)";

fn proxied(server: SocketAddr) -> Proxy {
    Proxy::mysql(server)
}

/// In hexadecimal, of which nothing has to be escaped.
fn quoted(key: &str) -> String {
    let hex: String = key.bytes().map(|byte| format!("{byte:02x}")).collect();
    format!("CONVERT(X'{hex}' USING utf8mb4)")
}
