//! Attempts on free keys, and releases of those that nobody waits for, of several claims in one call.
//!
//! A claim that finds few others asking asks alone, and at once. Where more are under way, those
//! that come then are sent together by a task, as soon as the call before them is answered: so the
//! more a client asks, the less each of them costs the server and itself. A call does what is done
//! in the first few lines of the scripts of one claim, and nothing else: a claim for which that is
//! not enough is told to ask alone.
//!
//! One server has this. In a cluster the claims of a call would have to be in one slot, which few
//! are; a sentinel's term and an application's pool are looked at for each claim.

use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use redis::Value;
use tokio::runtime::{self, Handle};
use tokio::sync::mpsc;

use super::connection::Connection;
use super::fault;
use super::request::{Call, Failure, REQUEST_WITHIN, Sent, Unserved};
use super::sides::{self, Side, Sides};
use crate::backend::{ClaimId, Fault};
use crate::engine::timeout;
use crate::redis::protocol::names::{Names, Owner};
use crate::redis::protocol::script::MANY;

/// Claims that ask alone at the same time; those beyond go together. With fewer than this a call for
/// several costs more than it saves: they wait for it, and a task is woken for them.
const ALONE_MAX: usize = 16;

/// Claims per call at most, so that none holds the server up.
const BATCH_MAX: usize = 64;

/// What one number and its separators take in a request, at most.
const NUMBER_BYTES: usize = 20;

/// What one claim asks.
#[derive(Debug, Clone)]
pub(in crate::redis) struct Part {
    pub(in crate::redis) names: Names,
    pub(in crate::redis) claim: ClaimId,
    pub(in crate::redis) verb: Verb,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::redis) enum Verb {
    /// Takes a key that is free.
    Take { lease_ms: u64 },
    /// Gives a key back that it holds, and for which it knows of nobody in line.
    Give,
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::redis) enum Answer {
    /// It has the key, with tokens from this one on.
    Taken(u64),
    Given,
    /// Nothing was done: the claim is to ask alone.
    AskAlone,
}

/// The attempts and releases of a client that go together.
#[derive(Debug)]
pub(in crate::redis) struct Batches {
    lines: Sides<Line>,
}

/// The claims of one side.
#[derive(Debug)]
struct Line {
    side: Side,
    alone: AtomicUsize,
    post: Arc<Post>,
    task: Mutex<Option<Task>>,
}

#[derive(Debug)]
struct Task {
    queue: mpsc::UnboundedSender<Letter>,
    runtime: runtime::Id,
}

#[derive(Debug)]
struct Post {
    connection: Arc<Connection>,
    session: Arc<str>,
    requests: Arc<AtomicU64>,
}

/// A claim that asks alone, until this is dropped.
#[derive(Debug)]
pub(in crate::redis) struct Alone<'a>(&'a AtomicUsize);

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Batches {
    /// `connection`: over which a side's are sent.
    pub(in crate::redis) fn new(
        connection: impl Fn(Side) -> Arc<Connection>,
        session: &Arc<str>,
        requests: &Arc<AtomicU64>,
    ) -> Self {
        Self {
            lines: Sides::new(|side| Line {
                side,
                alone: AtomicUsize::new(0),
                post: Arc::new(Post {
                    connection: connection(side),
                    session: session.clone(),
                    requests: requests.clone(),
                }),
                task: Mutex::default(),
            }),
        }
    }

    /// Whether enough others ask alone, so that the next is to go with those behind it.
    pub(in crate::redis) fn is_crowded(&self) -> bool {
        self.lines.here().alone.load(Ordering::Relaxed) >= ALONE_MAX
    }

    /// One more asks alone.
    pub(in crate::redis) fn alone(&self) -> Alone<'_> {
        let alone = &self.lines.here().alone;
        alone.fetch_add(1, Ordering::Relaxed);
        Alone(alone)
    }

    /// Asks with the next call.
    pub(in crate::redis) async fn ask(&self, part: Part) -> Result<Answer, Unserved> {
        let reply = Arc::<Reply>::default();
        self.lines.here().send(Letter { part, reply: reply.clone() });
        match timeout::within(REQUEST_WITHIN, Asking(&reply)).await {
            Ok(answer) => answer,
            Err(_) => reply.give_up(),
        }
    }
}

