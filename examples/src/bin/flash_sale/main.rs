//! A flash sale: more buyers than items, all at once, and not one item sold twice.
//!
//! ```text
//! cargo run --release -p examples                                   # 1,000 buyers, 100 items
//! cargo run --release -p examples -- --processes 4 --locks redis://127.0.0.1
//! cargo run --release -p examples -- --processes 4 --locks sqlite:  # the locks beside the stock
//! cargo run --release -p examples -- --without-lock                 # how it goes wrong
//! cargo run --release -p examples -- --page                         # to watch it in a browser
//! ```
//!
//! The program is the shop and its buyers. `POST /buy/{sku}` runs under the lock of its sku through
//! a `LockLayer`; `POST /restock/{sku}` takes the same lock through `#[distributed_lock]`. Both
//! change the stock in SQLite by reading it first and writing it later, which is only right while
//! nobody else does the same; and both carry the fencing token, so that a write under a lock that
//! was lost meanwhile is refused. Every tenth buyer clicks twice, to show that one order stays one.
//! Over locks in SQLite each order has a record of idempotency, which is completed in the
//! transaction that takes the stock.
//!
//! - [`options`]: the command line. [`report`]: the table, and the same as JSON.
//! - [`server`]: the routes, with the lock around them. [`shop`]: the stock, with the fence.
//!   [`once`]: an order and its record.
//! - [`rush`]: the buyers. [`fleet`] and [`worker`]: the processes that serve them. [`reach`]: all
//!   of these by HTTP. [`page`]: to watch it all, and to start rushes from.

mod clock;
mod fleet;
mod limits;
mod once;
mod options;
mod page;
mod reach;
mod report;
mod rush;
mod server;
mod shop;
mod signals;
mod web;
mod worker;

use std::process::ExitCode;

use fleet::Fleet;
use options::{Options, Plan};
use report::Report;
use rush::{Click, Rush};
use shop::{Shop, Storage};

/// The error of a run, for the person at the terminal.
type Trouble = Box<dyn std::error::Error + Send + Sync>;

/// The item that is on sale.
const SKU: &str = "sneaker";

/// As a shell reports a program that ctrl-c ended.
const INTERRUPTED: u8 = 130;

fn main() -> ExitCode {
    let options = Options::from_command_line();
    limits::raise_open_files();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error),
    };
    let worker = options.worker;
    let ended = runtime.block_on(async {
        if worker { worker::run().await.map(|()| ExitCode::SUCCESS) } else { run(options).await }
    });
    // A worker may still have a thread that reads standard input: nobody waits for that.
    runtime.shutdown_background();
    ended.unwrap_or_else(|error| failed(&*error))
}

fn failed(error: &(dyn std::error::Error + 'static)) -> ExitCode {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    eprintln!("flash-sale: {text}");
    ExitCode::FAILURE
}

async fn run(options: Options) -> Result<ExitCode, Trouble> {
    let storage = Storage::new(options.db.as_deref())?;
    let shop = Shop::open(storage.path())
        .await
        .map_err(|error| format!("{}: {error}", storage.path().display()))?;
    shop.clear(SKU).await?;
    let plan = Plan::new(&options, storage.path());
    if plan.records {
        once::migrate(&shop).await?;
    }
    let mut stop = signals::Stop::listen()?;
    if matches!(options.store(), "sqlite" | "postgres" | "mysql" | "mariadb") {
        // As a step of a deployment would.
        lock_core::sql::migrate(&plan.locks).await?;
    }
    let fleet = Fleet::start(&plan, &options).await?;

    let ended = match options.page {
        Some(address) => {
            let shown = page::serve(address, &options, &fleet, &shop, stop.clone()).await;
            shown.map(|()| ExitCode::SUCCESS)
        }
        None => tokio::select! {
            biased;
            () = stop.asked() => Ok(ExitCode::from(INTERRUPTED)),
            ended = sale(&options, &fleet, &shop) => ended,
        },
    };
    let go_on = options.serve && ended.as_ref().is_ok_and(|code| *code != INTERRUPTED.into());
    if go_on {
        fleet.tell_addresses();
        stop.asked().await;
    }
    let complete = fleet.stop().await;
    shop.close().await;
    if !complete {
        eprintln!("flash-sale: not every lock was given back; the rest ends with its lease");
    }
    ended
}

/// Fills the shelf, lets the buyers in, and says how it went.
async fn sale(options: &Options, fleet: &Fleet, shop: &Shop) -> Result<ExitCode, Trouble> {
    let reach = fleet.reach();
    reach.restock(SKU, options.stock).await?;
    let before = reach.counts().await?;
    let rush = Rush::new(fleet.addresses(), options.buyers);
    let bar = options.progress_bar();
    let mut sold = 0;
    let outcome = rush
        .run(&format!("/buy/{SKU}"), |clicks| {
            sold += u64::from(clicks.iter().any(Click::is_sale));
            bar.inc(1);
            bar.set_message(format!("{sold} sold"));
        })
        .await;
    bar.finish_and_clear();
    let counts = reach.counts().await? - before;
    let books = shop.books(SKU).await?;
    let report = Report::new(options, &books, &outcome, &counts);
    report.print(options)?;
    Ok(if report.is_right() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
