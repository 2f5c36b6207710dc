//! The servers: that of this process, those it started, and those beside it in this process.

use std::net::{Ipv4Addr, SocketAddr};

use lock_core::LockClient;

use crate::Trouble;
use crate::options::{Options, Plan};
use crate::reach::Reach;
use crate::server::Server;
use crate::worker::Worker;

#[derive(Debug)]
pub(crate) struct Fleet {
    home: Server,
    beside: Vec<Server>,
    workers: Vec<Worker>,
}

impl Fleet {
    /// Starts as many servers as the options say; the first of them is in this process.
    pub(crate) async fn start(plan: &Plan, options: &Options) -> Result<Self, Trouble> {
        let home = Server::start(plan, options.listen).await?;
        let mut fleet = Self { home, beside: Vec::new(), workers: Vec::new() };
        match fleet.grow(plan, options).await {
            Ok(()) => Ok(fleet),
            Err(error) => {
                fleet.stop().await;
                Err(error)
            }
        }
    }

    async fn grow(&mut self, plan: &Plan, options: &Options) -> Result<(), Trouble> {
        for _ in 0..options.servers_inside() {
            self.beside.push(Server::start(plan, (Ipv4Addr::LOCALHOST, 0).into()).await?);
        }
        for _ in 1 + options.servers_inside()..options.processes() {
            self.workers.push(Worker::start(plan).await?);
        }
        Ok(())
    }

    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        let beside = self.beside.iter().map(Server::address);
        let workers = self.workers.iter().map(Worker::address);
        [self.home.address()].into_iter().chain(beside).chain(workers).collect()
    }

    pub(crate) fn reach(&self) -> Reach {
        Reach::new(self.addresses())
    }

    /// The lock client of this process's server.
    pub(crate) fn locks(&self) -> LockClient {
        self.home.locks()
    }

    /// On standard error: standard output may be read by a program.
    pub(crate) fn tell_addresses(&self) {
        for address in self.addresses() {
            eprintln!("serving on http://{address} until ctrl-c");
        }
    }

    /// Answers whether every process gave its locks back.
    pub(crate) async fn stop(self) -> bool {
        // All are told before the first is waited for.
        let workers: Vec<_> = self.workers.into_iter().map(Worker::stop).collect();
        let beside: Vec<_> =
            self.beside.into_iter().map(|server| tokio::spawn(server.stop())).collect();
        let mut complete = self.home.stop().await;
        for server in beside {
            complete &= server.await.unwrap_or(false);
        }
        for worker in workers {
            complete &= worker.ended().await;
        }
        complete
    }
}