impl Line {
    /// Hands it to the task, which the first starts; another does where that is gone with its
    /// runtime, and for the conductor where it is of another than this. It ends with this value.
    fn send(&self, mut letter: Letter) {
        let mut task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        let is_mine = |task: &&Task| self.side == Side::Application || sides::is_here(task.runtime);
        if let Some(task) = task.as_ref().filter(is_mine) {
            match task.queue.send(letter) {
                Ok(()) => return,
                Err(mpsc::error::SendError(unsent)) => letter = unsent,
            }
        }
        let (sender, queue) = mpsc::unbounded_channel();
        drop(sender.send(letter));
        let runtime = Handle::current();
        drop(runtime.spawn(serve(self.post.clone(), queue)));
        *task = Some(Task { queue: sender, runtime: runtime.id() });
    }
}

async fn serve(post: Arc<Post>, mut queue: mpsc::UnboundedReceiver<Letter>) {
    // Bounded: each claim has at most one request under way.
    let mut batch = Vec::new();
    while queue.recv_many(&mut batch, BATCH_MAX).await > 0 {
        post.send(mem::take(&mut batch)).await;
    }
}

impl Post {
    async fn send(&self, mut batch: Vec<Letter>) {
        let Some(connection) = self.connection.at_hand() else {
            return batch.iter().for_each(|letter| letter.reply.answer(Ok(Answer::AskAlone)));
        };
        let sent = connection.sent();
        batch.retain(|letter| letter.reply.is_sent(&sent));
        if batch.is_empty() {
            return;
        }
        // What is given back can be taken in the same call.
        batch.sort_by_key(|letter| letter.part.verb != Verb::Give);
        let call = self.call(&batch);
        self.requests.fetch_add(1, Ordering::Relaxed);
        let answer = self.connection.send(connection.clone(), &call.command).await;
        let answer = match call.in_full(&answer) {
            Some(command) => {
                self.requests.fetch_add(1, Ordering::Relaxed);
                self.connection.send(connection, &command).await
            }
            None => answer,
        };
        match answer {
            Ok(Value::Array(answers)) if answers.len() == batch.len() => {
                for (letter, answer) in batch.iter().zip(&answers) {
                    letter.reply.answer(letter.part.verb.read(answer).map_err(|fault| Unserved {
                        fault: Failure::Other(fault),
                        sent: Some(sent.clone()),
                    }));
                }
            }
            answer => {
                let unserved = answer.err().unwrap_or_else(|| Unserved {
                    fault: Failure::Other(fault::strange("several claims")),
                    sent: Some(sent.clone()),
                });
                batch.iter().for_each(|letter| letter.reply.answer(Err(unserved.clone())));
            }
        }
    }

    fn call(&self, batch: &[Letter]) -> Call {
        let owner =
            |part: &Part| Owner { claim: part.claim, session: &self.session, of_quorum: false };
        let bytes = |Letter { part, .. }: &Letter| {
            part.names.lock().bytes() + owner(part).bytes() + 3 * NUMBER_BYTES
        };
        let bytes = batch.iter().map(bytes).sum();
        let mut command = MANY.evalsha_with(batch.len(), 1 + 2 * batch.len(), bytes);
        for Letter { part, .. } in batch {
            command.arg(part.names.lock());
        }
        command.arg(batch.partition_point(|letter| letter.part.verb == Verb::Give));
        for Letter { part, .. } in batch {
            command.arg(owner(part));
            if let Verb::Take { lease_ms } = part.verb {
                command.arg(lease_ms);
            }
        }
        Call { script: &MANY, command, slot: 0 }
    }
}

impl Verb {
    fn read(self, answer: &Value) -> Result<Answer, Fault> {
        match (self, answer) {
            (_, Value::Int(0)) => Ok(Answer::AskAlone),
            (Self::Take { .. }, Value::Int(first)) if *first > 0 => {
                Ok(Answer::Taken(first.unsigned_abs()))
            }
            (Self::Give, Value::Int(1)) => Ok(Answer::Given),
            _ => Err(fault::strange("several claims")),
        }
    }
}

/// One claim on its way.
#[derive(Debug)]
struct Letter {
    part: Part,
    reply: Arc<Reply>,
}

impl Drop for Letter {
    fn drop(&mut self) {
        // The task is gone with its runtime.
        self.reply.abandon();
    }
}

/// What a claim waits for.
#[derive(Debug, Default)]
struct Reply(Mutex<Stage>);

