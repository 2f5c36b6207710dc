//! The buyers: all at once, over HTTP.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::clock;
use crate::limits;
use crate::server::{Order, Receipt};
use crate::web::Web;

/// One buyer in so many sends the order twice, as one does who clicks twice.
pub(crate) const CLICKS_TWICE: u32 = 10;

/// How a buyer left. Of two clicks the better answer counts, so the order is from good to bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Left {
    WithItem,
    SoldOut,
    /// The shop had no lock for them in time.
    Busy,
    /// No answer, or one that should not be.
    Failed,
}

/// The answers that all buyers saw, counted.
#[derive(Debug, Clone, Default)]
pub(crate) struct Outcome {
    pub(crate) with_item: u64,
    pub(crate) sold_out: u64,
    pub(crate) busy: u64,
    pub(crate) failed: u64,
    /// How long each request waited for the lock, shortest first.
    pub(crate) waits: Vec<Duration>,
    /// From the first request to the last item sold.
    pub(crate) sold_after: Duration,
}

#[derive(Debug)]
pub(crate) struct Rush {
    /// The orders of another rush are other ones, also where the books were cleared between.
    name: Arc<str>,
    servers: Vec<SocketAddr>,
    buyers: u32,
    web: Web,
    connections: Arc<Semaphore>,
}

/// One click.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Click {
    /// How it ended.
    pub(crate) left: Left,
    /// How long it waited for the lock.
    pub(crate) waited: Duration,
    pub(crate) answered: Instant,
    /// The server, by its place in the list.
    pub(crate) server: usize,
    /// The token of the lock that it was served under.
    pub(crate) token: Option<u64>,
}

impl Click {
    pub(crate) fn is_sale(&self) -> bool {
        self.left == Left::WithItem
    }
}

impl Rush {
    pub(crate) fn new(servers: Vec<SocketAddr>, buyers: u32) -> Self {
        let connections = limits::connections_max();
        let clicks = buyers as usize + buyers.div_ceil(CLICKS_TWICE) as usize;
        if clicks > connections {
            eprintln!("the limit on open files lets in {connections} requests at a time");
        }
        let connections = Arc::new(Semaphore::new(connections));
        // No other rush has it: each has keys of its own.
        let name = format!("{:016x}", RandomState::new().build_hasher().finish()).into();
        Self { name, servers, buyers, web: Web::new(), connections }
    }

    /// Sends all buyers to `path`, and waits until the last one has left; tells of each that has.
    pub(crate) async fn run(self, path: &str, mut told: impl FnMut(&[Click])) -> Outcome {
        let begun = clock::now();
        let path: Arc<str> = path.into();
        let mut buyers = JoinSet::new();
        for buyer in 0..self.buyers {
            let server = buyer as usize % self.servers.len();
            let shopper = Shopper {
                web: self.web.clone(),
                connections: self.connections.clone(),
                address: self.servers[server],
                server,
                path: path.clone(),
                order: format!("order-{}-{buyer}", self.name),
                buyer,
            };
            buyers.spawn(shopper.shop());
        }
        let mut outcome = Outcome::default();
        while let Some(clicks) = buyers.join_next().await {
            let clicks = clicks.unwrap_or_default();
            outcome.add(&clicks, begun);
            told(&clicks);
        }
        outcome.waits.sort_unstable();
        outcome
    }
}

#[derive(Debug)]
struct Shopper {
    web: Web,
    connections: Arc<Semaphore>,
    address: SocketAddr,
    server: usize,
    path: Arc<str>,
    order: String,
    buyer: u32,
}

impl Shopper {
    async fn shop(self) -> Vec<Click> {
        if self.buyer.is_multiple_of(CLICKS_TWICE) {
            let (first, second) = tokio::join!(self.click(), self.click());
            vec![first, second]
        } else {
            vec![self.click().await]
        }
    }

    async fn click(&self) -> Click {
        let _connection = self.connections.acquire().await;
        let begun = clock::now();
        let order = Order { buyer: self.buyer, order: self.order.clone() };
        let json = serde_json::to_string(&order).unwrap_or_default();
        let answer = self.web.post(self.address, &self.path, json).await;
        let answered = clock::now();
        // A buyer who got no lock has waited all the time; only the handler knows better.
        let (waited, server) = (answered - begun, self.server);
        let mut click = Click { left: Left::Failed, waited, answered, server, token: None };
        let Ok((status, body)) = answer else { return click };
        click.left = match status {
            StatusCode::OK => Left::WithItem,
            StatusCode::GONE => Left::SoldOut,
            StatusCode::CONFLICT
            | StatusCode::TOO_MANY_REQUESTS
            | StatusCode::SERVICE_UNAVAILABLE => Left::Busy,
            _ => Left::Failed,
        };
        if let Ok(receipt) = serde_json::from_slice::<Receipt>(&body) {
            click.waited = Duration::from_micros(receipt.waited_us);
            click.token = receipt.token;
        }
        click
    }
}

impl Outcome {
    /// Adds a buyer; one without clicks is one whose task broke.
    pub(crate) fn add(&mut self, clicks: &[Click], begun: Instant) {
        let best = clicks.iter().min_by_key(|click| click.left);
        match best.map_or(Left::Failed, |click| click.left) {
            Left::WithItem => self.with_item += 1,
            Left::SoldOut => self.sold_out += 1,
            Left::Busy => self.busy += 1,
            Left::Failed => self.failed += 1,
        }
        self.waits.extend(clicks.iter().map(|click| click.waited));
        let sold = clicks.iter().filter(|click| click.is_sale());
        if let Some(first) = sold.map(|click| click.answered).min() {
            self.sold_after = self.sold_after.max(first - begun);
        }
    }

    /// The wait that `percent` of the requests did not exceed.
    pub(crate) fn wait(&self, percent: usize) -> Duration {
        let rank = (self.waits.len() * percent).div_ceil(100);
        self.waits.get(rank.saturating_sub(1)).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_the_wait_that_so_many_did_not_exceed() {
        let ms = Duration::from_millis;
        let outcome = Outcome { waits: (1..=200).map(ms).collect(), ..Outcome::default() };
        assert_eq!((outcome.wait(50), outcome.wait(99)), (ms(100), ms(198)));
        assert_eq!(Outcome::default().wait(50), Duration::ZERO);
        let one = Outcome { waits: vec![ms(7)], ..Outcome::default() };
        assert_eq!((one.wait(50), one.wait(99)), (ms(7), ms(7)));
    }

    #[test]
    fn of_two_clicks_the_better_answer_counts_and_the_buyer_counts_once() {
        let begun = clock::now();
        let click =
            |left| Click { left, waited: Duration::ZERO, answered: begun, server: 0, token: None };
        let mut outcome = Outcome::default();
        outcome.add(&[click(Left::Busy), click(Left::WithItem)], begun);
        outcome.add(&[click(Left::SoldOut), click(Left::Failed)], begun);
        outcome.add(&[], begun);
        let counted = (outcome.with_item, outcome.sold_out, outcome.busy, outcome.failed);
        assert_eq!(counted, (1, 1, 0, 1));
        assert_eq!(outcome.waits.len(), 4);
    }
}
