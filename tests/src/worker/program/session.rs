//! The commands.

use std::collections::HashMap;
use std::time::Duration;

use crate::history::{Fun, Process, Recorder};
use crate::resource::FencedRegister;
use crate::support::let_in;
use crate::worker::Reply;
use lock_core::error::ReleaseError;
use lock_core::memory::Memory;
use lock_core::{AcquireError, LockClient, LockGuard};
use serde_json::json;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::roam::{self, Roamers};
use super::{Arguments, contend};

/// The state of the worker: its holds, and all that it has them with.
pub(super) struct Session {
    arguments: Arguments,
    client: LockClient,
    history: Recorder,
    process: Process,
    /// Connected when first needed, so that a proxy before the lock service sees only the lock.
    resource: Option<FencedRegister>,
    holds: HashMap<String, Hold>,
    last: String,
    floods: Vec<(LockClient, JoinHandle<()>)>,
    roamers: Option<Roamers>,
}

struct Hold {
    guard: Option<LockGuard>,
    token: u64,
    /// Ends with the loss as an answer, as soon as it is told.
    loss: JoinHandle<Reply>,
}

/// How long what was let go may take: a request that is not answered, and the ones behind it.
const REST: Duration = Duration::from_secs(8);

type Outcome = Result<Reply, Reply>;

impl Session {
    pub(super) fn new(arguments: Arguments, client: LockClient, history: Recorder) -> Self {
        let process = history.process(&arguments.process);
        Session {
            arguments,
            client,
            history,
            process,
            resource: None,
            holds: HashMap::new(),
            last: String::new(),
            floods: Vec::new(),
            roamers: None,
        }
    }

    /// Carries one line out.
    pub(super) async fn command(&mut self, line: &str) -> Reply {
        let words: Vec<&str> = line.split_whitespace().collect();
        let outcome = match words[..] {
            ["acquire", key, wait] => self.acquire(key, wait, None).await,
            ["acquire", key, wait, lease] => self.acquire(key, wait, Some(lease)).await,
            ["try", key] => self.acquire(key, "0", None).await,
            ["try", key, lease] => self.acquire(key, "0", Some(lease)).await,
            ["release"] => self.release("").await,
            ["release", key] => self.release(key).await,
            ["drop"] => self.drop_guard(""),
            ["drop", key] => self.drop_guard(key),
            ["is_held"] => self.is_held(""),
            ["is_held", key] => self.is_held(key),
            ["lost"] => self.lost("").await,
            ["lost", key] => self.lost(key).await,
            ["write"] => self.write("").await,
            ["write", key] => self.write(key).await,
            ["block", span] => millis(span).map(|span| {
                std::thread::sleep(span);
                Reply::done()
            }),
            ["flood", key, n, wait] => self.flood(key, n, wait).await,
            ["contend", key, tasks, rounds, hold_us, wait] => {
                self.contend(key, [tasks, rounds, hold_us, wait]).await
            }
            ["roam", scope, keys, tasks, seed] => self.roam(scope, [keys, tasks, seed]).await,
            ["rest"] => self.rest().await,
            ["stats"] => Ok(self.stats()),
            ["shutdown", grace] => match millis(grace) {
                Ok(grace) => Ok(shutdown(&self.client, grace).await),
                Err(reply) => Err(reply),
            },
            _ => Err(Reply::failed("usage", format!("unknown command {line:?}"))),
        };
        outcome.unwrap_or_else(|reply| reply)
    }

    async fn acquire(&mut self, key: &str, wait: &str, lease: Option<&str>) -> Outcome {
        let wait = millis(wait)?;
        let mut builder = self.client.lock(key).wait(wait);
        if let Some(lease) = lease {
            builder = builder.lease(millis(lease)?);
        }
        let budget_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        let call = self.process.invoke(Fun::Acquire, key).budget_ms(budget_ms).begin();
        let granted = match wait.is_zero() {
            true => builder.try_acquire().await,
            false => builder.acquire().await.map(Some),
        };
        match granted {
            Ok(Some(guard)) => {
                let token = guard.token().get();
                call.granted(self.client.defaults().mode, &guard);
                self.keep(key, guard);
                Ok(Reply { token: Some(token), ..Reply::done() })
            }
            Ok(None) => {
                call.fail();
                Err(Reply::failed("busy", "the key is held"))
            }
            Err(error) => {
                let unknown = error.is_unavailable();
                if unknown {
                    call.info()
                } else {
                    call.fail()
                }
                Err(Reply::failed(kind_of(&error), error))
            }
        }
    }

