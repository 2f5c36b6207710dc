//! How the sale went.

use comfy_table::presets::ASCII_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};
use serde::Serialize;

use crate::Trouble;
use crate::options::Options;
use crate::rush::{CLICKS_TWICE, Outcome};
use crate::server::Counts;
use crate::shop::Books;

/// The figures that `--json` prints; the names are the program's face.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Figures {
    /// Orders in the books.
    sold: u64,
    /// Buyers who left without an item, for whatever reason.
    refused: u64,
    /// Orders beyond the stock.
    oversold: u64,
    /// Orders beyond the first of their buyer.
    duplicates: u64,
    /// How long requests waited for the lock.
    wait_p50_ms: f64,
    wait_p99_ms: f64,
    /// Orders over the time from the first request to the last sale.
    orders_per_s: f64,
    handoffs_local: u64,
    handoffs_remote: u64,
    /// Requests to the lock store, renewals included, over locks taken.
    commands_per_acquisition: f64,
}

#[derive(Debug)]
pub(crate) struct Report {
    figures: Figures,
    sold_out: u64,
    busy: u64,
    failed: u64,
    left: i64,
    stale_writes: u64,
}

impl Report {
    pub(crate) fn new(
        options: &Options,
        books: &Books,
        outcome: &Outcome,
        counts: &Counts,
    ) -> Self {
        let ms = |percent| rounded(outcome.wait(percent).as_secs_f64() * 1_000.0);
        let figures = Figures {
            sold: books.sold,
            refused: outcome.sold_out + outcome.busy + outcome.failed,
            oversold: books.sold.saturating_sub(options.stock.into()),
            duplicates: books.duplicates,
            wait_p50_ms: ms(50),
            wait_p99_ms: ms(99),
            orders_per_s: ratio(books.sold as f64, outcome.sold_after.as_secs_f64()),
            handoffs_local: counts.handoffs_local,
            handoffs_remote: counts.handoffs_remote,
            commands_per_acquisition: ratio(counts.store_requests as f64, counts.acquired as f64),
        };
        Self {
            figures,
            sold_out: outcome.sold_out,
            busy: outcome.busy,
            failed: outcome.failed,
            left: books.left,
            stale_writes: counts.stale_writes,
        }
    }

    /// Nothing sold that was not there, and no order twice.
    pub(crate) fn is_right(&self) -> bool {
        self.figures.oversold == 0 && self.figures.duplicates == 0
    }

    /// The one thing that this program writes to standard output.
    pub(crate) fn print(&self, options: &Options) -> Result<(), Trouble> {
        if options.json {
            println!("{}", serde_json::to_string(&self.figures)?);
        } else {
            println!("{}", self.table(options));
        }
        Ok(())
    }

    fn table(&self, options: &Options) -> Table {
        let Figures { sold, refused, oversold, duplicates, .. } = self.figures;
        let figures = &self.figures;
        let lock = if options.without_lock { "no lock" } else { options.store() };
        let wrong = |count: u64| if count == 0 { "" } else { "must be 0" };
        let twice = options.buyers.div_ceil(CLICKS_TWICE);
        let refusals =
            format!("{} sold out, {} busy, {} failed", self.sold_out, self.busy, self.failed);
        let processes = match options.processes() {
            1 => "1 process".to_owned(),
            more => format!("{more} processes"),
        };
        let left = format!("{} left on the shelf", self.left);
        let rows = [
            ("locks", lock.to_owned(), processes),
            ("buyers", options.buyers.to_string(), format!("{twice} clicked twice")),
            ("stock", options.stock.to_string(), format!("{} ms per sale", options.hold_ms)),
            ("sold", sold.to_string(), left),
            ("refused", refused.to_string(), refusals),
            ("oversold", oversold.to_string(), wrong(oversold).to_owned()),
            ("duplicates", duplicates.to_string(), wrong(duplicates).to_owned()),
            ("stale writes", self.stale_writes.to_string(), "refused by the fence".to_owned()),
            ("wait p50", format!("{:.1} ms", figures.wait_p50_ms), String::new()),
            ("wait p99", format!("{:.1} ms", figures.wait_p99_ms), String::new()),
            ("throughput", format!("{:.0} orders/s", figures.orders_per_s), String::new()),
            ("hand-offs local", figures.handoffs_local.to_string(), "in a process".to_owned()),
            ("hand-offs remote", figures.handoffs_remote.to_string(), "by the store".to_owned()),
            (
                "store commands",
                format!("{:.3}", figures.commands_per_acquisition),
                "per acquisition".to_owned(),
            ),
        ];
        let mut table = Table::new();
        table.load_style(ASCII_FULL_CONDENSED).set_header(["flash sale", "", ""]);
        table.add_rows(rows.map(|(name, value, note)| [name.to_owned(), value, note]));
        if let Some(values) = table.column_mut(1) {
            values.set_cell_alignment(CellAlignment::Right);
        }
        table
    }
}

fn ratio(of: f64, to: f64) -> f64 {
    if to > 0.0 { rounded(of / to) } else { 0.0 }
}

/// To three digits after the point.
fn rounded(value: f64) -> f64 {
    (value * 1_000.0).round() / 1_000.0
}
