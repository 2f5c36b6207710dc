//! A serving process beside the first one, seen from both sides.
//!
//! The first process writes the plan as one line to the worker's standard input, where no list of
//! processes shows the URL with its password, and the worker writes its address as one line to its
//! standard output. The worker ends when its input does: so it ends with the first process, however
//! that one ends.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::timeout;

use crate::Trouble;
use crate::options::Plan;
use crate::server::Server;
use crate::signals::Stop;

const START_WITHIN: Duration = Duration::from_secs(20);

/// More than a server takes to stop.
const STOP_WITHIN: Duration = Duration::from_secs(15);

/// A worker as the first process has it.
#[derive(Debug)]
pub(crate) struct Worker {
    address: SocketAddr,
    process: Child,
    input: ChildStdin,
}

impl Worker {
    pub(crate) async fn start(plan: &Plan) -> Result<Self, Trouble> {
        let mut process = Command::new(std::env::current_exe()?)
            .arg("--worker")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let mut input = process.stdin.take().ok_or("a worker has no input")?;
        let output = process.stdout.take().ok_or("a worker has no output")?;
        let mut plan = serde_json::to_string(plan)?;
        plan.push('\n');
        input.write_all(plan.as_bytes()).await?;
        let mut line = String::new();
        let mut output = BufReader::new(output);
        timeout(START_WITHIN, output.read_line(&mut line))
            .await
            .map_err(|_| "a worker did not start in time")??;
        let address = line.trim().parse().map_err(|_| "a worker did not start")?;
        Ok(Self { address, process, input })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Tells it to stop.
    pub(crate) fn stop(self) -> Stopping {
        drop(self.input);
        Stopping { process: self.process }
    }
}

/// A worker that was told to stop.
#[derive(Debug)]
pub(crate) struct Stopping {
    process: Child,
}

impl Stopping {
    /// Waits for its end; answers whether it was a good one. One that takes too long is killed.
    pub(crate) async fn ended(mut self) -> bool {
        match timeout(STOP_WITHIN, self.process.wait()).await {
            Ok(ended) => ended.is_ok_and(|status| status.success()),
            Err(_) => {
                let _ = self.process.kill().await;
                false
            }
        }
    }
}

/// The worker itself.
pub(crate) async fn run() -> Result<(), Trouble> {
    let mut stop = Stop::listen()?;
    let mut input = BufReader::new(tokio::io::stdin());
    let mut line = String::new();
    input.read_line(&mut line).await?;
    let plan: Plan = serde_json::from_str(&line)?;
    let server = Server::start(&plan, (Ipv4Addr::LOCALHOST, 0).into()).await?;
    let mut output = tokio::io::stdout();
    output.write_all(format!("{}\n", server.address()).as_bytes()).await?;
    output.flush().await?;

    tokio::select! {
        () = stop.asked() => {}
        ended = input_ends(&mut input) => ended?,
    }
    if server.stop().await { Ok(()) } else { Err("not every lock was given back".into()) }
}

async fn input_ends(input: &mut (impl AsyncReadExt + Unpin)) -> io::Result<()> {
    let mut ignored = [0; 64];
    while input.read(&mut ignored).await? > 0 {}
    Ok(())
}
