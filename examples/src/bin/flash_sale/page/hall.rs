//! Rushes, one after the other, and what is to be seen of them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::board::{Ask, Board, Told};
use crate::options::Options;
use crate::reach::Reach;
use crate::rush::Rush;
use crate::server::{Counts, Now};
use crate::shop::Shop;
use crate::signals::Stop;
use crate::{SKU, Trouble, clock};

/// More would be no more to see.
const BUYERS_MAX: u32 = 5_000;
const STOCK_MAX: u32 = 5_000;

/// A server that does not answer for so long is shown as one that does not.
const NOW_WITHIN: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Debug)]
pub(super) struct Hall {
    store: String,
    hold: Duration,
    reach: Reach,
    shop: Shop,
    board: Mutex<Option<Board>>,
    /// How many rushes were begun.
    rushes: AtomicU64,
    /// The last event, and when it was made.
    pub(super) last: tokio::sync::Mutex<Option<(tokio::time::Instant, Arc<str>)>>,
    pub(super) stop: Stop,
}

/// What is to be seen.
#[derive(Debug, Serialize)]
pub(super) struct View {
    store: String,
    hold_ms: u128,
    left: i64,
    sold: u64,
    oversold: u64,
    duplicates: u64,
    queue: usize,
    handoffs_local: u64,
    handoffs_remote: u64,
    stale_writes: u64,
    servers: Vec<ServerView>,
    rushes: u64,
    rush: Option<Told>,
}

#[derive(Debug, Serialize)]
struct ServerView {
    address: String,
    answers: bool,
    waiters: usize,
    holds: bool,
}

impl Hall {
    /// With a full shelf.
    pub(super) async fn open(
        options: &Options,
        reach: Reach,
        shop: Shop,
        stop: Stop,
    ) -> Result<Self, Trouble> {
        reach.restock(SKU, options.stock).await?;
        Ok(Self {
            store: options.store().to_owned(),
            hold: Duration::from_millis(options.hold_ms),
            reach,
            shop,
            board: Mutex::default(),
            rushes: AtomicU64::new(0),
            last: tokio::sync::Mutex::default(),
            stop,
        })
    }

    fn board(&self) -> MutexGuard<'_, Option<Board>> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the place of the one rush that there may be; false if it is taken.
    fn begin(&self, ask: Ask) -> bool {
        let mut board = self.board();
        if board.as_ref().is_some_and(Board::is_running) {
            return false;
        }
        *board = Some(Board::new(ask, Counts::default(), clock::now()));
        self.rushes.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Fills the shelf and sends the buyers.
    async fn run(&self, ask: Ask) -> Result<(), Trouble> {
        self.shop.clear(SKU).await?;
        self.reach.restock(SKU, ask.stock).await?;
        let before = self.reach.counts().await?;
        *self.board() = Some(Board::new(ask, before, clock::now()));
        let way = match ask {
            Ask { locked: false, .. } => "grab",
            Ask { hurry: true, .. } => "hurry",
            Ask { .. } => "buy",
        };
        let path = format!("/{way}/{SKU}");
        let rush = Rush::new(self.reach.servers().to_vec(), ask.buyers);
        rush.run(&path, |clicks| {
            if let Some(board) = &mut *self.board() {
                board.add(clicks);
            }
        })
        .await;
        Ok(())
    }

    /// Asks all servers and the books.
    pub(super) async fn view(&self) -> Result<View, Trouble> {
        let mut asked = JoinSet::new();
        for (number, server) in self.reach.servers().iter().copied().enumerate() {
            let reach = self.reach.clone();
            asked.spawn(async move { (number, timeout(NOW_WITHIN, reach.now(server)).await) });
        }
        let mut now: Vec<Option<Now>> = vec![None; self.reach.servers().len()];
        while let Some(Ok((number, answer))) = asked.join_next().await {
            now[number] = answer.ok().and_then(Result::ok);
        }
        let books = self.shop.books(SKU).await?;
        let counts = now.iter().flatten().map(|now| now.counts).sum();
        let (rush, stock, counts) = match &mut *self.board() {
            Some(board) => (Some(board.tell(clock::now())), board.stock(), board.since(counts)),
            None => (None, u64::MAX, Counts::default()),
        };
        let servers = self.reach.servers().iter().zip(&now).map(|(address, now)| ServerView {
            address: address.to_string(),
            answers: now.is_some(),
            waiters: now.map_or(0, |now| now.waiters),
            holds: now.is_some_and(|now| now.holds),
        });
        Ok(View {
            store: self.store.clone(),
            hold_ms: self.hold.as_millis(),
            left: books.left,
            sold: books.sold,
            oversold: books.sold.saturating_sub(stock),
            duplicates: books.duplicates,
            queue: now.iter().flatten().map(|now| now.waiters).sum(),
            handoffs_local: counts.handoffs_local,
            handoffs_remote: counts.handoffs_remote,
            stale_writes: counts.stale_writes,
            servers: servers.collect(),
            rushes: self.rushes.load(Ordering::Relaxed),
            rush,
        })
    }
}

/// Begins a rush, which goes on whatever becomes of the one who asked for it.
pub(super) async fn rush(
    State(hall): State<Arc<Hall>>,
    Json(ask): Json<Ask>,
) -> (StatusCode, &'static str) {
    if ask.buyers > BUYERS_MAX || ask.stock > STOCK_MAX {
        return (StatusCode::UNPROCESSABLE_ENTITY, "at most 5,000 buyers and 5,000 items");
    }
    if !hall.begin(ask) {
        return (StatusCode::CONFLICT, "the buyers of the last rush are still here");
    }
    drop(tokio::spawn(async move {
        if let Err(error) = hall.run(ask).await {
            eprintln!("flash-sale: a rush failed: {error}");
        }
        if let Some(board) = &mut *hall.board() {
            board.end(clock::now());
        }
    }));
    (StatusCode::ACCEPTED, "")
}
