//! What a URL of SQLite means.

use std::path::PathBuf;

use crate::backend::{StoreUrl, UrlError, UrlPart};
use crate::sql::TableName;

/// Where the database is, and what may be made there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    /// None is a database in this process.
    pub(super) file: Option<PathBuf>,
    pub(super) table: TableName,
    /// A file and tables that are missing are made.
    pub(super) creates: bool,
}

impl Target {
    pub(super) fn of(url: &StoreUrl) -> Result<Self, UrlError> {
        let bad = |reason: String| UrlError::new(UrlPart::Parameters, reason);
        let table = match url.param("table") {
            None => TableName::default(),
            Some(name) => TableName::new(name).map_err(|error| bad(error.to_string()))?,
        };
        let file = (url.path() != ":memory:").then(|| PathBuf::from(url.path()));
        let creates = match url.param("create") {
            None => file.is_none(),
            Some("true") => true,
            Some("false") => false,
            Some(_) => return Err(bad("`create` is `true` or `false`".to_owned())),
        };
        Ok(Self { file, table, creates })
    }
}
