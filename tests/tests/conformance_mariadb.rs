//! The conformance suite over MariaDB.

#[path = "sql_conformance/rules.rs"]
mod rules;

use lock_core::sql::Mysql as Backend;
use sqlx::mysql::MySqlRow as DbRow;
use tests::mariadb::MariaDbServer as Server;
use tests::scene::layouts::MARIADB as KIND;
