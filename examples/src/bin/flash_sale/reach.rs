//! All servers, as one who is not in their processes reaches them.

use std::net::SocketAddr;

use crate::Trouble;
use crate::server::{Counts, Now};
use crate::web::Web;

/// The servers, as seen from outside of their processes. Its clones share connections.
#[derive(Debug, Clone)]
pub(crate) struct Reach {
    servers: Vec<SocketAddr>,
    web: Web,
}

impl Reach {
    /// The first server fills the shelf.
    pub(crate) fn new(servers: Vec<SocketAddr>) -> Self {
        Self { servers, web: Web::new() }
    }

    pub(crate) fn servers(&self) -> &[SocketAddr] {
        &self.servers
    }

    pub(crate) async fn restock(&self, sku: &str, items: u32) -> Result<(), Trouble> {
        let path = format!("/restock/{sku}?items={items}");
        let (status, body) = self.web.post(self.servers[0], &path, String::new()).await?;
        if !status.is_success() {
            let body = String::from_utf8_lossy(&body);
            return Err(format!("the shelf could not be filled: {status} {body}").into());
        }
        Ok(())
    }

    /// The counts of all processes, together.
    pub(crate) async fn counts(&self) -> Result<Counts, Trouble> {
        let mut all = Vec::new();
        for address in &self.servers {
            let (_, body) = self.web.get(*address, "/counts").await?;
            all.push(serde_json::from_slice::<Counts>(&body)?);
        }
        Ok(all.into_iter().sum())
    }

    /// The state of one server at this moment.
    pub(crate) async fn now(&self, server: SocketAddr) -> Result<Now, Trouble> {
        let (_, body) = self.web.get(server, "/now").await?;
        Ok(serde_json::from_slice(&body)?)
    }
}
