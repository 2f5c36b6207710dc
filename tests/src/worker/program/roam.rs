//! Tasks that do what callers do, at random: they take keys, keep them for a moment or past a
//! lease, write, and let go in every way that there is.
//!
//! A key is wanted in one of three ways, by its number: alone, by readers and writers, or as one of
//! three permits. Where a store has no such holders it is wanted alone.
//!
//! A holder writes down when it *knew* that it held ([`Process::holds`]), by asking its guard. So
//! a history tells two holders from one that was stopped: that one asks when it goes on, and is
//! told.

use std::fmt::Display;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fastrand::Rng;
use lock_core::error::ReleaseError;
use lock_core::test_util::{Cut, cut};
use lock_core::{AcquireError, LockClient, LockGuard, Mode};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::Misbehaviour;
use super::session::kind_of;
use crate::clock::now_ns;
use crate::history::{Call, Fun, Process, Recorder, Share};
use crate::resource::FencedRegister;

/// How often a holder asks its guard.
const LOOK: Duration = Duration::from_millis(10);

/// In how many ways keys are wanted, by their number.
const WAYS: u64 = 3;

/// How many may hold a key of permits at once.
const PERMITS: u32 = 3;

/// The most tasks of one client.
const TASKS_OF_CLIENT: u64 = 2;

/// How long its tasks may take to rest before a process says what they do.
const SLOW_REST: Duration = Duration::from_secs(15);

/// What each task does right now, for whoever finds one that does not end.
type Doing = Arc<Mutex<String>>;

/// The plan that all tasks of a process share.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) scope: String,
    pub(super) keys: u64,
    pub(super) lease: Duration,
    /// This process's name in the history.
    pub(super) process: String,
    pub(super) misbehave: Option<Misbehaviour>,
}

/// How many clients so many tasks need.
pub(super) fn clients_of(tasks: u64) -> u64 {
    tasks.div_ceil(TASKS_OF_CLIENT)
}

/// The tasks, until they are told to rest.
#[derive(Debug)]
pub(super) struct Roamers {
    rest: watch::Sender<bool>,
    tasks: JoinSet<()>,
    clients: Vec<LockClient>,
    doing: Vec<Doing>,
}

impl Roamers {
    /// Has `tasks` tasks begin. Their choices follow from `seed`.
    pub(super) fn start(
        plan: Plan,
        clients: Vec<LockClient>,
        (tasks, seed): (u64, u64),
        history: &Recorder,
        register: &FencedRegister,
    ) -> Self {
        let (rest, plan) = (watch::Sender::new(false), Arc::new(plan));
        let (mut running, mut doing) = (JoinSet::new(), Vec::new());
        for (number, locks) in (0..tasks).map(|task| (task, task / TASKS_OF_CLIENT)) {
            let name = format!("{}/{number}", plan.process);
            let locks = &clients[usize::try_from(locks).expect("few")];
            let does = Doing::default();
            doing.push(does.clone());
            let roamer = Roamer {
                does,
                locks: locks.clone(),
                process: history.process(&name),
                name,
                rng: Rng::with_seed(seed.wrapping_add(number)),
                plan: plan.clone(),
                register: register.clone(),
                rest: rest.subscribe(),
            };
            running.spawn(roamer.roam());
        }
        Self { rest, tasks: running, clients, doing }
    }

    /// None, with the clients of those that were.
    pub(super) fn resting(clients: Vec<LockClient>) -> Self {
        let rest = watch::Sender::new(true);
        Self { rest, tasks: JoinSet::new(), clients, doing: Vec::new() }
    }

    /// Has the tasks drop what they wait for and give back what they hold; the clients then.
    pub(super) async fn rest(mut self) -> Vec<LockClient> {
        self.rest.send_replace(true);
        if timeout(SLOW_REST, self.all_end()).await.is_err() {
            for doing in &self.doing {
                eprintln!("{}", doing.lock().unwrap_or_else(PoisonError::into_inner));
            }
            for client in &self.clients {
                eprintln!("{:?} {:?}", client.stats(), client.busy_keys());
            }
            self.all_end().await;
        }
        self.clients
    }

    async fn all_end(&mut self) {
        while let Some(ended) = self.tasks.join_next().await {
            ended.expect("a task that does not panic");
        }
    }
}

struct Roamer {
    locks: LockClient,
    name: String,
    does: Doing,
    process: Process,
    rng: Rng,
    plan: Arc<Plan>,
    register: FencedRegister,
    rest: watch::Receiver<bool>,
}

