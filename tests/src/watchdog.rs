//! Ends a test that hangs, by its name, with its servers.

use std::collections::HashMap;
use std::fs;
use std::io::Write;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::unistd::gettid;

/// How long a test may run from its first fixture on.
const TEST_MAX: Duration = Duration::from_secs(360);

/// The threads of tests by their numbers, with what libtest calls them.
static TESTS: LazyLock<Mutex<HashMap<i32, (String, Instant)>>> = LazyLock::new(|| {
    thread::Builder::new().name("watchdog".to_owned()).spawn(watch).expect("a thread");
    Mutex::default()
});

/// Watches the test that calls it, until its thread ends. Fixtures call it, so no test has to.
pub(crate) fn enter() {
    if let Some(name) =
        thread::current().name().filter(|name| name.contains("::") || name.contains('_'))
    {
        let mut tests = TESTS.lock().unwrap_or_else(PoisonError::into_inner);
        tests.entry(gettid().as_raw()).or_insert_with(|| (name.to_owned(), Instant::now()));
    }
}

fn watch() {
    loop {
        thread::sleep(Duration::from_millis(500));
        let mut tests = TESTS.lock().unwrap_or_else(PoisonError::into_inner);
        tests.retain(|thread, _| fs::exists(format!("/proc/self/task/{thread}")).unwrap_or(true));
        if let Some((name, _)) = tests.values().find(|(_, since)| since.elapsed() > limit()) {
            // The process, as no thread can be ended: its servers and workers end with it.
            // Not as `eprintln!` does, which is captured with the test that began this thread.
            let _ = writeln!(std::io::stderr(), "test {name} hung: it ran for over {:?}", limit());
            std::process::abort();
        }
    }
}

/// Less where the watchdog itself is tested.
fn limit() -> Duration {
    let seconds = std::env::var("TESTS_TEST_SECONDS_MAX").ok().and_then(|it| it.parse().ok());
    seconds.map_or(TEST_MAX, Duration::from_secs)
}
