//! The way of one client to its servers.

use std::net::SocketAddr;

use crate::proxy::{Action, Counters, Direction, Flow, Match, Proxy, Trap};
use crate::wait::eventually;

/// Proxies between one client and all servers of a layout.
#[derive(Debug)]
pub struct Line {
    url: String,
    proxies: Vec<Proxy>,
    /// Each request goes to all of the servers, and not to one of them.
    to_all: bool,
}

impl Line {
    /// A way over these proxies; `to_all` if each request takes all of them at once.
    #[must_use]
    pub fn new(url: String, proxies: Vec<Proxy>, to_all: bool) -> Self {
        Self { url, proxies, to_all }
    }

    /// One proxy for each of the servers at `addrs`, which tell clients of each other.
    #[must_use]
    pub fn renaming(addrs: &[SocketAddr]) -> Vec<Proxy> {
        let proxies: Vec<_> = addrs.iter().map(|addr| Proxy::start(*addr)).collect();
        let ports = addrs.iter().zip(&proxies).map(|(addr, to)| (addr.port(), to.addr().port()));
        let ports: Vec<_> = ports.collect();
        proxies.iter().for_each(|proxy| proxy.rename(&ports));
        proxies
    }

    /// Does something to all proxies, or to one of them.
    pub(super) fn some(&self, one: Option<usize>, fault: impl Fn(&Proxy)) -> Option<Snare> {
        match one {
            Some(one) => fault(&self.proxies[one % self.proxies.len()]),
            None => self.proxies.iter().for_each(fault),
        }
        None
    }

    /// The URL that the client connects to.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Ends every connection in order. New ones are accepted.
    pub fn cut(&self) {
        self.proxies.iter().for_each(Proxy::cut);
    }

    /// Ends every connection at once. New ones are accepted.
    pub fn reset(&self) {
        self.proxies.iter().for_each(Proxy::reset);
    }

    /// Resets each connection, also those to come.
    pub fn refuse(&self) {
        self.proxies.iter().for_each(Proxy::refuse);
    }

    /// Swallows both directions: connections stay open and silent.
    pub fn black_hole(&self) {
        self.proxies.iter().for_each(Proxy::black_hole);
    }

    /// Swallows all that is connected now for good. New connections are well.
    pub fn silence(&self) {
        self.proxies.iter().for_each(Proxy::silence);
    }

    /// Sets how one direction flows.
    pub fn set(&self, direction: Direction, flow: Flow) {
        self.proxies.iter().for_each(|proxy| proxy.set(direction, flow));
    }

    /// Loses pushes while `on`.
    pub fn drop_pushes(&self, on: bool) {
        self.proxies.iter().for_each(|proxy| proxy.drop_pushes(on));
    }

    /// All is well again; what was swallowed arrives.
    pub fn resume(&self) {
        self.proxies.iter().for_each(Proxy::resume);
    }

    /// The sum of what has passed.
    #[must_use]
    pub fn counted(&self, what: impl Fn(&Counters) -> u64) -> u64 {
        self.proxies.iter().map(|proxy| what(&proxy.counters())).sum()
    }

    /// Waits until no connection is open.
    ///
    /// # Panics
    ///
    /// After [`PATIENCE`](crate::wait::PATIENCE).
    pub async fn closed(&self) {
        eventually("all connections are closed", || self.counted(|seen| seen.open) == 0).await;
    }

    /// Lies in wait for a request: for the first one on this way, or, where each goes to all
    /// servers, for the first at each.
    pub fn trap(&self, which: &Match, action: Action) -> Snare {
        let traps = match self.to_all {
            false => vec![Proxy::trap_among(&self.proxies, which.clone(), action)],
            true => self.proxies.iter().map(|proxy| proxy.trap(which.clone(), action)).collect(),
        };
        Snare { traps }
    }
}

/// Traps that catch one request, wherever it goes. Dropped, they are disarmed.
#[derive(Debug)]
#[must_use = "a dropped snare is disarmed"]
pub struct Snare {
    traps: Vec<Trap>,
}

impl Snare {
    /// Waits until the request was caught: where it goes to all servers, at a majority of them.
    ///
    /// # Panics
    ///
    /// After [`PATIENCE`](crate::wait::PATIENCE).
    pub async fn sprung(&self) {
        eventually("the request is caught", || self.has_sprung()).await;
    }

    /// Whether it was caught.
    #[must_use]
    pub fn has_sprung(&self) -> bool {
        let sprung = self.traps.iter().filter(|trap| trap.has_sprung()).count();
        sprung * 2 > self.traps.len()
    }

    /// Lets go what is held.
    pub fn release(&self) {
        self.traps.iter().for_each(Trap::release);
    }
}
