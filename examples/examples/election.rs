//! One leader of three processes. It is killed with `kill -9`, another leads under a greater token,
//! and what the dead one had sent before is refused.
//!
//! `cargo run -p examples --example election redis://127.0.0.1`, or `zookeeper://127.0.0.1`. Without
//! a URL the three are tasks of this process, and one is aborted.

use std::error::Error;
use std::process::Stdio;
use std::time::Duration;

use lock_core::{FencingToken, LockClient};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;
use tokio::sync::mpsc::UnboundedSender;

/// Waits to lead, then writes as long as it does: its number and its token.
async fn candidate(url: &str, number: usize, write: impl Fn(String)) -> Result<(), Box<dyn Error>> {
    let locks = LockClient::connect(url).await?;
    let election = locks.election("example:election").lease(Duration::from_secs(2));
    let term = election.run_for(format!("process {number}")).await?;
    while term.is_leader() {
        write(format!("{number} {}", term.token()));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

/// A candidate in a process of its own, or in a task; whoever drops it kills it.
fn start(url: &str, number: usize, writes: UnboundedSender<String>) -> tokio::task::JoinHandle<()> {
    let url = url.to_owned();
    tokio::spawn(async move {
        if url.starts_with("memory:") {
            return drop(candidate(&url, number, |line| drop(writes.send(line))).await);
        }
        let mut command = Command::new(std::env::current_exe().expect("a path"));
        command.args([&url, &number.to_string()]).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().expect("a process");
        let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            drop(writes.send(line));
        }
    })
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().unwrap_or_else(|| "memory:election".to_owned());
    if let Some(number) = arguments.next() {
        return candidate(&url, number.parse()?, |write| println!("{write}")).await;
    }
    let (sender, mut writes) = tokio::sync::mpsc::unbounded_channel();
    let processes: Vec<_> = (0..3).map(|number| start(&url, number, sender.clone())).collect();
    let mut next_write = async || {
        let write = writes.recv().await?;
        let (number, token) = write.split_once(' ')?;
        Some((number.parse::<usize>().ok()?, FencingToken::from_stored(token.parse().ok()?)))
    };

    let (killed, late) = next_write().await.ok_or("a write")?;
    let locks = LockClient::connect(&url).await?;
    let leader = locks.election("example:election").leader().await?.ok_or("a leader")?;
    println!("{} leads under token {late}", leader.value);
    // Its write is still on its way when it is killed.
    processes[killed].abort();
    let (next, fence) = loop {
        match next_write().await.ok_or("a write")? {
            (number, token) if number != killed => break (number, token),
            _ => {}
        }
    };
    println!("process {killed} is dead, and process {next} leads under token {fence}");
    // The resource remembers the highest token that it has seen.
    assert!(late < fence, "the write of a dead leader would be accepted");
    println!("what process {killed} had sent before, under token {late}, is refused");
    Ok(())
}
