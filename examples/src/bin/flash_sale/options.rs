//! The command line, and what of it the serving processes need to know.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser};
use indicatif::{ProgressBar, ProgressStyle};
use serde::{Deserialize, Serialize};

/// Where `--page` serves unless it is told.
const PAGE_ADDRESS: &str = "127.0.0.1:8080";

/// Serving processes behind a page, which has a colour for each.
const PAGE_PROCESSES: u16 = 4;

/// A flash sale over the distributed lock: a shop that serves HTTP, and a rush of buyers at it.
///
/// Exits with 1 when more was sold than there was, or an order was recorded twice.
#[derive(Debug, Parser)]
#[command(name = "flash-sale", max_term_width = 100)]
pub(crate) struct Options {
    /// The lock store: `memory:`, `redis://HOST:PORT/DB`, `redis+unix:///PATH`,
    /// `zookeeper://HOST:PORT,HOST:PORT/PATH`, `postgres://USER:PASSWORD@HOST/DB`,
    /// `mysql://USER:PASSWORD@HOST/DB`, `sqlite://FILE`,
    /// `sqlite:` for the file of the shop itself, …; TLS is `redis+tls://`
    #[arg(long, value_name = "URL", default_value = "memory:")]
    pub(crate) locks: String,

    /// Processes that serve (1, with --page 4); more than one needs a lock store that they share,
    /// but a page over `memory:` makes do with servers inside this process
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    processes: Option<u16>,

    /// Buyers, all at once; every tenth of them clicks twice
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub(crate) buyers: u32,

    /// Items on the shelf
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub(crate) stock: u32,

    /// How long the shop thinks about a sale between reading the stock and writing it
    #[arg(long, value_name = "MS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(0..=60_000))]
    pub(crate) hold_ms: u64,

    /// Keeps the database in this file instead of a temporary one; what an earlier sale left there
    /// is cleared
    #[arg(long, value_name = "PATH")]
    pub(crate) db: Option<PathBuf>,

    /// Where the first process serves; port 0 takes a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    pub(crate) listen: SocketAddr,

    /// Keeps serving after the rush, until ctrl-c
    #[arg(long)]
    pub(crate) serve: bool,

    /// Serves a page to watch and start rushes from, until ctrl-c; on this machine only, as it has
    /// no log-in
    #[arg(long, value_name = "ADDR", num_args = 0..=1, default_missing_value = PAGE_ADDRESS,
          conflicts_with_all = ["serve", "json", "without_lock"])]
    pub(crate) page: Option<SocketAddr>,

    /// Prints the result as one JSON object
    #[arg(long)]
    pub(crate) json: bool,

    /// Sells without the lock and without the fence, to show what they are for
    #[arg(long)]
    pub(crate) without_lock: bool,

    /// A serving process, started by the first one
    #[arg(long, hide = true)]
    pub(crate) worker: bool,
}

impl Options {
    /// Ends the program with a message and code 2 where they make no sense.
    pub(crate) fn from_command_line() -> Self {
        let options = Self::parse();
        if let Err(reason) = options.check() {
            Self::command().error(ErrorKind::ArgumentConflict, reason).exit();
        }
        options
    }

    fn check(&self) -> Result<(), String> {
        if let Some(page) = self.page
            && !page.ip().is_loopback()
        {
            return Err(format!("--page {page} would be open to others, and has no log-in"));
        }
        let is_inside = self.store() == "memory" || self.locks.starts_with("sqlite::memory:");
        if self.processes() > 1 && self.servers_inside() == 0 && is_inside {
            return Err(format!(
                "--processes {} needs a lock store that processes share, such as --locks sqlite: \
                 or --locks redis://127.0.0.1: a store in memory lives inside one process",
                self.processes()
            ));
        }
        Ok(())
    }

    /// Servers in all.
    pub(crate) fn processes(&self) -> u16 {
        self.processes.unwrap_or(if self.page.is_some() { PAGE_PROCESSES } else { 1 })
    }

