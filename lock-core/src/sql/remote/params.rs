//! The parts that the URLs of all servers may hold.

use super::durability::Durability;
use crate::backend::{StoreUrl, UrlError, UrlPart};
use crate::sql::schema::TableName;

pub(in crate::sql) const CONNECTIONS: u32 = 4;
pub(in crate::sql) const CONNECTIONS_MAX: u32 = 64;

/// The parameters of a URL.
#[derive(Debug, Clone)]
pub(in crate::sql) struct Params {
    pub(in crate::sql) table: TableName,
    /// `schema`, of databases that have them.
    pub(in crate::sql) within: Option<TableName>,
    pub(in crate::sql) creates: bool,
    pub(in crate::sql) durability: Durability,
    pub(in crate::sql) connections: u32,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            table: TableName::default(),
            within: None,
            creates: false,
            durability: Durability::Full,
            connections: CONNECTIONS,
        }
    }
}

impl Params {
    pub(in crate::sql) fn of(url: &StoreUrl) -> Result<Self, UrlError> {
        let mut params = Self {
            table: TableName::of(url, "table")?.unwrap_or_default(),
            within: TableName::of(url, "schema")?,
            creates: url.flag("create")?.unwrap_or(false),
            ..Self::default()
        };
        params.durability = match url.param("durability") {
            None | Some("full") => Durability::Full,
            Some("async") => Durability::Async,
            Some(_) => return Err(bad("`durability` is `full` or `async`".to_owned())),
        };
        if let Some(most) = url.param("connections") {
            let most = most.parse().ok().filter(|most| (1..=CONNECTIONS_MAX).contains(most));
            params.connections = most.ok_or_else(|| {
                bad(format!("`connections` is a number from 1 to {CONNECTIONS_MAX}"))
            })?;
        }
        Ok(params)
    }

    /// The nearest number of connections that can be had.
    pub(in crate::sql) fn connections(most: u32) -> u32 {
        most.clamp(1, CONNECTIONS_MAX)
    }

    /// The name of the database, if the path says any.
    pub(in crate::sql) fn database(url: &StoreUrl) -> Result<Option<&str>, UrlError> {
        match url.path().trim_start_matches('/') {
            "" => Ok(None),
            name if name.contains('/') => {
                let why = "it is the name of a database, and has no `/` in it";
                Err(UrlError::new(UrlPart::Path, why.to_owned()))
            }
            name => Ok(Some(name)),
        }
    }

    /// The files of the certificate and the key that the client shows, if any.
    pub(in crate::sql) fn shown(url: &StoreUrl) -> Result<Option<(&str, &str)>, UrlError> {
        match (url.param("cert"), url.param("key")) {
            (None, None) => Ok(None),
            (Some(cert), Some(key)) => Ok(Some((cert, key))),
            _ => Err(bad("`cert` and `key` are given together or not at all".to_owned())),
        }
    }
}

fn bad(reason: String) -> UrlError {
    UrlError::new(UrlPart::Parameters, reason)
}
