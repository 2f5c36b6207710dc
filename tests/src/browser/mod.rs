//! A real Chromium without a window, for the tests of pages.
//!
//! It is driven over its debugging pipe, so it needs no driver program and no port: Chromium reads
//! requests from one file descriptor and writes answers and events to another. It ends by itself
//! when the pipe does, so it does not outlive this process however that one ends.
//!
//! ```no_run
//! # async fn example() {
//! use tests::browser::Browser;
//!
//! let browser = Browser::start().await;
//! let page = browser.open("http://127.0.0.1:8080/").await;
//! page.click("#rush").await;
//! page.until("something was sold", "document.querySelector('#sold').textContent > 0").await;
//! page.has_no_problems();
//! # }
//! ```

mod link;
mod page;

use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use link::Link;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde_json::json;
use tempfile::TempDir;
use tokio::process::{ChildStdin, ChildStdout};

pub use page::Page;

use crate::process::missing;

const PROGRAM: &str = "chromium";

/// The pipe is to be file descriptors 3 and 4, which the standard library cannot arrange.
const SHELL: &str = r#"exec 3<&0 4>&1 </dev/null >/dev/null; exec "$@""#;

const ARGUMENTS: [&str; 10] = [
    "--headless=new",
    "--remote-debugging-pipe",
    // Tests run as root in containers, and open no page but their own.
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-breakpad",
    "--disable-background-networking",
    "--disable-extensions",
    "--no-first-run",
    // A picture has as little as can be of the machine's fonts and scroll bars.
    "--hide-scrollbars",
];

/// A fresh machine reads a few hundred megabytes first.
const START_WITHIN: Duration = Duration::from_secs(60);

/// A running browser with a profile of its own, killed on drop with all its processes.
#[derive(Debug)]
pub struct Browser {
    link: Arc<Link>,
    process: Child,
    _profile: TempDir,
}

impl Browser {
    /// Starts one.
    ///
    /// # Panics
    ///
    /// If Chromium is missing, with the Debian package to install, or does not start within 60 s.
    pub async fn start() -> Self {
        if Command::new(PROGRAM)
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_err()
        {
            missing(&PROGRAM, "chromium");
        }
        let profile = TempDir::with_prefix("browser-").expect("a folder for the profile");
        let mut process = Command::new("/bin/sh")
            .args(["-c", SHELL, "sh", PROGRAM])
            .args(ARGUMENTS)
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .env("HOME", profile.path())
            .env("TMPDIR", profile.path())
            // Renderers and helpers are of its group, and end with it.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("a shell");
        let input = process.stdin.take().expect("the pipe");
        let output = process.stdout.take().expect("the pipe");
        let link = Link::over(
            ChildStdin::from_std(input).expect("a pipe"),
            ChildStdout::from_std(output).expect("a pipe"),
        );
        let browser = Self { link, process, _profile: profile };
        browser.link.ask_within(START_WITHIN, None, "Browser.getVersion", json!({})).await;
        browser
    }

    /// Opens a page in a tab of its own, and waits until it is loaded.
    ///
    /// # Panics
    ///
    /// If it does not answer.
    pub async fn open(&self, url: &str) -> Page {
        Page::open(self.link.clone(), url).await
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Not waited for yet, so the group is still its own.
        if let Ok(id) = i32::try_from(self.process.id()) {
            let _ = killpg(Pid::from_raw(id), Signal::SIGKILL);
        }
        let _ = self.process.wait();
    }
}
