//! Statements over connections that are handed in.

use std::convert::identity;

use crate::sql::runs::runs;
use crate::sql::trouble::Trouble;

runs!(sqlx::MySql, Trouble::of_mysql, identity);
