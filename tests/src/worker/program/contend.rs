//! Many tasks of this process on one key, with a history of all that they do.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::history::{Fun, Process, Recorder};
use crate::resource::FencedRegister;
use lock_core::LockClient;
use serde::Serialize;
use tokio::time::sleep;

use super::session::kind_of;

/// The work of each task, done `rounds` times.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) key: String,
    pub(super) tasks: u64,
    pub(super) rounds: u64,
    pub(super) hold: Duration,
    pub(super) wait: Duration,
    pub(super) process: String,
}

/// The counts of what came of it.
#[derive(Debug, Default, Serialize)]
pub(super) struct Counts {
    acquired: u64,
    writes_accepted: u64,
    writes_refused: u64,
    released: u64,
    not_held: u64,
    /// By kind of error.
    errors: BTreeMap<&'static str, u64>,
}

/// Runs the tasks `process/0`, `process/1` … to their end.
pub(super) async fn run(
    plan: &Plan,
    client: &LockClient,
    history: &Recorder,
    resource: Option<&FencedRegister>,
) -> Counts {
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..plan.tasks {
        let process = history.process(format!("{}/{task}", plan.process));
        let (plan, client, resource) = (plan.clone(), client.clone(), resource.cloned());
        tasks.spawn(async move {
            let mut counts = Counts::default();
            for _ in 0..plan.rounds {
                round(&plan, &client, &process, resource.as_ref(), &mut counts).await;
            }
            counts
        });
    }
    let mut total = Counts::default();
    while let Some(counts) = tasks.join_next().await {
        total.add(counts.expect("a task that does not panic"));
    }
    total
}

async fn round(
    plan: &Plan,
    client: &LockClient,
    process: &Process,
    resource: Option<&FencedRegister>,
    counts: &mut Counts,
) {
    let budget_ms = u64::try_from(plan.wait.as_millis()).unwrap_or(u64::MAX);
    let call = process.invoke(Fun::Acquire, &plan.key).budget_ms(budget_ms).begin();
    let guard = match client.lock(plan.key.as_str()).wait(plan.wait).acquire().await {
        Ok(guard) => guard,
        Err(error) => {
            *counts.errors.entry(kind_of(&error)).or_default() += 1;
            if error.is_unavailable() {
                call.info()
            } else {
                call.fail()
            }
            return;
        }
    };
    let token = guard.token().get();
    call.granted(client.defaults().mode, &guard);
    counts.acquired += 1;
    sleep(plan.hold).await;
    if let Some(resource) = resource {
        let call = process.invoke(Fun::Write, &plan.key).token(token).begin();
        match resource.write(&plan.key, token, &plan.process).await {
            Ok(true) => {
                counts.writes_accepted += 1;
                call.ok(None);
            }
            Ok(false) => {
                counts.writes_refused += 1;
                call.fail();
            }
            Err(_) => call.info(),
        }
    }
    let call = process.invoke(Fun::Release, &plan.key).token(token).begin();
    match guard.release().await {
        Ok(()) => {
            counts.released += 1;
            call.ok(None);
        }
        Err(error) if error.is_not_held() => {
            counts.not_held += 1;
            call.fail();
        }
        Err(_) => call.info(),
    }
}

impl Counts {
    fn add(&mut self, other: Counts) {
        self.acquired += other.acquired;
        self.writes_accepted += other.writes_accepted;
        self.writes_refused += other.writes_refused;
        self.released += other.released;
        self.not_held += other.not_held;
        for (kind, count) in other.errors {
            *self.errors.entry(kind).or_default() += count;
        }
    }
}