#[derive(Debug)]
enum Stage {
    /// It waits for its call.
    Queued(Waker),
    /// It was sent over this connection.
    Sent(Arc<Sent>, Waker),
    Answered(Result<Answer, Unserved>),
    /// The claim waits no more: it is not to be sent, if it was not yet.
    GivenUp,
}

impl Default for Stage {
    fn default() -> Self {
        Self::Queued(Waker::noop().clone())
    }
}

impl Reply {
    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It is about to be sent; whether it is to be.
    fn is_sent(&self, over: &Arc<Sent>) -> bool {
        let mut stage = self.stage();
        let Stage::Queued(waker) = &mut *stage else { return false };
        let waker = mem::replace(waker, Waker::noop().clone());
        *stage = Stage::Sent(over.clone(), waker);
        true
    }

    fn answer(&self, answer: Result<Answer, Unserved>) {
        let mut stage = self.stage();
        if matches!(*stage, Stage::Answered(_) | Stage::GivenUp) {
            return;
        }
        let before = mem::replace(&mut *stage, Stage::Answered(answer));
        drop(stage);
        if let Stage::Queued(waker) | Stage::Sent(_, waker) = before {
            waker.wake();
        }
    }

    /// Nobody will answer.
    fn abandon(&self) {
        let answer = match &*self.stage() {
            Stage::Queued(_) => Ok(Answer::AskAlone),
            Stage::Sent(sent, _) => Err(Unserved { fault: gone(), sent: Some(sent.clone()) }),
            Stage::Answered(_) | Stage::GivenUp => return,
        };
        self.answer(answer);
    }

    /// The claim waits no more.
    fn give_up(&self) -> Result<Answer, Unserved> {
        match mem::replace(&mut *self.stage(), Stage::GivenUp) {
            Stage::Answered(answer) => answer,
            Stage::Sent(sent, _) => Err(Unserved { fault: gone(), sent: Some(sent.clone()) }),
            Stage::Queued(_) | Stage::GivenUp => {
                let fault = fault::timed_out(REQUEST_WITHIN).unsent();
                Err(Unserved { fault: Failure::Other(fault), sent: None })
            }
        }
    }
}

fn gone() -> Failure {
    Failure::Other(fault::timed_out(REQUEST_WITHIN))
}

/// Until it is answered.
struct Asking<'a>(&'a Reply);

impl Future for Asking<'_> {
    type Output = Result<Answer, Unserved>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut stage = self.0.stage();
        match &mut *stage {
            Stage::Queued(waker) | Stage::Sent(_, waker) => {
                waker.clone_from(cx.waker());
                Poll::Pending
            }
            Stage::Answered(_) | Stage::GivenUp => {
                match mem::replace(&mut *stage, Stage::GivenUp) {
                    Stage::Answered(answer) => Poll::Ready(answer),
                    _ => Poll::Pending,
                }
            }
        }
    }
}

