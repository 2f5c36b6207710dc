//! The command line, and what of it the serving processes need to know.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser};
use indicatif::{ProgressBar, ProgressStyle};
use serde::{Deserialize, Serialize};

/// A flash sale over the distributed lock: a shop that serves HTTP, and a rush of buyers at it.
///
/// Exits with 1 when more was sold than there was, or an order was recorded twice.
#[derive(Debug, Parser)]
#[command(name = "flash-sale", max_term_width = 100)]
pub(crate) struct Options {
    /// The lock store: `memory:`, `redis://HOST:PORT/DB`, `redis+unix:///PATH`,
    /// `zookeeper://HOST:PORT,HOST:PORT/PATH`
    #[arg(long, value_name = "URL", default_value = "memory:")]
    pub(crate) locks: String,

    /// Processes that serve; more than one needs a lock store that they share
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) processes: u16,

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
        if self.processes > 1 && self.store() == "memory" {
            return Err(format!(
                "--processes {} needs a lock store that processes share, such as \
                 --locks redis://127.0.0.1: a memory: store lives inside one process",
                self.processes
            ));
        }
        Ok(())
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

/// What every serving process is told.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) locks: String,
    pub(crate) db: PathBuf,
    pub(crate) hold: Duration,
    pub(crate) without_lock: bool,
}

impl Plan {
    pub(crate) fn new(options: &Options, db: &Path) -> Self {
        Self {
            locks: options.locks.clone(),
            db: db.to_owned(),
            hold: Duration::from_millis(options.hold_ms),
            without_lock: options.without_lock,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed_and_its_defaults_are_those_of_the_readme() {
        Options::command().debug_assert();
        let options = Options::parse_from(["flash-sale"]);
        assert_eq!((options.buyers, options.stock, options.processes), (1_000, 100, 1));
        assert_eq!(options.store(), "memory");
        assert_eq!(options.check(), Ok(()));
    }

    #[test]
    fn several_processes_on_a_memory_store_are_refused() {
        for url in ["memory:", "memory:shared"] {
            let options = Options::parse_from(["flash-sale", "--processes", "2", "--locks", url]);
            let reason = options.check().unwrap_err();
            assert!(reason.contains("--processes 2") && reason.contains("--locks"), "{reason}");
        }
    }
}
