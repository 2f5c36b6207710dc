//! One PostgreSQL server.

// The same text over another fixture: their rows and errors are types of their own.
#[allow(clippy::duplicate_mod)]
#[path = "on_server.rs"]
mod on_server;

use std::net::SocketAddr;

use sqlx::postgres::PgRow as DbRow;

use self::POSTGRES as KIND;
use self::on_server::{OnServer, times};
use super::*;
use crate::postgres::{PostgresOptions, PostgresServer as Server};
use crate::proxy::Proxy;

/// A table for each scope.
pub const POSTGRES: Kind = Kind {
    name: "PostgreSQL",
    store: "postgres",
    start: || {
        Box::pin(async {
            let options = PostgresOptions::new().movable_clock();
            Box::new(OnServer { server: Server::with(options) }) as Box<dyn Layout>
        })
    },
    // The server was killed, not the machine.
    keeps: Keeps::Everything,
    can: OF_A_DATABASE,
    lacks: &[],
    fails: &[],
    patient: times(30_000),
    steady: times(2_000),
    brisk: times(2_000),
};

/// The owner of the tables.
const OWNER: &str = "postgres";

/// There is no such view.
const MISSING: &str = "42P01";

/// The protocol's name for a statement that is run with its values.
const RUN: &str = "BIND";

/// How many wait.
const WAITING: &str = "waiting::bigint";

fn proxied(server: SocketAddr) -> Proxy {
    Proxy::postgres(server)
}

fn quoted(key: &str) -> String {
    format!("'{}'", key.replace('\'', "''"))
}