    /// Keeps the guard and listens for its loss.
    fn keep(&mut self, key: &str, guard: LockGuard) {
        let token = guard.token().get();
        let (lost, process, name) = (guard.lost(), self.process.clone(), key.to_owned());
        let loss = tokio::spawn(async move {
            let error = lost.await;
            process.lost(&name, token);
            let message = Some(format!("{:?}", error.reason()));
            Reply { token: Some(token), message, ..Reply::done() }
        });
        self.holds.insert(key.to_owned(), Hold { guard: Some(guard), token, loss });
        key.clone_into(&mut self.last);
    }

    fn hold(&mut self, key: &str) -> Result<(String, &mut Hold), Reply> {
        let key = if key.is_empty() { self.last.clone() } else { key.to_owned() };
        match self.holds.get_mut(&key) {
            Some(hold) => Ok((key, hold)),
            None => Err(Reply::failed("usage", format!("nothing was acquired as {key:?}"))),
        }
    }

    async fn release(&mut self, key: &str) -> Outcome {
        let (key, hold) = self.hold(key)?;
        let token = hold.token;
        let guard = hold.guard.take().ok_or(Reply::failed("not_held", "given back before"))?;
        let call = self.process.invoke(Fun::Release, &key).token(token).begin();
        match guard.release().await {
            Ok(()) => {
                call.ok(None);
                Ok(Reply { token: Some(token), ..Reply::done() })
            }
            Err(error @ ReleaseError::NotHeld { .. }) => {
                call.fail();
                Err(Reply { token: Some(token), ..Reply::failed("not_held", error) })
            }
            Err(error) => {
                call.info();
                Err(Reply { token: Some(token), ..Reply::failed("unavailable", error) })
            }
        }
    }

    fn drop_guard(&mut self, key: &str) -> Outcome {
        let (key, hold) = self.hold(key)?;
        let (token, guard) = (hold.token, hold.guard.take());
        let call = self.process.invoke(Fun::Release, &key).token(token).begin();
        drop(guard);
        call.info();
        Ok(Reply { token: Some(token), ..Reply::done() })
    }

    fn is_held(&mut self, key: &str) -> Outcome {
        let (_, hold) = self.hold(key)?;
        let held = hold.guard.as_ref().is_some_and(|guard| guard.is_held());
        Ok(Reply { held: Some(held), token: Some(hold.token), ..Reply::done() })
    }

    async fn lost(&mut self, key: &str) -> Outcome {
        let (_, hold) = self.hold(key)?;
        (&mut hold.loss).await.map_err(|_| Reply::failed("usage", "the loss was told before"))
    }

    /// Writes with the token of the hold, even if it is lost: that is what a stale holder does.
    async fn write(&mut self, key: &str) -> Outcome {
        let (key, hold) = self.hold(key)?;
        let token = hold.token;
        let resource = self.resource().await?;
        let call = self.process.invoke(Fun::Write, &key).token(token).begin();
        match resource.write(&key, token, &self.arguments.process).await {
            Ok(accepted) => {
                if accepted {
                    call.ok(None)
                } else {
                    call.fail()
                }
                Ok(Reply { accepted: Some(accepted), token: Some(token), ..Reply::done() })
            }
            Err(error) => {
                call.info();
                self.resource = None;
                Err(Reply::failed("unavailable", error))
            }
        }
    }

    async fn resource(&mut self) -> Result<FencedRegister, Reply> {
        if let Some(resource) = &self.resource {
            return Ok(resource.clone());
        }
        let url = self.arguments.resource_url();
        let url = url.ok_or(Reply::failed("usage", "give --resource a Redis"))?;
        let resource = FencedRegister::connect(url).await;
        let resource = resource.map_err(|error| Reply::failed("unavailable", error))?;
        self.resource = Some(resource.clone());
        Ok(resource)
    }

    /// `n` clients, as of as many processes, each with one waiter. All die with this process.
    async fn flood(&mut self, key: &str, n: &str, wait: &str) -> Outcome {
        let wait = millis(wait)?;
        for _ in 0..number(n)? {
            let client = let_in(|| self.arguments.client()).await;
            let client = client.map_err(|error| Reply::failed("unavailable", error))?;
            let acquire = client.lock(key).wait(wait).acquire();
            let waiter = tokio::spawn(async move {
                if let Ok(guard) = acquire.await {
                    guard.lost().await;
                }
            });
            self.floods.push((client, waiter));
        }
        Ok(Reply::done())
    }

