//! The soak runs for a while on stores side by side, and can fail.

#![allow(clippy::disallowed_methods)]

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use tests::scene::Kind;
use tests::scene::layouts::{KINDS, REDIS, SQLITE, ZOOKEEPER};

const SOAK: &str = env!("CARGO_BIN_EXE_soak");

fn soak(arguments: &[&str], folder: &Path) -> Command {
    let mut command = Command::new(SOAK);
    // Everything that it makes is below this, so that what it leaves is seen.
    command.args(arguments).env("TMPDIR", folder).stdin(Stdio::null());
    command
}

/// Runs it, and gives its output. Nothing is left in the folder, nor a process that was started
/// there.
fn run(arguments: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let output = soak(arguments, folder.path()).output().unwrap();
    nothing_left(folder.path());
    output
}

fn nothing_left(folder: &Path) {
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        let files: Vec<_> = folder.read_dir().unwrap().flatten().map(|file| file.path()).collect();
        let processes = processes_of(folder);
        if files.is_empty() && processes.is_empty() {
            return;
        }
        assert!(Instant::now() < until, "left: {files:?}, {processes:?}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// The command lines of all processes that were told of this folder.
fn processes_of(folder: &Path) -> Vec<String> {
    let told = format!("TMPDIR={}", folder.display());
    let mut found = Vec::new();
    for process in Path::new("/proc").read_dir().unwrap().flatten() {
        let environment = std::fs::read(process.path().join("environ")).unwrap_or_default();
        if environment.split(|byte| *byte == 0).any(|word| word == told.as_bytes()) {
            let line = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
            found.push(String::from_utf8_lossy(&line).replace('\0', " "));
        }
    }
    found
}

fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("{}\n{}", text(&output.stdout), text(&output.stderr))
}

/// V1 to V6 and V8: ten seconds on three stores; for `./tests/run --all` half a minute on each.
#[test]
fn stores_outlast_a_time_of_faults() {
    let (kinds, seconds) = if tests::chance::is_everything_run() {
        (KINDS.to_vec(), "30")
    } else {
        (vec![&REDIS, &ZOOKEEPER, &SQLITE], "10")
    };
    let seed = tests::chance::seed().to_string();
    let run = |kind: &Kind| run(&["--store", kind.store, "--seconds", seconds, "--seed", &seed]);
    let mut ended = Vec::new();
    // Two at a time: what is shown is the store under faults, not the machine under nine stores.
    for pair in kinds.chunks(2) {
        thread::scope(|threads| {
            let runs: Vec<_> = pair.iter().map(|kind| threads.spawn(|| run(kind))).collect();
            let outputs = runs.into_iter().map(|run| run.join().unwrap());
            ended.extend(pair.iter().map(|kind| kind.store).zip(outputs));
        });
    }
    for (store, output) in &ended {
        let head: Vec<_> =
            said(output).lines().filter(|line| line.contains(store)).map(str::to_owned).collect();
        println!("{}", head.join("\n"));
    }
    let broken: Vec<_> = ended.iter().filter(|(_, output)| !output.status.success()).collect();
    for (store, output) in &broken {
        println!("=== {store}\n{}", said(output));
    }
    assert!(broken.is_empty(), "{:?}", broken.iter().map(|(store, _)| store).collect::<Vec<_>>());
}

/// Each wrong is found, and shown with the seed and the few lines that prove it.
#[test]
fn a_soak_of_what_is_broken_ends_with_the_seed_and_a_short_history() {
    let cases = [
        ("two-holders", "was granted while", &["Acquire Ok", "Renew Ok"][..]),
        ("no-fence", "was accepted after", &["Write Invoke", "Write Ok"]),
        ("writer-stays", "was granted while", &["Acquire Ok", "as Reader"]),
        ("one-number", "was granted while", &["Acquire Ok", "as Permit { slot: 0, of: 3 }"]),
        ("late-answers", "had a budget of", &["Acquire Invoke"]),
    ];
    for (wrong, reason, lines) in cases {
        let output =
            run(&["--store", "memory", "--seconds", "5", "--seed", "42", "--break", wrong]);
        let said = said(&output);
        assert_eq!(output.status.code(), Some(1), "{wrong}: {said}");
        let (_, shown) = said.split_once("## Broken, with seed 42").expect("a verdict");
        assert!(shown.contains(reason), "{wrong}: {said}");
        assert!(lines.iter().all(|line| shown.contains(line)), "{wrong}: {said}");
        let events = shown.lines().filter(|line| line.contains(" us  p")).count();
        assert!((1..=10).contains(&events), "{wrong} is shown by {events} lines: {said}");
    }
}

/// Interrupted or killed in the middle, it leaves no process and no folder.
#[test]
fn a_soak_that_is_interrupted_leaves_nothing_behind() {
    for (signal, code) in [(Signal::SIGINT, Some(130)), (Signal::SIGKILL, None)] {
        let folder = tempfile::tempdir().unwrap();
        let mut command = soak(&["--store", "redis", "--seconds", "600"], folder.path());
        // As at a terminal, where all of a group are interrupted at once.
        let mut running =
            command.process_group(0).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // Its workers are there, and some faults have been.
        let until = Instant::now() + Duration::from_secs(30);
        while processes_of(folder.path()).iter().filter(|line| line.contains(" worker ")).count()
            < 3
        {
            assert!(Instant::now() < until, "no workers");
            thread::sleep(Duration::from_millis(20));
        }
        thread::sleep(Duration::from_secs(4));
        let pid = Pid::from_raw(i32::try_from(running.id()).unwrap());
        if signal == Signal::SIGINT { killpg(pid, signal) } else { kill(pid, signal) }.unwrap();
        assert_eq!(running.wait().unwrap().code(), code, "{signal}");
        nothing_left(folder.path());
    }
}
