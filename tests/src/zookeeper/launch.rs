//! Starting a server's process and waiting until it serves.

use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::server::ZooKeeperServer;
use super::words::field;
use crate::process::{Process, missing};

/// The Debian package that brings the classes, and a Java to run them.
const PACKAGE: &str = "zookeeper";

/// How long a start may take: 30 s, for a machine that is busy with other JVMs.
pub(super) const START_LIMIT: Duration = Duration::from_secs(30);

/// How long a server may think about what it is before it is asked again: 1 s. A paused one
/// never answers.
const PROBE_LIMIT: Duration = Duration::from_secs(1);

/// The place of a server in an ensemble.
#[derive(Debug)]
pub(super) struct Seat {
    /// The number that tells the members apart, from 1.
    pub(super) id: usize,
    /// The lines of the configuration that name the members.
    pub(super) members: String,
}

impl ZooKeeperServer {
    /// The mode of the server: `standalone`, `leader` or `follower`; `None` while it serves nobody.
    #[must_use]
    pub fn mode(&self) -> Option<String> {
        // The folder tells our server from one that took the port first.
        let config = self.try_word("conf", PROBE_LIMIT).ok()?;
        let ours = field(&config, "dataDir", '=')
            .is_some_and(|data| Path::new(data).starts_with(self.folder()));
        let answer = self.try_word("srvr", PROBE_LIMIT).ok()?;
        field(&answer, "Mode", ':').filter(|_| ours).map(str::to_owned)
    }

    /// Starts the process and waits until it serves; the error is its log.
    pub(super) fn launch(&mut self) -> Result<(), String> {
        self.spawn();
        let deadline = Instant::now() + START_LIMIT;
        while self.mode().is_none() {
            if self.has_ended() {
                return Err(self.end_of_log());
            }
            assert!(
                Instant::now() < deadline,
                "ZooKeeper does not serve on port {}:\n{}",
                self.port,
                self.end_of_log()
            );
            sleep(Duration::from_millis(20));
        }
        self.begin_counts();
        Ok(())
    }

    /// Sets the counters to zero, if this is the first call since the start.
    pub(super) fn begin_counts(&mut self) {
        if !std::mem::replace(&mut self.counts, true) {
            self.reset_stats();
        }
    }

    /// Starts the process. What is there is killed.
    pub(super) fn spawn(&mut self) {
        let folder = self.folder();
        let config = folder.join("zoo.cfg");
        for jar in self.options.class_path() {
            if !jar.exists() {
                missing(&jar.display(), PACKAGE);
            }
        }
        let _ = fs::remove_file(self.log_file());
        let mut text = self.options.config_file(self.port, folder);
        if let Some(Seat { id, members }) = &self.seat {
            text += members;
            fs::write(folder.join("myid"), id.to_string()).expect("a writable folder");
        }
        fs::write(&config, text).expect("a writable folder");
        let mut command = self.options.command(&config, &self.log_file());
        self.counts = false;
        self.process = Some(Process::start(&mut command, PACKAGE, &self.directory));
    }

    pub(super) fn is_running(&self) -> bool {
        self.process.is_some()
    }

    /// True if the process has ended of itself.
    pub(super) fn has_ended(&mut self) -> bool {
        self.process.as_mut().is_some_and(Process::has_ended)
    }

    pub(super) fn end_of_log(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }
}