    /// Servers beside the first one that are no processes of their own, with a client each: so a
    /// page shows what a lock does without any lock store.
    pub(crate) fn servers_inside(&self) -> u16 {
        let inside = self.page.is_some() && self.store() == "memory";
        if inside { self.processes() - 1 } else { 0 }
    }

    /// The kind of the lock store. The rest of the URL may hold a password.
    pub(crate) fn store(&self) -> &str {
        self.locks.split_once(':').map_or("", |(scheme, _)| scheme)
    }

    /// On standard error, and only if that is a terminal.
    pub(crate) fn progress_bar(&self) -> ProgressBar {
        let bar = ProgressBar::new(self.buyers.into());
        let style = "{elapsed:>4} [{bar:40}] {pos}/{len} buyers  {msg}";
        if let Ok(style) = ProgressStyle::with_template(style) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar
    }
}

/// The plan that every serving process is given.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) locks: String,
    pub(crate) db: PathBuf,
    pub(crate) hold: Duration,
    pub(crate) without_lock: bool,
    /// Keeps the records of idempotency beside the stock.
    pub(crate) records: bool,
    /// Serves what a page needs as well.
    pub(crate) watched: bool,
}

impl Plan {
    pub(crate) fn new(options: &Options, db: &Path) -> Self {
        let watched = options.page.is_some();
        let locks = match &*options.locks {
            // A name lets the clients of one process share the store.
            "memory:" if watched => "memory:flash-sale".to_owned(),
            "sqlite:" => format!("sqlite://{}", in_a_url(db)),
            locks => locks.to_owned(),
        };
        Self {
            locks,
            db: db.to_owned(),
            hold: Duration::from_millis(options.hold_ms),
            without_lock: options.without_lock,
            records: options.store() == "sqlite" && !options.without_lock,
            watched,
        }
    }
}

/// A path as URLs spell it.
fn in_a_url(path: &Path) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/-_.~".contains(byte);
    let encoded = |byte: u8| match plain(&byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    path.to_string_lossy().bytes().map(encoded).collect()
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed_and_its_defaults_are_those_of_the_readme() {
        Options::command().debug_assert();
        let options = Options::parse_from(["flash-sale"]);
        assert_eq!((options.buyers, options.stock, options.processes()), (1_000, 100, 1));
        assert_eq!(options.store(), "memory");
        assert_eq!(options.check(), Ok(()));
    }

    #[test]
    fn a_page_has_four_servers_and_is_for_this_machine_only() {
        let page = |arguments: &[&str]| {
            Options::parse_from(["flash-sale", "--page"].iter().chain(arguments))
        };
        let options = page(&[]);
        assert_eq!(options.page, Some((Ipv4Addr::LOCALHOST, 8080).into()));
        assert_eq!((options.processes(), options.servers_inside()), (4, 3));
        assert_eq!(options.check(), Ok(()));
        let options = page(&["[::1]:0", "--locks", "redis://localhost", "--processes", "2"]);
        assert_eq!((options.processes(), options.servers_inside()), (2, 0));
        assert_eq!(options.check(), Ok(()));
        let reason = page(&["0.0.0.0:8080"]).check().unwrap_err();
        assert!(reason.contains("0.0.0.0:8080") && reason.contains("log-in"), "{reason}");
    }

    #[test]
    fn the_locks_can_be_in_the_file_of_the_shop() {
        let options = Options::parse_from(["flash-sale", "--processes", "2", "--locks", "sqlite:"]);
        assert_eq!(options.check(), Ok(()));
        let plan = Plan::new(&options, Path::new("/tmp/a b?/shop.sqlite"));
        assert_eq!(plan.locks, "sqlite:///tmp/a%20b%3F/shop.sqlite");
    }

    #[test]
    fn several_processes_on_a_memory_store_are_refused() {
        for url in ["memory:", "memory:shared", "sqlite::memory:"] {
            let options = Options::parse_from(["flash-sale", "--processes", "2", "--locks", url]);
            let reason = options.check().unwrap_err();
            assert!(reason.contains("--processes 2") && reason.contains("--locks"), "{reason}");
        }
    }
}
