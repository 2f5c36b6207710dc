//! To which server a connection is made.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use redis::Client;

use super::sentinel::{Sentinels, Target};
use super::{fault, url};
use crate::backend::Fault;
use crate::engine::clock;
use crate::error::ConnectError;

/// The pause between two tries to reach a master.
const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// See the module.
#[derive(Debug, Clone)]
pub(super) enum Origin {
    /// Always the same.
    Server(Arc<Client>),
    /// The master that sentinels name.
    Sentinel(Arc<Sentinels>),
}

impl Origin {
    /// Reads a URL of one server or of sentinels.
    pub(super) fn parse(url: &str) -> Result<Self, ConnectError> {
        url::install_tls();
        if Target::is_meant_by(url) {
            return Ok(Self::Sentinel(Sentinels::new(Target::parse(url)?)));
        }
        Ok(Self::Server(Arc::new(url::client(url)?)))
    }

    /// Opens a connection with `open`, which is given a client and the number of its term. While
    /// the sentinels name a master that can't be reached, it is tried again until `deadline`: a
    /// failover may be under way.
    pub(super) async fn reach<'a, T>(
        &self,
        deadline: Instant,
        open: impl Fn(Client, u64) -> BoxFuture<'a, Result<T, Fault>>,
    ) -> Result<T, Fault> {
        let sentinels = match self {
            Self::Server(client) => return open(Client::clone(client), 0).await,
            Self::Sentinel(sentinels) => sentinels,
        };
        loop {
            let term = sentinels.term().await?;
            let client = sentinels.client(&term)?;
            let opened = tokio::select! {
                biased;
                () = sentinels.superseded(term.number) => Err(fault::superseded()),
                opened = open(client, term.number) => opened,
            };
            match opened {
                Err(fault) if fault.is_transient() => {
                    sentinels.look();
                    if clock::now() + RETRY_PAUSE >= deadline {
                        return Err(fault);
                    }
                }
                opened => return opened,
            }
            let switched = sentinels.superseded(term.number);
            drop(tokio::time::timeout(RETRY_PAUSE, switched).await);
        }
    }

    /// Whether what is answered in this term counts.
    pub(super) fn is_current(&self, term: u64) -> bool {
        match self {
            Self::Server(_) => true,
            Self::Sentinel(sentinels) => sentinels.is_current(term),
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
