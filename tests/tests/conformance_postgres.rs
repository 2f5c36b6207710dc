//! The conformance suite over PostgreSQL.

#[path = "sql_conformance/rules.rs"]
mod rules;

use lock_core::sql::Postgres as Backend;
use sqlx::postgres::PgRow as DbRow;
use tests::postgres::PostgresServer as Server;
use tests::scene::layouts::POSTGRES as KIND;
