//! Attempts on free keys, and releases of those that nobody waits for, of several claims in one
//! call.
//!
//! A claim that finds few others asking asks alone, and at once. Where more are under way, a task
//! sends those that come then together, two calls at a time. So the more a client asks, the less
//! each request costs the server and the client. A call does what the first few lines of the
//! scripts of one claim do, and nothing else. A claim for which that is not enough is told to ask
//! alone.
//!
//! One server has this. In a cluster the claims of a call would have to be in one slot, and few
//! are. Under sentinels the term has to be looked at for each claim, and so has an application's
//! pool.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use redis::Value;
use tokio::sync::Semaphore;

use super::connection::Connection;
use super::fault;
use super::request::{Call, Failure, NUMBER_BYTES, REQUEST_WITHIN, Sent, Unserved};
use super::session::Session;
use crate::backend::batch::{Batches, Left, Queue, Underway};
use crate::backend::{ClaimId, Fault};
use crate::ground::timeout;
use crate::redis::protocol::names::{Names, Owner};
use crate::redis::protocol::script::MANY;

/// The number of requests under way from which on the next go together. With fewer a call for
/// several costs more than it saves: they wait for it, and a task is woken for them.
const CROWD: usize = 32;

/// Calls for several that are under way at most: while the server works on one, the next is on its
/// way.
const CALLS_MAX: usize = 2;

/// Claims per call at most, so that none holds the server up.
const BATCH_MAX: usize = 64;

/// The request of one claim.
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

/// The answer to it.
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
pub(in crate::redis) struct FreeKeys {
    /// Claims that ask now, alone or with others.
    asking: AtomicUsize,
    batches: Batches<Part, Reply, Sent>,
    post: Arc<Post>,
}

type Reply = Result<Answer, Unserved>;

#[derive(Debug)]
struct Post {
    connection: Arc<Connection>,
    session: Arc<Session>,
}

/// A claim that asks, until this is dropped.
#[derive(Debug)]
pub(in crate::redis) struct Asking<'a>(&'a AtomicUsize);

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl FreeKeys {
    /// `connection`: over which they are sent.
    pub(in crate::redis) fn new(connection: Arc<Connection>, session: Arc<Session>) -> Self {
        let batches = Batches::new(connection.home().clone(), BATCH_MAX, gone);
        let post = Arc::new(Post { connection, session });
        Self { asking: AtomicUsize::new(0), batches, post }
    }

    /// Whether so many ask that the next is to go with those behind it.
    pub(in crate::redis) fn is_crowded(&self) -> bool {
        self.asking.load(Ordering::Relaxed) >= CROWD
    }

    /// One more asks.
    pub(in crate::redis) fn asking(&self) -> Asking<'_> {
        self.asking.fetch_add(1, Ordering::Relaxed);
        Asking(&self.asking)
    }

    /// Asks with the next call.
    pub(in crate::redis) async fn ask(&self, part: Part) -> Reply {
        let _asking = self.asking();
        let mut waiting = self.batches.add(part, |queue| serve(self.post.clone(), queue));
        match timeout::within(REQUEST_WITHIN, &mut waiting).await {
            Ok(answer) => answer,
            Err(_) => match waiting.leave() {
                Left::Answered(answer) => answer,
                Left::Sent(sent) => Err(late(sent)),
                Left::Unsent => {
                    let fault = Failure::Other(fault::timed_out(REQUEST_WITHIN).unsent());
                    Err(Unserved { fault, sent: None })
                }
            },
        }
    }
}

/// Its task is gone.
fn gone(sent: Option<Arc<Sent>>) -> Reply {
    match sent {
        None => Ok(Answer::AskAlone),
        sent => Err(late(sent)),
    }
}

fn late(sent: Option<Arc<Sent>>) -> Unserved {
    Unserved { fault: Failure::Other(fault::timed_out(REQUEST_WITHIN)), sent }
}

async fn serve(post: Arc<Post>, mut queue: Queue<Part, Reply, Sent>) {
    let under_way = Arc::new(Semaphore::new(CALLS_MAX));
    // Never closed.
    while let Ok(one_more) = under_way.clone().acquire_owned().await {
        // Bounded: each claim has at most one request under way.
        let Some(batch) = queue.recv().await else { return };
        let post = post.clone();
        drop(tokio::spawn(async move {
            post.send(&batch).await;
            drop(one_more);
        }));
    }
}