    async fn contend(&mut self, key: &str, numbers: [&str; 4]) -> Outcome {
        let [tasks, rounds, hold_us, wait] = numbers;
        let plan = contend::Plan {
            key: key.to_owned(),
            tasks: number(tasks)?,
            rounds: number(rounds)?,
            hold: Duration::from_micros(number(hold_us)?),
            wait: millis(wait)?,
            process: self.arguments.process.clone(),
        };
        let resource = match self.arguments.resource_url() {
            Some(_) => Some(self.resource().await?),
            None => None,
        };
        let counts = contend::run(&plan, &self.client, &self.history, resource.as_ref()).await;
        Ok(Reply { value: Some(json!(counts)), ..Reply::done() })
    }

    async fn roam(&mut self, scope: &str, numbers: [&str; 3]) -> Outcome {
        let [keys, tasks, seed] = numbers;
        let (keys, tasks, seed) = (number(keys)?, number(tasks)?, number(seed)?);
        let mut clients = match self.roamers.take() {
            Some(roamers) => roamers.rest().await,
            None => vec![self.client.clone()],
        };
        for _ in clients.len() as u64..roam::clients_of(tasks) {
            let client = self.arguments.first_client().await;
            clients.push(client.map_err(|error| Reply::failed("unavailable", error))?);
        }
        let plan = roam::Plan {
            scope: scope.to_owned(),
            keys,
            lease: Duration::from_millis(self.arguments.lease_ms),
            process: self.arguments.process.clone(),
            misbehave: self.arguments.misbehave,
        };
        let register = self.resource().await?;
        let roamers = Roamers::start(plan, clients, (tasks, seed), &self.history, &register);
        self.roamers = Some(roamers);
        Ok(Reply::done())
    }

    /// Has the tasks of `roam` rest. They should leave nothing; the answer has what they left.
    async fn rest(&mut self) -> Outcome {
        let Some(roamers) = self.roamers.take() else {
            return Err(Reply::failed("usage", "nobody roams"));
        };
        let clients = roamers.rest().await;
        let busy = || -> usize { clients.iter().map(|client| client.stats().keys).sum() };
        let until = Instant::now() + REST;
        while busy() > 0 && Instant::now() < until {
            sleep(Duration::from_millis(2)).await;
        }
        let held: usize = clients.iter().map(|client| client.stats().held).sum();
        let waiters: usize = clients.iter().map(|client| client.stats().waiters).sum();
        let tasks = Handle::current().metrics().num_alive_tasks();
        // The memory of this process goes with it, so nobody else can look.
        let memory = self.arguments.url.strip_prefix("memory:");
        let left = memory.map_or(0, |name| Memory::named(name).keys());
        let value = json!({
            "keys": busy(), "waiters": waiters, "held": held, "left": left, "tasks": tasks,
        });
        // The clients go on: a soak is of long lives.
        self.roamers = Some(Roamers::resting(clients));
        Ok(Reply { value: Some(value), ..Reply::done() })
    }

    fn stats(&self) -> Reply {
        let stats = self.client.stats();
        let value = json!({
            "acquired": stats.acquired,
            "handoffs_local": stats.handoffs_local,
            "handoffs_remote": stats.handoffs_remote,
            "timeouts": stats.timeouts,
            "lost": stats.lost,
            "renewals": stats.renewals,
            "store_requests": stats.store_requests,
            "keys": stats.keys,
            "waiters": stats.waiters,
            "held": stats.held,
        });
        Reply { value: Some(value), ..Reply::done() }
    }
}

/// Shuts the client down and answers with its report.
pub(super) async fn shutdown(client: &LockClient, grace: Duration) -> Reply {
    let report = client.shutdown(grace).await;
    Reply { message: Some(format!("{report:?}")), ..Reply::done() }
}

pub(super) fn kind_of(error: &AcquireError) -> &'static str {
    match error {
        AcquireError::Timeout(_) => "timeout",
        AcquireError::Overloaded(_) => "overloaded",
        AcquireError::Unavailable(_) => "unavailable",
        AcquireError::Rejected(_) => "rejected",
        AcquireError::Closed(_) => "closed",
        _ => "other",
    }
}

fn number(word: &str) -> Result<u64, Reply> {
    word.parse().map_err(|_| Reply::failed("usage", format!("{word:?} is no number")))
}

fn millis(word: &str) -> Result<Duration, Reply> {
    number(word).map(Duration::from_millis)
}
