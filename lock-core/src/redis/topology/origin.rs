//! The server, or the cluster, that a URL means.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use redis::Client;

use super::cluster;
use super::sentinel::{self, Sentinels};
use crate::backend::io::Home;
use crate::backend::{ConnectError, Fault, StoreUrl, UrlError, UrlPart};
use crate::redis::protocol::layout::Layout;
use crate::redis::schemes;
use crate::redis::wire::access::{self, Access};
use crate::redis::wire::route::{self, Route};

/// The meaning of a URL.
#[derive(Debug)]
pub(in crate::redis) enum Meant {
    Single(Origin),
    Cluster(cluster::Target),
}

/// The layout that a URL asks for.
pub(in crate::redis) fn layout(url: &StoreUrl) -> Result<Layout, UrlError> {
    match url.param("layout") {
        None => Ok(Layout::Own),
        Some("redisson") => Ok(Layout::Redisson),
        Some(_) => {
            let what = "`layout` is `redisson`, or is left out for that of this crate";
            Err(UrlError::new(UrlPart::Parameters, what))
        }
    }
}

impl Meant {
    /// The meaning of a URL of [`schemes::STORES`], where all is written in the layout of this crate.
    pub(in crate::redis) fn by(url: &StoreUrl) -> Result<Self, ConnectError> {
        if layout(url)? != Layout::Own {
            let what =
                "`layout=redisson` is for locks by `LockClient::connect` or `Redisson::connect`";
            return Err(UrlError::new(UrlPart::Parameters, what).into());
        }
        if url.scheme() == schemes::CLUSTER.name() {
            return Ok(Self::Cluster(cluster::Target::of(url)?));
        }
        Ok(Self::Single(Origin::of(url)?))
    }
}

/// One server at a time.
#[derive(Debug, Clone)]
pub(in crate::redis) enum Origin {
    /// Always the same.
    Server(Arc<dyn Route>),
    /// The master that sentinels name.
    Sentinel(Arc<Sentinels>),
}

impl Origin {
    /// The meaning of a URL of one server, or of sentinels.
    pub(in crate::redis) fn of(url: &StoreUrl) -> Result<Self, ConnectError> {
        let home = || Home::shared().map_err(ConnectError::Store);
        if url.scheme() == schemes::SENTINEL.name() {
            return Ok(Self::Sentinel(Sentinels::new(sentinel::Target::of(url)?, home()?)));
        }
        let client = match url.hosts().first() {
            Some(host) => {
                let db = access::database_in_path(url)?;
                Access { db, ..Access::of(url) }.client(host)
            }
            None => {
                let db = url.param("db").unwrap_or_default();
                let db = access::database(db, UrlPart::Parameters)?;
                Access { db, ..Access::of(url) }.client_of_socket(url.path())
            }
        };
        Ok(Self::Server(route::to(client.map_err(ConnectError::Store)?, home()?)))
    }

    /// The route by which a connection finds it.
    pub(in crate::redis) fn route(&self) -> Arc<dyn Route> {
        match self {
            Self::Server(route) => route.clone(),
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
    fn home(&self) -> &Arc<Home> {
        &self.home
    }

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