/// The end of an acquire.
enum Answer {
    Granted(LockGuard),
    Taken,
    Dropped,
    Failed(AcquireError),
}

impl Roamer {
    /// Says what it does from here on.
    fn does(&self, what: impl Display, key: &str) {
        let text = format!("{} {what} {key}", self.name);
        *self.does.lock().unwrap_or_else(PoisonError::into_inner) = text;
    }

    async fn roam(mut self) {
        while !*self.rest.borrow() {
            let pause = self.rng.u64(..10_000);
            sleep(Duration::from_micros(pause)).await;
            let number = self.rng.u64(..self.plan.keys);
            let key = format!("{}-k{number}", self.plan.scope);
            let mode = self.mode_of(number);
            if let Some(guard) = self.acquire(&key, mode).await {
                self.does("keeps", &key);
                let (token, was_lost) = (guard.token().get(), self.keep(&key, &guard).await);
                if mode == Mode::Exclusive {
                    if self.rng.bool() || was_lost {
                        self.write(&key, token).await;
                    }
                    if number % WAYS == 1 && self.rng.bool() {
                        self.downgrade(&key, &guard).await;
                    }
                }
                self.let_go(&key, guard).await;
                self.does("misbehaves", &key);
                self.misbehave(&key, token, mode).await;
            }
        }
    }

    /// In which mode it wants the key of this number, this time.
    fn mode_of(&mut self, number: u64) -> Mode {
        let promised = self.locks.capabilities();
        match number % WAYS {
            1 if promised.shared && self.rng.u8(..3) > 0 => Mode::Shared,
            2 if promised.permits => Mode::Permit { of: PERMITS },
            _ => Mode::Exclusive,
        }
    }

    /// Lets readers in, and is one of them for a moment.
    async fn downgrade(&mut self, key: &str, guard: &LockGuard) {
        if !self.locks.capabilities().shared {
            return;
        }
        self.does("downgrades", key);
        if self.plan.misbehave != Some(Misbehaviour::WriterStays) {
            self.process.downgrades(key, guard.token().get());
        }
        // Lost, or not answered: it is asked again for as long as it holds. So is one that is dropped.
        if self.rng.bool() {
            let _ = guard.downgrade().await;
        } else {
            let _ = cut(Cut::Woken(1), guard.downgrade()).await;
        }
        self.does("keeps what it shares", key);
        self.keep(key, guard).await;
    }

    async fn acquire(&mut self, key: &str, mode: Mode) -> Option<LockGuard> {
        let is_short = self.rng.u8(..4) == 0;
        let wait_ms = self.rng.u64(if is_short { 20..200 } else { 500..3_000 });
        // Some end within a stop of their process, or within a fault.
        let lease = if self.rng.bool() { self.plan.lease / 2 } else { self.plan.lease };
        let way = self.rng.u8(..10);
        self.does(format_args!("acquires, in the way {way}, for {wait_ms} ms,"), key);
        let call = self.process.invoke(Fun::Acquire, key);
        // The time of a try is up to the store.
        let call = if way == 0 { call.begin() } else { call.budget_ms(wait_ms).begin() };
        let builder = self.locks.lock(key).lease(lease).wait(Duration::from_millis(wait_ms));
        let builder = match mode {
            Mode::Shared => builder.shared(),
            Mode::Permit { of } => builder.permits(of),
            _ => builder,
        };
        let answer = async {
            match way {
                0 => Answer::of_try(builder.try_acquire().await),
                1 => match cut(Cut::Woken(self.rng.u32(..4)), builder.acquire()).await {
                    Some(answer) => Answer::of(answer),
                    None => Answer::Dropped,
                },
                2 => {
                    let soon = Duration::from_micros(self.rng.u64(..20_000));
                    let answer = tokio::time::timeout(soon, builder.acquire()).await;
                    answer.map_or(Answer::Dropped, Answer::of)
                }
                _ => Answer::of(builder.acquire().await),
            }
        };
        let answer = tokio::select! {
            biased;
            answer = answer => answer,
            _ = self.rest.wait_for(|rest| *rest) => Answer::Dropped,
        };
        let is_late = self.plan.misbehave == Some(Misbehaviour::LateAnswers) && way != 0;
        if is_late && self.rng.u8(..10) == 0 {
            // One sleep may pass while the process is stopped, which is taken off what it is late.
            for _ in 0..100 {
                sleep(Duration::from_millis(wait_ms + 2_000) / 100).await;
            }
        }
        // The time is read right after the answer, so that nobody is charged for what comes then.
        self.written_down(call.at(now_ns()), answer, mode)
    }