/// Who asked is gone, and its request with it if that was not sent.
impl Drop for Asking<'_> {
    fn drop(&mut self) {
        let mut stage = self.0.stage();
        if matches!(*stage, Stage::Queued(_)) {
            *stage = Stage::GivenUp;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::future::join_all;
    use tokio::sync::watch;

    use super::super::{fake, route};
    use super::*;
    use crate::key::Key;

    fn part(key: usize, verb: Verb) -> Part {
        let names = Names::new(&Key::new(&key.to_string()).unwrap());
        Part { names, claim: ClaimId::from_bits(key as u128), verb }
    }

    const TAKE: Verb = Verb::Take { lease_ms: 900 };

    async fn batches(port: u16) -> Batches {
        let connection = Connection::plain(route::to_port(port), Side::Application);
        connection.get().await.unwrap();
        Batches::new(|_| connection.clone(), &"ab".into(), &Arc::default())
    }

    /// The keys of a call, and how many of them are given back.
    fn read<'a>(words: &[&'a str]) -> Option<(Vec<&'a str>, usize)> {
        let ["EVALSHA", _, keys, rest @ ..] = words else { return None };
        let keys: usize = keys.parse().unwrap();
        Some((rest[..keys].to_vec(), rest[keys].parse().unwrap()))
    }

    /// To those that take: a token by the key's name, and none for every third.
    fn serve(words: &[&str]) -> Option<String> {
        let Some((keys, gives)) = read(words) else { return Some("+OK\r\n".into()) };
        let answers = keys.iter().enumerate().map(|(at, key)| {
            let key: u64 = key["lock:{".len()..key.len() - 1].parse().unwrap();
            let taken = if key.is_multiple_of(3) { 0 } else { 1_000 + key };
            format!(":{}\r\n", if at < gives { 1 } else { taken })
        });
        Some(format!("*{}\r\n{}", keys.len(), answers.collect::<String>()))
    }

    #[tokio::test]
    async fn each_claim_has_its_own_answer_and_full_calls_are_few() {
        let batches = batches(fake::start(serve)).await;
        let verb = |key| if key % 2 == 0 { Verb::Give } else { TAKE };
        let asked = (0..2 * BATCH_MAX + 1).map(|key| batches.ask(part(key, verb(key))));
        for (key, answer) in join_all(asked).await.into_iter().enumerate() {
            let expected = match (verb(key), key % 3) {
                (Verb::Give, _) => Answer::Given,
                (_, 0) => Answer::AskAlone,
                _ => Answer::Taken(1_000 + key as u64),
            };
            assert_eq!(answer.unwrap(), expected, "{key}");
        }
        assert_eq!(batches.lines.here().post.requests.load(Ordering::Relaxed), 3);
    }

    #[tokio::test]
    async fn claims_ask_alone_until_enough_others_do() {
        let batches = batches(fake::start(serve)).await;
        let mut alone: Vec<_> = (0..ALONE_MAX).map(|_| batches.alone()).collect();
        assert!(batches.is_crowded());
        alone.pop();
        assert!(!batches.is_crowded());
    }

    /// A call that is not answered leaves all of its claims in doubt, and one that waits for the next
    /// knows that it was not sent.
    #[tokio::test]
    async fn what_may_have_an_effect_is_told_from_what_was_not_sent() {
        let (asked, mut has_asked) = watch::channel(());
        let batches = batches(fake::start(move |words| match read(words) {
            Some(_) => {
                asked.send_replace(());
                Some(String::new())
            }
            None => Some("+OK\r\n".into()),
        }))
        .await;
        let first = join_all([1, 2].map(|key| batches.ask(part(key, TAKE))));
        let behind = async {
            has_asked.changed().await.unwrap();
            batches.ask(part(3, TAKE)).await
        };
        let (first, behind) = tokio::join!(first, behind);
        for unserved in first.into_iter().map(Result::unwrap_err) {
            assert!(unserved.sent.is_some() && !unserved.fault.into_fault().is_unsent());
        }
        match behind {
            // Its turn came once the connection was given up.
            Ok(answer) => assert_eq!(answer, Answer::AskAlone),
            Err(unserved) => {
                assert!(unserved.sent.is_none() && unserved.fault.into_fault().is_unsent())
            }
        }
    }

    #[tokio::test]
    async fn a_claim_that_waits_no_more_is_not_sent() {
        let (asked, mut has_asked) = watch::channel(Vec::new());
        let (answer, answers) = std::sync::mpsc::channel();
        let answers = Arc::new(Mutex::new(answers));
        let batches = batches(fake::start(move |words| {
            if let Some((keys, _)) = read(words) {
                let keys: Vec<_> = keys.into_iter().map(str::to_owned).collect();
                asked.send_modify(|calls: &mut Vec<_>| calls.push(keys));
                answers.lock().unwrap().recv().unwrap();
            }
            serve(words)
        }))
        .await;
        let behind = async {
            has_asked.changed().await.unwrap();
            let gone = batches.ask(part(2, TAKE));
            let waits_no_more = timeout::within(Duration::from_millis(1), gone).await;
            assert!(waits_no_more.is_err());
            (0..2).for_each(|_| answer.send(()).unwrap());
            batches.ask(part(4, TAKE)).await
        };
        let (first, behind) = tokio::join!(batches.ask(part(1, TAKE)), behind);
        assert_eq!((first.unwrap(), behind.unwrap()), (Answer::Taken(1_001), Answer::Taken(1_004)));
        assert_eq!(*has_asked.borrow(), [["lock:{1}"], ["lock:{4}"]]);
    }

    #[tokio::test]
    async fn claims_whose_task_is_gone_with_its_runtime_are_told_so() {
        let reply = Arc::<Reply>::default();
        drop(Letter { part: part(1, TAKE), reply: reply.clone() });
        assert_eq!(Asking(&reply).await.unwrap(), Answer::AskAlone);
    }
}