impl Post {
    async fn send(&self, batch: &Underway<Part, Reply, Sent>) {
        let Some(current) = self.connection.at_hand() else {
            let parts = batch.seal(None).into_iter();
            return batch.tell(parts.map(|(at, _)| (at, Ok(Answer::AskAlone))));
        };
        let sent = Some(current.sent());
        let mut parts = batch.seal(sent.clone());
        if parts.is_empty() {
            return;
        }
        // A key that is given back can be taken in the same call.
        parts.sort_by_key(|(_, part)| part.verb != Verb::Give);
        let call = self.call(&parts);
        self.session.count();
        let answer = self.connection.send(current.clone(), &call.command).await;
        let answer = if call.in_full(&answer).is_some() {
            batch.keep_awaited(&mut parts);
            if parts.is_empty() {
                return;
            }
            let Call { script, command, .. } = self.call(&parts);
            self.session.count();
            self.connection.send(current, &script.eval(&command)).await
        } else {
            answer
        };
        let strange = |fault| Unserved { fault: Failure::Other(fault), sent: sent.clone() };
        match answer {
            Ok(Value::Array(answers)) if answers.len() == parts.len() => {
                let each = parts.iter().zip(&answers);
                batch.tell(
                    each.map(|((at, part), answer)| (*at, part.verb.read(answer).map_err(strange))),
                );
            }
            answer => {
                let unserved =
                    answer.err().unwrap_or_else(|| strange(fault::strange("several claims")));
                batch.tell(parts.iter().map(|(at, _)| (*at, Err(unserved.clone()))));
            }
        }
    }

    fn call(&self, parts: &[(usize, Part)]) -> Call {
        let owner =
            |part: &Part| Owner { claim: part.claim, session: &self.session.id, of_quorum: false };
        let bytes = |(_, part): &(usize, Part)| {
            part.names.lock().bytes() + owner(part).bytes() + 3 * NUMBER_BYTES
        };
        let bytes = parts.iter().map(bytes).sum();
        let mut command = MANY.evalsha_with(parts.len(), 1 + 2 * parts.len(), bytes);
        for (_, part) in parts {
            command.arg(part.names.lock());
        }
        command.arg(parts.partition_point(|(_, part)| part.verb == Verb::Give));
        for (_, part) in parts {
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

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
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

    async fn free(port: u16) -> FreeKeys {
        let connection = Connection::plain(route::to_port(port));
        connection.get(REQUEST_WITHIN).await.unwrap();
        FreeKeys::new(connection, Session::of_test())
    }

    /// The keys of a call, and how many of them are given back.
    fn read<'a>(words: &[&'a str]) -> Option<(Vec<&'a str>, usize)> {
        let ["EVALSHA", _, keys, rest @ ..] = words else { return None };
        let keys: usize = keys.parse().unwrap();
        Some((rest[..keys].to_vec(), rest[keys].parse().unwrap()))
    }

