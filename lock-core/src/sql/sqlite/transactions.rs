//! Statements over connections that are handed in.

use crate::sql::runs::runs;
use crate::sql::trouble::Trouble;

runs!(sqlx::Sqlite, Trouble::of_sqlite, std::convert::identity);
