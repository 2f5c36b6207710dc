//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use axum::http::Uri;
use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser};
use indicatif::{ProgressBar, ProgressStyle};

use crate::advice::Advice;

/// Recommends `wait` and `retries` for one key of a lock, by measuring it under loads below and
/// above its capacity.
#[derive(Debug, Parser)]
#[command(name = "size", max_term_width = 100)]
pub(crate) struct Arguments {
    /// The lock store: `memory:`, `redis://HOST:PORT/DB`, `zookeeper://HOST:PORT/PATH`, …
    #[arg(long, value_name = "URL", default_value = "memory:")]
    pub(crate) url: String,

    /// The key; nobody else may use it meanwhile
    #[arg(long, value_name = "KEY", default_value = "size")]
    pub(crate) key: String,

    /// How long one request keeps the key, such as `5ms`
    #[arg(long, value_name = "TIME", default_value = "5ms", value_parser = duration)]
    pub(crate) hold: Duration,

    /// Sends requests to this address instead, such as `http://127.0.0.1:3000/buy/sneaker`. They
    /// do there what they always do: take a test system
    #[arg(long, value_name = "URL", conflicts_with_all = ["url", "key", "hold", "no_admission", "wait", "retries"])]
    pub(crate) endpoint: Option<Uri>,

    /// The method of these requests
    #[arg(long, value_name = "METHOD", default_value = "POST", requires = "endpoint")]
    pub(crate) method: axum::http::Method,

    /// The body of these requests; sent as JSON if it is
    #[arg(long, value_name = "TEXT", default_value = "", requires = "endpoint")]
    pub(crate) body: String,

    /// How long a caller is ready to wait for an answer, the work included
    #[arg(long, value_name = "TIME", default_value = "4s", value_parser = duration)]
    pub(crate) budget: Duration,

    /// Tries this `wait` instead of the recommended one
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "retries")]
    pub(crate) wait: Option<Duration>,

    /// Tries this number of `retries` instead of the recommended one
    #[arg(long, value_name = "N", requires = "wait", value_parser = clap::value_parser!(u32).range(0..=1_000))]
    pub(crate) retries: Option<u32>,

    /// Lets everybody wait, to show what admission is for
    #[arg(long)]
    pub(crate) no_admission: bool,

    /// The loads, as parts of the measured capacity
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "0.25,0.5,1,2,5,10", value_parser = load)]
    pub(crate) loads: Vec<f64>,

    /// How long each load lasts
    #[arg(long, value_name = "S", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub(crate) seconds: u64,

    /// Requests under way at a time; those beyond are not sent, and counted
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) in_flight: u32,

    /// Draws the curve into this file
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,

    /// Prints one JSON object instead of the table
    #[arg(long)]
    pub(crate) json: bool,
}

/// The longest budget and hold: what is longer is no load test.
const DURATION_MAX: Duration = Duration::from_secs(60);

fn duration(text: &str) -> Result<Duration, String> {
    let given = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if given > DURATION_MAX {
        return Err(format!("at most {DURATION_MAX:?}"));
    }
    Ok(given)
}

fn load(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(load) if (0.01..=100.0).contains(&load) => Ok(load),
        Ok(_) => Err("a load is from 0.01 to 100 times the capacity".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

impl Arguments {
    /// Ends the program with a message and code 2 where they make no sense.
    pub(crate) fn from_command_line() -> Self {
        let arguments = Self::parse();
        if let Err(reason) = arguments.check() {
            Self::command().error(ErrorKind::ValueValidation, reason).exit();
        }
        arguments
    }

    fn check(&self) -> Result<(), String> {
        if self.budget.is_zero() {
            return Err("--budget is zero: nothing can be done in no time".to_owned());
        }
        if let Some(endpoint) = &self.endpoint
            && (endpoint.scheme_str() != Some("http") || endpoint.host().is_none())
        {
            return Err(format!("--endpoint {endpoint}: it must begin with http://HOST"));
        }
        Ok(())
    }

    pub(crate) fn seconds(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }

    /// Whether who would wait in vain is refused; what an endpoint does is its own choice.
    pub(crate) fn admission(&self) -> bool {
        !self.no_admission
    }

    /// The `wait` and `retries` under test.
    pub(crate) fn chosen(&self, advice: &Advice) -> (Duration, u32) {
        match (self.wait, self.retries) {
            (Some(wait), Some(retries)) => (wait, retries),
            _ => advice.choice().unwrap_or((self.budget, 0)),
        }
    }

    /// On standard error, and only if that is a terminal.
    pub(crate) fn progress_bar(&self) -> ProgressBar {
        let bar = ProgressBar::new(self.loads.len() as u64 + 1);
        if let Ok(style) = ProgressStyle::with_template("{elapsed:>4} [{bar:40}] {msg}") {
            bar.set_style(style.progress_chars("=> "));
        }
        bar
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Arguments, String> {
        let all = ["size"].iter().chain(arguments);
        let parsed = Arguments::try_parse_from(all).map_err(|error| error.to_string())?;
        parsed.check().map(|()| parsed)
    }

    #[test]
    fn the_command_line_is_well_formed() {
        Arguments::command().debug_assert();
        let arguments = parse(&[]).unwrap();
        assert_eq!(arguments.loads, [0.25, 0.5, 1.0, 2.0, 5.0, 10.0]);
        assert_eq!(arguments.hold, Duration::from_millis(5));
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_the_reason() {
        for (arguments, reason) in [
            (&["--budget", "0s"][..], "--budget"),
            (&["--budget", "2h"], "at most 60s"),
            (&["--hold", "soon"], "--hold"),
            (&["--loads", "1,0"], "0.01 to 100"),
            (&["--wait", "2s"], "--retries"),
            (&["--seconds", "0"], "--seconds"),
            (&["--endpoint", "ftp://127.0.0.1/"], "http://HOST"),
            (&["--endpoint", "http://127.0.0.1/", "--hold", "5ms"], "--hold"),
            (&["--body", "{}"], "--endpoint"),
        ] {
            let error = parse(arguments).unwrap_err();
            assert!(error.contains(reason), "{arguments:?}: {error}");
        }
    }
}
