//! Saving what a member has, and going back to it, with `etcdctl`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::server::EtcdServer;

impl EtcdServer {
    /// Saves all it has; the file lives as long as the server.
    ///
    /// # Panics
    ///
    /// If `etcdctl` is not installed or cannot save it.
    #[must_use]
    pub fn save(&self) -> PathBuf {
        let file = self.file("backup");
        let endpoint = format!("--endpoints={}", self.addr());
        etcdctl(&[&endpoint, "snapshot", "save"], &file);
        file
    }

    /// Kills it, and starts it on what was saved, as an operator restores a backup.
    ///
    /// # Panics
    ///
    /// As [`save`](Self::save), and [`restart`](Self::restart).
    pub fn restore(&mut self, backup: &Path) {
        self.kill();
        let data = self.file("data");
        fs::remove_dir_all(&data).expect("what it had");
        let (member, peer) = (self.as_member(), format!("http://{}", self.peer_addr()));
        let (name, _) = member.split_once('=').expect("a name");
        let arguments = [
            "snapshot",
            "restore",
            "--name",
            name,
            "--data-dir",
            data.to_str().expect("a path"),
            "--initial-cluster",
            &member,
            "--initial-advertise-peer-urls",
            &peer,
        ];
        etcdctl(&arguments, backup);
        self.restart();
    }
}

fn etcdctl(arguments: &[&str], file: &Path) {
    let mut command = Command::new("etcdctl");
    command.env("ETCDCTL_API", "3").args(arguments).arg(file).stdin(Stdio::null());
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
