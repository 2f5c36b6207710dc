//! The board of one rush, with what is known of it while it goes on.

use std::collections::VecDeque;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::rush::{Click, Outcome};
use crate::server::Counts;

/// Grants that are shown at most.
const GRANTS_SHOWN_MAX: usize = 1_600;

/// Over how long the throughput is counted.
const RATE_OVER: Duration = Duration::from_secs(1);

/// The wishes for a rush.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ask {
    pub(super) buyers: u32,
    pub(super) stock: u32,
    /// Whether an order takes the lock of its sku.
    pub(super) locked: bool,
    /// Whether its buyers wait 4 s at most, and are told at once if that is not enough.
    pub(super) hurry: bool,
}

/// One order that was decided, with or without an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Grant {
    /// In the order of the lock where there was one, else in that of the answers.
    order: u64,
    server: usize,
    sale: bool,
}

/// The numbers of the rush that goes on.
#[derive(Debug)]
pub(super) struct Board {
    ask: Ask,
    before: Counts,
    begun: Instant,
    ended: Option<Instant>,
    outcome: Outcome,
    grants: Vec<Grant>,
    /// When the sales of the last second were answered.
    sales: VecDeque<Instant>,
    rate_max: usize,
}

/// The figures that a board tells.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Told {
    ask: Ask,
    running: bool,
    elapsed_ms: u128,
    answered: u64,
    sold_out: u64,
    busy: u64,
    failed: u64,
    /// Sales in the last second, and the most there were in one.
    per_s: usize,
    per_s_max: usize,
    wait_p50_ms: f64,
    wait_p99_ms: f64,
    /// Orders in the order of the lock, the last ones: twice the server, and one more for a sale.
    grants: Vec<usize>,
}

impl Board {
    pub(super) fn new(ask: Ask, before: Counts, begun: Instant) -> Self {
        Self {
            ask,
            before,
            begun,
            ended: None,
            outcome: Outcome::default(),
            grants: Vec::new(),
            sales: VecDeque::new(),
            rate_max: 0,
        }
    }

    pub(super) fn end(&mut self, now: Instant) {
        self.ended.get_or_insert(now);
    }

    pub(super) fn stock(&self) -> u64 {
        self.ask.stock.into()
    }

    /// The counts of the servers since it began.
    pub(super) fn since(&self, counts: Counts) -> Counts {
        counts - self.before
    }

    /// A buyer has left.
    pub(super) fn add(&mut self, clicks: &[Click]) {
        self.outcome.add(clicks, self.begun);
        for click in clicks {
            let decided = click.token.is_some() || click.is_sale();
            if decided {
                let order = click.token.unwrap_or(self.grants.len() as u64);
                let (server, sale) = (click.server, click.is_sale());
                self.grants.push(Grant { order, server, sale });
            }
            if click.is_sale() {
                self.sales.push_back(click.answered);
            }
        }
    }

    pub(super) fn tell(&mut self, now: Instant) -> Told {
        let at = self.ended.unwrap_or(now);
        // Answers of two servers may cross.
        self.grants.sort_unstable();
        self.sales.make_contiguous().sort_unstable();
        while self.sales.front().is_some_and(|sale| *sale + RATE_OVER < now) {
            self.sales.pop_front();
        }
        self.rate_max = self.rate_max.max(self.sales.len());
        self.outcome.waits.sort_unstable();
        let ms = |percent| (self.outcome.wait(percent).as_secs_f64() * 1e6).round() / 1e3;
        let Outcome { with_item, sold_out, busy, failed, .. } = self.outcome;
        let shown = self.grants.len().saturating_sub(GRANTS_SHOWN_MAX);
        Told {
            ask: self.ask,
            running: self.ended.is_none(),
            elapsed_ms: at.saturating_duration_since(self.begun).as_millis(),
            answered: with_item + sold_out + busy + failed,
            sold_out,
            busy,
            failed,
            per_s: self.sales.len(),
            per_s_max: self.rate_max,
            wait_p50_ms: ms(50),
            wait_p99_ms: ms(99),
            grants: self.grants[shown..]
                .iter()
                .map(|grant| 2 * grant.server + usize::from(grant.sale))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;
    use crate::rush::Left;

    const ASK: Ask = Ask { buyers: 9, stock: 3, locked: true, hurry: false };

    fn click(server: usize, token: Option<u64>, left: Left, answered: Instant) -> Click {
        Click { left, waited: Duration::from_millis(3), answered, server, token }
    }

    #[test]
    fn orders_are_told_in_the_order_of_the_lock_whoever_was_answered_first() {
        let now = clock::now();
        let mut board = Board::new(ASK, Counts::default(), now);
        board.add(&[click(1, Some(30), Left::SoldOut, now)]);
        board.add(&[click(0, Some(10), Left::WithItem, now), click(0, None, Left::Busy, now)]);
        board.add(&[click(1, Some(20), Left::WithItem, now)]);
        let told = board.tell(now);
        assert_eq!(told.grants, [1, 3, 2]);
        assert_eq!((told.answered, told.sold_out, told.busy), (3, 1, 0));
        assert_eq!((told.per_s, told.wait_p99_ms), (2, 3.0));
    }

    #[test]
    fn without_the_lock_only_sales_are_told_in_the_order_of_their_answers() {
        let now = clock::now();
        let mut board = Board::new(Ask { locked: false, ..ASK }, Counts::default(), now);
        for server in [2, 0, 1] {
            board.add(&[click(server, None, Left::WithItem, now)]);
        }
        board.add(&[click(3, None, Left::SoldOut, now)]);
        assert_eq!(board.tell(now).grants, [5, 1, 3]);
    }

    #[test]
    fn the_rate_is_that_of_the_last_second_and_its_peak_stays() {
        let begun = clock::now();
        let mut board = Board::new(ASK, Counts::default(), begun);
        for ms in [0, 900, 1_500] {
            let answered = begun + Duration::from_millis(ms);
            board.add(&[click(0, None, Left::WithItem, answered)]);
        }
        assert_eq!(board.tell(begun + Duration::from_millis(1_600)).per_s, 2);
        board.end(begun + Duration::from_millis(1_700));
        let told = board.tell(begun + Duration::from_secs(60));
        assert_eq!((told.per_s, told.per_s_max, told.elapsed_ms), (0, 2, 1_700));
        assert!(!told.running);
    }
}
