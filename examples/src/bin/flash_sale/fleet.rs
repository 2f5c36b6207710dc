//! The processes that serve: this one, and those it started.

use std::net::SocketAddr;

use crate::Trouble;
use crate::options::Plan;
use crate::server::{Counts, Server};
use crate::web::Web;
use crate::worker::Worker;

#[derive(Debug)]
pub(crate) struct Fleet {
    home: Server,
    workers: Vec<Worker>,
    web: Web,
}

impl Fleet {
    /// Starts `processes` servers; the first of them is in this process.
    pub(crate) async fn start(
        plan: &Plan,
        listen: SocketAddr,
        processes: u16,
    ) -> Result<Self, Trouble> {
        let home = Server::start(plan, listen).await?;
        let mut fleet = Self { home, workers: Vec::new(), web: Web::new() };
        for _ in 1..processes {
            match Worker::start(plan).await {
                Ok(worker) => fleet.workers.push(worker),
                Err(error) => {
                    fleet.stop().await;
                    return Err(error);
                }
            }
        }
        Ok(fleet)
    }

    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        let workers = self.workers.iter().map(Worker::address);
        [self.home.address()].into_iter().chain(workers).collect()
    }

    /// On standard error: standard output may be read by a program.
    pub(crate) fn tell_addresses(&self) {
        for address in self.addresses() {
            eprintln!("serving on http://{address} until ctrl-c");
        }
    }

    pub(crate) async fn restock(&self, sku: &str, items: u32) -> Result<(), Trouble> {
        let path = format!("/restock/{sku}?items={items}");
        let (status, body) = self.web.post(self.home.address(), &path, String::new()).await?;
        if !status.is_success() {
            let body = String::from_utf8_lossy(&body);
            return Err(format!("the shelf could not be filled: {status} {body}").into());
        }
        Ok(())
    }

    /// What all processes have counted, together.
    pub(crate) async fn counts(&self) -> Result<Counts, Trouble> {
        let mut all = Vec::new();
        for address in self.addresses() {
            let (_, body) = self.web.get(address, "/counts").await?;
            all.push(serde_json::from_slice::<Counts>(&body)?);
        }
        Ok(all.into_iter().sum())
    }

    /// Answers whether every process gave its locks back.
    pub(crate) async fn stop(self) -> bool {
        // All are told before the first is waited for.
        let workers: Vec<_> = self.workers.into_iter().map(Worker::stop).collect();
        let mut complete = self.home.stop().await;
        for worker in workers {
            complete &= worker.ended().await;
        }
        complete
    }
}
