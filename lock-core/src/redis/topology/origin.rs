//! Which server a URL means.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use redis::Client;

use super::sentinel::{Sentinels, Target};
use crate::backend::Fault;
use crate::error::ConnectError;
use crate::redis::wire::route::{self, Route};
use crate::redis::wire::url;

/// One server at a time.
#[derive(Debug, Clone)]
pub(in crate::redis) enum Origin {
    /// Always the same.
    Server(Arc<Client>),
    /// The master that sentinels name.
    Sentinel(Arc<Sentinels>),
}

impl Origin {
    /// Reads a URL of one server or of sentinels.
    pub(in crate::redis) fn parse(url: &str) -> Result<Self, ConnectError> {
        url::install_tls();
        if Target::is_meant_by(url) {
            return Ok(Self::Sentinel(Sentinels::new(Target::parse(url)?)));
        }
        Ok(Self::Server(url::client(url)?.into()))
    }

    /// How a connection finds it.
    pub(in crate::redis) fn route(&self) -> Arc<dyn Route> {
        match self {
            Self::Server(client) => route::to(Client::clone(client)),
            Self::Sentinel(sentinels) => Arc::new(sentinels.clone()),
        }
    }

    /// The sentinels, if there are any.
    pub(super) fn sentinels(&self) -> Option<&Arc<Sentinels>> {
        match self {
            Self::Server(_) => None,
            Self::Sentinel(sentinels) => Some(sentinels),
        }
    }
}

impl Route for Arc<Sentinels> {
    fn is_fixed(&self) -> bool {
        false
    }

    fn server(&self) -> BoxFuture<'_, Result<(Client, u64), Fault>> {
        Box::pin(async {
            let term = self.term().await?;
            Ok((self.client(&term)?, term.number))
        })
    }

    fn is_current(&self, term: u64) -> bool {
        self.number() == term
    }

    fn superseded(&self, term: u64) -> Option<BoxFuture<'_, ()>> {
        Some(Box::pin(Sentinels::superseded(self, term)))
    }

    fn look(&self) {
        Sentinels::look(self);
    }
}
