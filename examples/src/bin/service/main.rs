//! One service with everything on, over a file of SQLite: nothing to install.
//!
//! - `app`: its routes, by macro, layer, permits and idempotency. `telemetry`: metrics and traces.
//! - `load`: a load on it, and what that moved.
//!
//! ```text
//! cargo run -p examples --bin service                                # a load of two seconds
//! cargo run -p examples --bin service -- --listen 127.0.0.1:3000     # serves until ctrl-c
//! cargo run -p examples --bin service -- --trace --seconds 1         # and says what it does
//! ```

mod app;
mod load;
mod telemetry;

use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;

use clap::Parser;
use lock_core::LockClient;
use lock_core::idempotency::Idempotency;
use lock_core::sql::SqlRecords;
use tokio::net::TcpListener;
use tokio::time::timeout;

type Trouble = Box<dyn Error + Send + Sync>;

/// Above what the handlers take; the server has a little more, as those that are stopped answer too.
const SHUTDOWN_WITHIN: Duration = Duration::from_secs(10);
const SERVER_WITHIN: Duration = Duration::from_secs(12);

/// A service with locks by macro and by layer, payments that run once, who holds what as a page,
/// metrics and traces.
#[derive(Debug, Parser)]
#[command(name = "service", max_term_width = 100)]
struct Options {
    /// Serves here until ctrl-c, in place of a load
    #[arg(long, value_name = "ADDR")]
    listen: Option<SocketAddr>,

    /// The store of the locks, such as `redis://HOST`; a file of SQLite that is thrown away unless it
    /// is given
    #[arg(long, value_name = "URL")]
    locks: Option<String>,

    /// What all keys are below at the store, so that stages may share it
    #[arg(long, value_name = "PREFIX", default_value = "demo")]
    prefix: String,

    /// How long the load lasts
    #[arg(long, value_name = "SECONDS", default_value_t = 2)]
    seconds: u64,

    /// Prints what locks and requests do, when it is done
    #[arg(long)]
    trace: bool,
}

#[tokio::main]
async fn main() -> Result<(), Trouble> {
    let options = Options::parse();
    // Before the first lock: a gauge that went up unseen goes below zero later.
    telemetry::install(options.trace)?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("shop.db").display().to_string();
    let here = || format!("sqlite://{file}?create=true");
    let url = options.locks.clone().unwrap_or_else(here);
    let locks = LockClient::builder(url).prefix(&options.prefix).connect().await?;
    let records = SqlRecords::connect(&here()).await?;
    let once = Idempotency::new("shop", locks.clone(), records)
        .with_secret("32 random bytes of this service …");
    once.check()?;

    let listener = TcpListener::bind(options.listen.unwrap_or(([127, 0, 0, 1], 0).into())).await?;
    let at = listener.local_addr()?;
    let routes = app::routes(&locks, &once);
    let server = axum::serve(listener, routes).with_graceful_shutdown(locks.closed());
    let serving = tokio::spawn(async { server.await });
    match options.listen {
        Some(_) => {
            println!("http://operator:operator@{at}/locks shows who holds what");
            println!("http://{at}/metrics has the metrics");
            tokio::signal::ctrl_c().await?;
        }
        None => load::run(at, Duration::from_secs(options.seconds)).await?,
    }

    // Beside each other: the server waits for its handlers, and some of them for a lock.
    let (report, served) =
        tokio::join!(locks.shutdown(SHUTDOWN_WITHIN), timeout(SERVER_WITHIN, serving));
    served???;
    let written = once.idle(SHUTDOWN_WITHIN).await;
    println!(
        "ended in {:?}: all locks given back: {}, all records written: {written}",
        report.took, report.complete
    );
    Ok(())
}
