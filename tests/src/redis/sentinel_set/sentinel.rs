//! One sentinel.

use std::collections::HashMap;
use std::fs;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use redis::{FromRedisValue, Value};

use super::SentinelOptions;
use crate::folder::Folder;
use crate::port::free_port;
use crate::process::Process;

/// A running sentinel, stopped when dropped.
#[derive(Debug)]
pub struct Sentinel {
    process: Option<Process>,
    port: u16,
    password: Option<String>,
    _directory: Folder,
}

impl Sentinel {
    /// Starts one that watches the master at `master_port`, and waits until it answers.
    pub(super) fn start(name: &str, master_port: u16, options: &SentinelOptions) -> Self {
        // Between the choice of a port and the bind another process may take it.
        for _ in 0..20 {
            if let Some(sentinel) = Self::try_start(name, master_port, options) {
                return sentinel;
            }
        }
        panic!("a sentinel found no free port in 20 tries");
    }

    fn try_start(name: &str, master_port: u16, options: &SentinelOptions) -> Option<Self> {
        let directory = Folder::new("sentinel");
        let (port, folder) = (free_port(), directory.path());
        let mut text = format!(
            "bind 127.0.0.1\nport {port}\ndir {folder}\nlogfile {folder}/sentinel.log\n\
             sentinel monitor {name} 127.0.0.1 {master_port} 2\n\
             sentinel down-after-milliseconds {name} {}\n\
             sentinel failover-timeout {name} 5000\n",
            options.down_after_ms,
            folder = folder.display(),
        );
        if let Some(password) = &options.password {
            text += &format!("sentinel auth-pass {name} {password}\n");
        }
        if let Some(password) = &options.sentinel_password {
            text += &format!("requirepass {password}\nsentinel sentinel-pass {password}\n");
        }
        let config = folder.join("sentinel.conf");
        fs::write(&config, text).expect("a writable folder");
        let process = Process::start(
            Command::new(&options.server.binary).arg(&config).arg("--sentinel"),
            "redis-server",
            &directory,
        );
        let password = options.sentinel_password.clone();
        let mut sentinel = Self { process: Some(process), port, password, _directory: directory };
        let deadline = Instant::now() + Duration::from_secs(10);
        // Sentinels find each other and the replicas by asking every few seconds. One that stood
        // still for 2 s switches nothing for 30 s (TILT), which would be of the time of a test.
        let hurry = ["INFO-PERIOD", "200", "PUBLISH-PERIOD", "200", "TILT-PERIOD", "500"];
        let hurry = [&["SENTINEL", "DEBUG"], &hurry[..]].concat();
        while sentinel.command(&hurry).is_none() {
            if sentinel.process.as_mut().is_none_or(Process::has_ended) {
                return None;
            }
            assert!(Instant::now() < deadline, "a sentinel does not answer on port {port}");
            sleep(Duration::from_millis(3));
        }
        Some(sentinel)
    }

    /// Where it listens.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Freezes it (`SIGSTOP`).
    pub fn freeze(&self) {
        self.signal(Signal::SIGSTOP);
    }

    /// Wakes it (`SIGCONT`).
    pub fn thaw(&self) {
        self.signal(Signal::SIGCONT);
    }

    /// Kills it (`SIGKILL`). The port refuses connections then.
    pub fn kill(&mut self) {
        self.process = None;
    }

    fn signal(&self, signal: Signal) {
        if let Some(process) = &self.process {
            process.signal(signal);
        }
    }

    /// Runs a command; `None` if it does not answer at once, or refuses.
    pub(super) fn command(&self, words: &[&str]) -> Option<Value> {
        self.process.as_ref()?;
        let credentials =
            self.password.as_ref().map_or(String::new(), |password| format!(":{password}@"));
        let url = format!("redis://{credentials}127.0.0.1:{}", self.port);
        let limit = Duration::from_millis(300);
        let client = redis::Client::open(url).expect("a plain URL");
        let mut connection = client.get_connection_with_timeout(limit).ok()?;
        connection.set_read_timeout(Some(limit)).ok()?;
        redis::cmd(words[0]).arg(&words[1..]).query(&mut connection).ok()
    }

    /// The port of the master, as it says.
    pub(super) fn names(&self, master: &str) -> Option<u16> {
        let answer = self.command(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", master])?;
        let (_, port) = <(String, u16)>::from_redis_value(answer).ok()?;
        Some(port)
    }

    /// One field of what it says of the master.
    pub(super) fn field(&self, master: &str, field: &str) -> Option<String> {
        let answer = self.command(&["SENTINEL", "MASTER", master])?;
        HashMap::<String, String>::from_redis_value(answer).ok()?.remove(field)
    }
}
