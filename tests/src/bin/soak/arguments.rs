//! The command line.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use clap::Parser;
use tests::scene::Kind;
use tests::scene::layouts::{KINDS, named};
use tests::worker::program::Misbehaviour;

/// Uses a lock from several processes while faults happen at random, and judges what came of it.
#[derive(Clone, Debug, Parser)]
#[command(name = "soak", max_term_width = 100)]
pub(crate) struct Arguments {
    /// The store to soak, one of those that docs/soak.md lists. Its servers are started here, on free
    /// ports
    #[arg(long, value_name = "STORE", default_value = "memory", value_parser = kind)]
    pub(crate) store: &'static Kind,

    /// How long
    #[arg(long, value_name = "N", default_value_t = 0)]
    minutes: u64,

    /// How long, beside the minutes; 30 where neither is given
    #[arg(long, value_name = "N", default_value_t = 0)]
    seconds: u64,

    /// The seed that everything random follows from; by default another one each time
    #[arg(long, value_name = "N", default_value_t = another_seed())]
    pub(crate) seed: u64,

    /// Processes
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=32))]
    pub(crate) workers: u64,

    /// Tasks of each process
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=64))]
    pub(crate) tasks: u64,

    /// Keys that they want
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=100))]
    pub(crate) keys: u64,

    /// Writes the report and the plot into this folder, as `STORE-SEED.md` and
    /// `STORE-SEED.svg`; and the history of a round that does not hold, as `STORE-SEED.jsonl`
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,

    /// Breaks something on purpose, so that a test sees it found
    #[arg(long = "break", hide = true)]
    pub(crate) misbehave: Option<Misbehaviour>,
}

fn kind(store: &str) -> Result<&'static Kind, String> {
    let names = KINDS.map(|kind| kind.store).join(", ");
    named(store).ok_or_else(|| format!("one of {names}"))
}

/// The one thing that follows from no seed.
fn another_seed() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::from(since.subsec_nanos())
}

impl Arguments {
    pub(crate) fn from_command_line() -> Self {
        Self::parse()
    }

    /// How long all rounds take together.
    pub(crate) fn span(&self) -> Duration {
        match self.minutes * 60 + self.seconds {
            0 => Duration::from_secs(30),
            seconds => Duration::from_secs(seconds),
        }
    }
}

#[cfg(test)]
mod test {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Arguments::command().debug_assert();
        let parse = |words: &[&str]| Arguments::try_parse_from([&["soak"], words].concat());
        let given =
            parse(&["--store", "redis+sentinel", "--minutes", "30", "--seed", "7"]).unwrap();
        assert_eq!((given.store.name, given.seed), ("Sentinel", 7));
        assert_eq!(given.span(), Duration::from_secs(1_800));
        assert_eq!(parse(&[]).unwrap().span(), Duration::from_secs(30));
        assert!(parse(&["--store", "paper"]).unwrap_err().to_string().contains("redlock"));
    }
}
