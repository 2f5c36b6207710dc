//! Rushes, one after the other, and what is to be seen of them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
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

/// The rush that goes on, and those before it.
#[derive(Debug)]
pub(super) struct Hall {
    store: String,
    hold: Duration,
    /// The numbers of the command line, for the page to begin with.
    buyers: u32,
    stock: u32,
    reach: Reach,
    shop: Shop,
    /// The board of the last rush, once its shelf was full.
    board: Mutex<Option<Board>>,
    /// Whether somebody has asked for a rush that is not over.
    busy: AtomicBool,
    /// How many rushes there were.
    rushes: AtomicU64,
    /// Why the last one did not begin.
    trouble: Mutex<Option<String>>,
    /// The last event, and when it was made.
    pub(super) last: tokio::sync::Mutex<Option<(tokio::time::Instant, Arc<str>)>>,
    pub(super) stop: Stop,
}

/// The view that viewers are sent.
#[derive(Debug, Serialize)]
pub(super) struct View {
    store: String,
    hold_ms: u128,
    buyers: u32,
    stock: u32,
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
    busy: bool,
    trouble: Option<String>,
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
            buyers: options.buyers,
            stock: options.stock,
            reach,
            shop,
            board: Mutex::default(),
            busy: AtomicBool::new(false),
            rushes: AtomicU64::new(0),
            trouble: Mutex::default(),
            last: tokio::sync::Mutex::default(),
            stop,
        })
    }

    fn board(&self) -> MutexGuard<'_, Option<Board>> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fills the shelf and sends the buyers.
    async fn run(&self, ask: Ask) -> Result<(), Trouble> {
        self.shop.clear(SKU).await?;
        self.reach.restock(SKU, ask.stock).await?;
        let before = self.ask_all().await.iter().flatten().map(|now| now.counts).sum();
        // From here on the books are of this rush.
        *self.board() = Some(Board::new(ask, before, clock::now()));
        self.rushes.fetch_add(1, Ordering::Relaxed);
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

    /// The state of each server now; nothing of one that does not answer.
    async fn ask_all(&self) -> Vec<Option<Now>> {
        let mut asked = JoinSet::new();
        for (number, server) in self.reach.servers().iter().copied().enumerate() {
            let reach = self.reach.clone();
            asked.spawn(async move { (number, timeout(NOW_WITHIN, reach.now(server)).await) });
        }
        let mut now = vec![None; self.reach.servers().len()];
        while let Some(Ok((number, answer))) = asked.join_next().await {
            now[number] = answer.ok().and_then(Result::ok);
        }
        now
    }

    /// Asks all servers and the books.
    pub(super) async fn view(&self) -> Result<View, Trouble> {
        let now = self.ask_all().await;
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
            buyers: self.buyers,
            stock: self.stock,
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
            busy: self.busy.load(Ordering::Relaxed),
            trouble: self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone(),
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
    if hall.busy.swap(true, Ordering::AcqRel) {
        return (StatusCode::CONFLICT, "the buyers of the last rush are still here");
    }
    drop(tokio::spawn(async move {
        let ended = hall.run(ask).await.map_err(|error| error.to_string());
        if let Some(board) = &mut *hall.board() {
            board.end(clock::now());
        }
        *hall.trouble.lock().unwrap_or_else(PoisonError::into_inner) = ended.err();
        hall.busy.store(false, Ordering::Release);
    }));
    (StatusCode::ACCEPTED, "")
}
