//! A server's folder, which goes with its test process however that ends.

use std::path::Path;
use std::process::{Child, Command};

use tempfile::TempDir;

use crate::process::{call_off, when_alone};

/// The variable by which processes are known as a folder's. Their children have it too.
const MARK: &str = "TESTS_FOLDER";

/// A new folder below the system's temporary one, removed on drop.
///
/// Should this process end without a drop, as at a `SIGKILL`, a shell ends what was started for the
/// folder and removes it. The folder's processes are looked for by their environment: one that is
/// starting, or started itself, is found as well. Servers that write over theirs, to show a title,
/// run in the folder.
#[derive(Debug)]
pub struct Folder {
    watchdog: Option<Child>,
    directory: TempDir,
}

impl Folder {
    /// A folder whose name says what it is for: `lock-<name>-…`.
    ///
    /// # Panics
    ///
    /// If it cannot be made.
    #[must_use]
    pub fn new(name: &str) -> Self {
        // A start may be under way when we die: twice in a row nobody is to be found.
        const SCRIPT: &str = r#"
            alone=0; rounds=0
            while [ $alone -lt 2 ] && [ $rounds -lt 200 ]; do
                alone=$((alone + 1)); rounds=$((rounds + 1))
                for found in $(
                    grep -lzxF -- "$1" /proc/[0-9]*/environ
                    find /proc/[0-9]*/cwd -maxdepth 0 -lname "$2*"
                ); do
                    pid=${found#/proc/}
                    kill -9 "${pid%%/*}"
                    alone=0
                done
                sleep 0.05
            done
            rm -rf "$2""#;
        let prefix = format!("lock-{name}-");
        let directory = tempfile::Builder::new().prefix(&prefix).tempdir();
        let directory = directory.expect("a writable temporary folder");
        let path = directory.path().display().to_string();
        let watchdog = when_alone(SCRIPT, &[&format!("{MARK}={path}"), &path]);
        Self { watchdog, directory }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// The same command, whose process is the folder's and goes with it.
    pub(crate) fn own<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.env(MARK, self.path())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        call_off(&mut self.watchdog);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::path::PathBuf;
    use std::process::{Command, Stdio};
    use std::thread::sleep;
    use std::time::{Duration, Instant};

    use super::Folder;
    use crate::process::Process;
    use crate::redis::RedisServer;

    const CHILD: &str = "folder::tests::a_folder_goes_with_a_process_that_is_killed";

    /// With nothing running in it, as while a server is down; with a server whose own child has
    /// outlived it; and with one that writes over its environment.
    #[test]
    fn a_folder_goes_with_a_process_that_is_killed() {
        if std::env::var_os("TESTS_CHILD").is_some() {
            return be_killed();
        }
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([CHILD, "--exact", "--nocapture"])
            .env("TESTS_CHILD", "yes")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let told: Vec<PathBuf> = lines
            .map_while(Result::ok)
            .filter_map(|line| line.strip_prefix("made ").map(PathBuf::from))
            .take(5)
            .collect();
        assert_eq!(told.len(), 5, "{told:?}");
        assert!(told.iter().all(|made| made.exists()), "{told:?}");
        child.kill().unwrap();
        child.wait().unwrap();
        let until = Instant::now() + Duration::from_secs(30);
        while told.iter().any(|made| made.exists()) {
            assert!(Instant::now() < until, "left: {told:?}");
            sleep(Duration::from_millis(5));
        }
    }

    fn be_killed() {
        let folders = [Folder::new("empty"), Folder::new("used")];
        let pid = folders[1].path().join("pid");
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 600 & echo $! >\"$0.new\"; mv \"$0.new\" \"$0\""]).arg(&pid);
        let mut server = Process::start(&mut command, "dash", &folders[1]);
        while !server.has_ended() {
            sleep(Duration::from_millis(1));
        }
        let server = RedisServer::start();
        let used = std::fs::read_to_string(&pid).unwrap();
        let [used, redis] =
            [used.trim(), &server.pid().to_string()].map(|pid| format!("/proc/{pid}"));
        let of_redis = std::fs::read_link(format!("{redis}/cwd")).unwrap().display().to_string();
        let folders = folders.iter().map(|folder| folder.path().display().to_string());
        for made in folders.chain([of_redis, used, redis]) {
            println!("made {made}");
        }
        sleep(Duration::from_secs(600));
    }
}