    fn written_down(&self, call: Call, answer: Answer, mode: Mode) -> Option<LockGuard> {
        match answer {
            Answer::Granted(guard) => {
                match (self.plan.misbehave, mode) {
                    (Some(Misbehaviour::OneNumber), Mode::Permit { of }) => {
                        call.shared(Share::Permit { slot: 0, of }).ok(Some(guard.token().get()));
                    }
                    _ => call.granted(mode, &guard),
                }
                return Some(guard);
            }
            Answer::Taken => call.fail(),
            Answer::Dropped => call.info(),
            Answer::Failed(error) if error.is_unavailable() => {
                call.error(&format!("unavailable: {error}")).info();
            }
            Answer::Failed(error) => call.error(kind_of(&error)).fail(),
        }
        None
    }

    /// Keeps the lock for a while; whether it was lost meanwhile.
    async fn keep(&mut self, key: &str, guard: &LockGuard) -> bool {
        // A hold that is longer shows nothing more.
        let lease = self.plan.lease.min(Duration::from_secs(3));
        let lease_us = u64::try_from(lease.as_micros()).expect("a short time");
        let span_us = match self.rng.u8(..160) {
            0 => self.rng.u64(..lease_us * 3 / 2),
            1..10 => self.rng.u64(..40_000),
            _ => self.rng.u64(..3_000),
        };
        let until = Instant::now() + Duration::from_micros(span_us);
        while self.knows_that_it_holds(key, guard) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || *self.rest.borrow() {
                return false;
            }
            tokio::select! {
                biased;
                _ = guard.lost() => {}
                () = sleep(left.min(LOOK)) => {}
            }
        }
        let token = guard.token().get();
        // V3: by now it must have been told.
        match cut(Cut::Woken(1), guard.lost()).await {
            Some(_) => self.process.lost(key, token),
            None => self.process.not_told(key, token),
        }
        true
    }

    fn knows_that_it_holds(&self, key: &str, guard: &LockGuard) -> bool {
        // In this order: whoever holds after it has looked at the clock, held then.
        let now_ns = now_ns();
        let is_held = guard.is_held();
        if is_held {
            self.process.holds(key, guard.token().get(), now_ns);
        }
        is_held
    }

    async fn write(&self, key: &str, token: u64) {
        self.does("writes", key);
        let call = self.process.invoke(Fun::Write, key).token(token).begin();
        match self.register.write(key, token, &self.name).await {
            Ok(accepted) if accepted || self.plan.misbehave == Some(Misbehaviour::NoFence) => {
                call.ok(None);
            }
            Ok(_) => call.fail(),
            Err(_) => call.info(),
        }
    }

    async fn let_go(&mut self, key: &str, guard: LockGuard) {
        self.knows_that_it_holds(key, &guard);
        let token = guard.token().get();
        let call = self.process.invoke(Fun::Release, key).token(token).begin();
        let way = self.rng.u8(..10);
        self.does(format_args!("lets go, in the way {way}, of"), key);
        let answer = match way {
            0 | 1 => {
                drop(guard);
                None
            }
            2 => cut(Cut::Woken(1), guard.release()).await,
            _ => Some(guard.release().await),
        };
        match answer {
            Some(Ok(())) => call.ok(None),
            Some(Err(ReleaseError::NotHeld { .. })) => call.fail(),
            Some(Err(_)) | None => call.info(),
        }
    }

    async fn misbehave(&self, key: &str, token: u64, mode: Mode) {
        match self.plan.misbehave {
            Some(Misbehaviour::TwoHolders) => {
                for _ in 0..5 {
                    self.process.holds(key, token, now_ns());
                    sleep(LOOK).await;
                }
            }
            Some(Misbehaviour::NoFence) if mode == Mode::Exclusive => {
                sleep(LOOK).await;
                self.write(key, token).await;
            }
            Some(_) | None => {}
        }
    }
}

impl Answer {
    fn of(answer: Result<LockGuard, AcquireError>) -> Self {
        answer.map_or_else(Self::Failed, Self::Granted)
    }

    fn of_try(answer: Result<Option<LockGuard>, AcquireError>) -> Self {
        match answer {
            Ok(Some(guard)) => Self::Granted(guard),
            Ok(None) => Self::Taken,
            Err(error) => Self::Failed(error),
        }
    }
}
