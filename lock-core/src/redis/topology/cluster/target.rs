//! The way from a URL to the nodes that are asked first.

use super::layout::Addr;
use crate::backend::{StoreUrl, UrlError, UrlPart};
use crate::redis::wire::access::Access;

/// The parts of a cluster's URL.
#[derive(Debug)]
pub(in crate::redis) struct Target {
    pub(super) seeds: Vec<Addr>,
    pub(super) access: Access,
}

impl Target {
    pub(in crate::redis) fn of(url: &StoreUrl) -> Result<Self, UrlError> {
        if !matches!(url.path(), "" | "/0") {
            return Err(UrlError::new(UrlPart::Path, "a cluster has one database: leave it out"));
        }
        let seeds = url.hosts().iter().map(|host| Addr::new(host.name(), host.port())).collect();
        Ok(Self { seeds, access: Access::of(url) })
    }

    /// The target of a test.
    #[cfg(test)]
    pub(in crate::redis) fn at(port: u16) -> Self {
        Self { seeds: vec![Addr::new("127.0.0.1", port)], access: Access::default() }
    }
}