    /// The answer to those that take is a token by the key's name, and none for every third.
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
        let free = free(fake::start(serve)).await;
        let verb = |key| if key % 2 == 0 { Verb::Give } else { TAKE };
        let asked = (0..2 * BATCH_MAX + 1).map(|key| free.ask(part(key, verb(key))));
        let still = free.post.connection.home().stand_still();
        let (answers, ()) = tokio::join!(join_all(asked), async { drop(still) });
        for (key, answer) in answers.into_iter().enumerate() {
            let expected = match (verb(key), key % 3) {
                (Verb::Give, _) => Answer::Given,
                (_, 0) => Answer::AskAlone,
                _ => Answer::Taken(1_000 + key as u64),
            };
            assert_eq!(answer.unwrap(), expected, "{key}");
        }
        assert_eq!(calls(&free), 3);
    }

    #[tokio::test]
    async fn claims_ask_alone_until_enough_others_do() {
        let free = free(fake::start(serve)).await;
        let mut asking: Vec<_> = (0..CROWD).map(|_| free.asking()).collect();
        assert!(free.is_crowded());
        asking.pop();
        assert!(!free.is_crowded());
    }

    fn calls(free: &FreeKeys) -> u64 {
        free.post.session.requests()
    }

    /// Waits until as many calls are under way as may be.
    async fn all_are_under_way(free: &FreeKeys) {
        while calls(free) < CALLS_MAX as u64 {
            tokio::task::yield_now().await;
        }
    }

    /// One claim for each call that may be under way; the keys are from this on.
    async fn fill(free: &FreeKeys, from: usize) -> Vec<Reply> {
        let asked = (0..CALLS_MAX).map(async |n| {
            while calls(free) < n as u64 {
                tokio::task::yield_now().await;
            }
            free.ask(part(from + n, TAKE)).await
        });
        join_all(asked).await
    }

    /// A call that is not answered leaves its claims in doubt. A claim that waits for the next call
    /// knows that it was not sent.
    #[tokio::test]
    async fn what_may_have_an_effect_is_told_from_what_was_not_sent() {
        let silent = |words: &[&str]| match read(words) {
            Some(_) => Some(String::new()),
            None => Some("+OK\r\n".into()),
        };
        let free = free(fake::start(silent)).await;
        let behind = async {
            all_are_under_way(&free).await;
            free.ask(part(100, TAKE)).await
        };
        let (sent, behind) = tokio::join!(fill(&free, 0), behind);
        for unserved in sent.into_iter().map(Result::unwrap_err) {
            assert!(unserved.sent.is_some() && !unserved.fault.into_fault().is_unsent());
        }
        match behind {
            // Its turn came once the connection was given up.
            Ok(answer) => assert_eq!(answer, Answer::AskAlone),
            Err(unserved) => {
                assert!(unserved.sent.is_none() && unserved.fault.into_fault().is_unsent());
            }
        }
    }

    #[tokio::test]
    async fn a_claim_that_waits_no_more_is_not_sent() {
        let (answer, answers) = std::sync::mpsc::channel();
        let (asked, seen) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(answers)));
        let says = asked.clone();
        let free = free(fake::start(move |words| {
            if let Some((keys, _)) = read(words) {
                says.lock().unwrap().extend(keys.into_iter().map(str::to_owned));
                seen.lock().unwrap().recv().unwrap();
            }
            serve(words)
        }))
        .await;
        let behind = async {
            all_are_under_way(&free).await;
            let gone = free.ask(part(100, TAKE));
            let waits_no_more = timeout::within(Duration::from_millis(1), gone).await;
            assert!(waits_no_more.is_err());
            (0..=CALLS_MAX).for_each(|_| answer.send(()).unwrap());
            free.ask(part(101, TAKE)).await
        };
        let (first, behind) = tokio::join!(fill(&free, 1), behind);
        assert!(first.into_iter().all(|answer| answer.is_ok()));
        assert_eq!(behind.unwrap(), Answer::Taken(1_101));
        let asked = asked.lock().unwrap();
        assert!(!asked.iter().any(|key| key == "lock:{100}"), "{asked:?}");
    }

    /// The server does not know the script, and says so late.
    #[tokio::test]
    async fn a_claim_that_gave_up_is_not_sent_once_more_with_the_source_of_the_script() {
        let (asked, mut has_asked) = watch::channel(());
        let (answer, answers) = std::sync::mpsc::channel();
        let (taken, answers) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(answers)));
        let says = taken.clone();
        let port = fake::start(move |words| match words {
            ["EVALSHA", ..] => {
                asked.send_replace(());
                answers.lock().unwrap().recv().unwrap();
                Some("-NOSCRIPT No matching script.\r\n".into())
            }
            ["EVAL", rest @ ..] => {
                let words = [&["EVALSHA"], rest].concat();
                let (keys, _) = read(&words)?;
                says.lock().unwrap().extend(keys.into_iter().map(str::to_owned));
                serve(&words)
            }
            _ => Some("+OK\r\n".into()),
        });
        let free = free(port).await;
        let mut gone = Box::pin(free.ask(part(1, TAKE)));
        let mut stays = Box::pin(free.ask(part(2, TAKE)));
        // Both go with one call.
        let still = free.post.connection.home().stand_still();
        let call = async {
            drop(still);
            has_asked.changed().await.unwrap();
        };
        tokio::select! {
            biased;
            _ = &mut gone => panic!("nothing was answered"),
            _ = &mut stays => panic!("nothing was answered"),
            () = call => {}
        }
        drop(gone);
        answer.send(()).unwrap();
        assert_eq!(stays.await.unwrap(), Answer::Taken(1_002));
        assert_eq!(*taken.lock().unwrap(), ["lock:{2}"]);
    }

    #[tokio::test]
    async fn claims_whose_task_is_gone_are_told_whether_they_were_sent() {
        let connection = Connection::plain(route::to_port(fake::start(serve)));
        let sent = connection.get(REQUEST_WITHIN).await.unwrap().sent();
        let batches = Batches::new(connection.home().clone(), 1, gone);
        let ends = |mut queue: Queue<Part, Reply, Sent>| async move {
            let batch = queue.recv().await.expect("a batch");
            batch.seal(Some(sent));
        };
        let first = batches.add(part(1, TAKE), ends);
        let second = batches.add(part(2, TAKE), |_| async {});
        let (first, second) = tokio::join!(first, second);
        assert!(first.unwrap_err().sent.is_some());
        assert_eq!(second.unwrap(), Answer::AskAlone);
    }
}
