//! Renewals. Nothing that an application does can hold them up. They go in batches, as many claims
//! at once as have come due.
//!
//! They have a connection of their own, and are sent by a task beside it.
//!
//! A batch does not wait for the one before it, which may hang for as long as its claims have time.
//! Claims of a long lease would otherwise take the time of those of a short one. A batch waits
//! [`APART`], so that a thousand claims of a second share few requests.

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use redis::{Cmd, Pipeline, Value};
use tokio::sync::Semaphore;

use super::connection::Connection;
use super::fault;
use super::request::{self, Failure, NUMBER_BYTES, REQUEST_WITHIN, Unserved};
use super::session::Session;
use crate::backend::ClaimId;
use crate::backend::batch::{Batches, Queue, Underway};
use crate::ground::{clock, timeout};
use crate::redis::protocol::names::{self, Names, Owner};
use crate::redis::protocol::script::RENEW;
use crate::redis::protocol::slots;

/// Claims per request at most, so that none holds the server up.
const BATCH_MAX: usize = 128;

/// Requests that are not full are sent so far apart: short beside a third of the shortest lease.
const APART: Duration = Duration::from_millis(5);

/// Requests under way at most. One is given up after 2 s, so those that are not full are never as
/// many.
const UNDER_WAY_MAX: usize = 512;

/// One claim to renew.
#[derive(Debug, Clone)]
pub(in crate::redis) struct Renew {
    pub(in crate::redis) names: Names,
    pub(in crate::redis) claim: ClaimId,
    pub(in crate::redis) lease_ms: u64,
    /// The number of further tokens that it may have, if others hold its key as well; 0 for none in
    /// any case.
    pub(in crate::redis) tokens: u32,
    /// The time that the store has to answer, so that there is time for another try.
    pub(in crate::redis) within: Duration,
    /// It holds its key with others, as far as it knows.
    pub(in crate::redis) together: bool,
    /// The number of its permit, if it has one. The server may have lost it.
    pub(in crate::redis) permit: Option<u32>,
    /// The slot of its keys in a cluster.
    pub(in crate::redis) slot: u16,
}

/// The server's answer about a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::redis) enum Renewed {
    Held {
        /// The first of its new tokens, if those that it has do not go on.
        first: Option<u64>,
        /// The last of its tokens now, if there are more.
        last: Option<u64>,
        /// Whether others wait; `None` where that was out of reach.
        wanted: Option<bool>,
    },
    Lost,
    /// Something that is no lock is at the key.
    Foreign,
}

impl Renewed {
    /// Reads the answer for one claim.
    fn read(answer: &Value, last: Option<u64>) -> Result<Self, Failure> {
        match answer {
            Value::Int(held @ (1 | 2)) => {
                Ok(Self::Held { first: None, last, wanted: Some(*held == 2) })
            }
            Value::Int(0) => Ok(Self::Lost),
            Value::Int(-1) => Ok(Self::Foreign),
            Value::ServerError(error) => Err(Failure::Server(error.clone().into())),
            Value::Array(answer) => match answer[..] {
                [Value::Int(held @ (1 | 2)), Value::Int(first), Value::Int(last)] => {
                    let token = |token| u64::try_from(token).ok().filter(|token| *token > 0);
                    let (first, last) = (token(first), token(last));
                    Ok(Self::Held { first, last, wanted: Some(held == 2) })
                }
                _ => Err(strange()),
            },
            _ => Err(strange()),
        }
    }

    /// The same for a claim that was asked for by itself, whose other keys were out of reach.
    pub(in crate::redis) fn read_kept(answer: &Value) -> Result<Self, Failure> {
        match Self::read(answer, None)? {
            Self::Held { .. } => Ok(Self::Held { first: None, last: None, wanted: None }),
            answer => Ok(answer),
        }
    }
}

fn strange() -> Failure {
    Failure::Other(fault::strange("a renewal"))
}

/// A claim that is due, with its place in its batch.
type Due = (usize, Renew);

type Answer = Result<Renewed, Failure>;

/// The claims that one call may renew.
#[derive(Debug, Clone, Copy)]
pub(in crate::redis) enum Shape {
    /// Any claims together.
    Whole,
    /// The claims of one slot, those that hold their key with others by themselves: they name more
    /// keys.
    BySlot,
}

/// The place where claims that are due are sent.
#[derive(Debug)]
pub(in crate::redis) struct Renewals {
    batches: Batches<Renew, Answer, Infallible>,
    post: Arc<Post>,
}

/// The means to send requests.
#[derive(Debug)]
struct Post {
    connection: Arc<Connection>,
    session: Arc<Session>,
    shape: Shape,
}

impl Renewals {
    /// `connection`: over which they are sent.
    pub(in crate::redis) fn new(
        connection: Arc<Connection>,
        session: Arc<Session>,
        shape: Shape,
    ) -> Self {
        let late = |_| Err(Failure::Other(fault::timed_out(REQUEST_WITHIN)));
        let batches = Batches::new(connection.home().clone(), BATCH_MAX, late);
        Self { batches, post: Arc::new(Post { connection, session, shape }) }
    }

    /// Over which they are sent.
    pub(in crate::redis) fn connection(&self) -> &Arc<Connection> {
        &self.post.connection
    }

    /// Renews one claim with the next batch.
    // Not an async fn, which would have room for the claim as long as it waits.
    pub(in crate::redis) fn renew(&self, renew: Renew) -> impl Future<Output = Answer> + use<> {
        // A connect takes as long as an answer may. The bound is that of whoever asks. The task
        // that sends the batch may be held up, and the claim is to be tried again meanwhile.
        let within = (2 * renew.within).min(REQUEST_WITHIN).saturating_add(APART);
        let answer = self.batches.add(renew, |queue| serve(self.post.clone(), queue));
        timeout::within(within, answer).map(move |answer| {
            answer.unwrap_or_else(|_| Err(Failure::Other(fault::timed_out(within))))
        })
    }

    /// There is another master.
    pub(in crate::redis) fn follow(&self) {
        self.post.connection.follow();
    }
}

async fn serve(post: Arc<Post>, mut queue: Queue<Renew, Answer, Infallible>) {
    let under_way = Arc::new(Semaphore::new(UNDER_WAY_MAX));
    // Bounded: each claim has at most one renewal under way.
    while let Some(batch) = queue.recv().await {
        // Never closed.
        let Ok(one_more) = under_way.clone().acquire_owned().await else { return };
        let due = batch.seal(None);
        let (post, size) = (post.clone(), due.len());
        drop(tokio::spawn(async move {
            post.send(due, &batch).await;
            drop(one_more);
        }));
        if size < BATCH_MAX {
            clock::alarm_in(APART).await;
        }
    }
}

impl Post {
    async fn send(&self, due: Vec<Due>, batch: &Underway<Renew, Answer, Infallible>) {
        if due.is_empty() {
            return;
        }
        self.session.count();
        let within = due.iter().map(|(_, renew)| renew.within).min().unwrap_or(REQUEST_WITHIN);
        let batches = match self.shape {
            Shape::Whole => vec![due],
            Shape::BySlot => by_slot(due),
        };
        self.send_all(batches, batch, within).await;
    }

    /// One call for these claims. `tracked`: behind one that has the server tell of what it reads.
    fn command(&self, claims: &[Due], tracked: bool) -> Cmd {
        let tag = match (self.shape, claims.first()) {
            (Shape::BySlot, Some((_, renew))) => Some(slots::tag_of(renew.slot)),
            _ => None,
        };
        let together = tag.is_some() && claims.first().is_some_and(|(_, renew)| renew.together);
        let each = if together { 4 } else { 2 };
        let keys = if tag.is_some() { 1 + each * claims.len() } else { claims.len() };
        let bytes = |renew: &Renew| each * renew.names.queue().bytes() + self.owner(renew).bytes();
        let bytes = claims.iter().map(|(_, renew)| bytes(renew) + 2 * NUMBER_BYTES).sum();
        let mut command = RENEW.evalsha_with(keys, 2 + 2 * claims.len(), bytes);
        command.arg(tag.map(names::clock));
        for (_, Renew { names, .. }) in claims {
            command.arg(names.lock()).arg(tag.map(|_| names.queue()));
            if together {
                command.arg(names.held()).arg(names.slots());
            }
        }
        let tokens = claims.iter().map(|(_, renew)| renew.tokens).max();
        command.arg(tokens.unwrap_or_default()).arg(u8::from(tracked));
        for (_, renew) in claims {
            command.arg(self.owner(renew));
            match renew.permit {
                None => command.arg(renew.lease_ms),
                Some(number) => command.arg(format!("{}:{number}", renew.lease_ms)),
            };
        }
        command
    }

    fn owner(&self, renew: &Renew) -> Owner<'_> {
        // Only those of a quorum have none.
        Owner { claim: renew.claim, session: &self.session.id, of_quorum: renew.tokens == 0 }
    }

    /// One call for each batch, all sent together.
    async fn send_all(
        &self,
        batches: Vec<Vec<Due>>,
        batch: &Underway<Renew, Answer, Infallible>,
        within: Duration,
    ) {
        let mut answers = self.call_all(&batches, within, false).await;
        if answers.as_ref().is_ok_and(|answers| answers.iter().any(is_no_script)) {
            // A renewal that is made twice is no harm.
            answers = self.call_all(&batches, within, true).await;
        }
        match answers {
            Ok(answers) => {
                for (claims, answer) in batches.into_iter().zip(answers) {
                    tell(batch, claims, request::served(answer));
                }
            }
            Err(unserved) => {
                for claims in batches {
                    tell(batch, claims, Err(unserved.fault.clone()));
                }
            }
        }
    }

    /// The answer to each; `in_full`: with the source of the script.
    async fn call_all(
        &self,
        batches: &[Vec<Due>],
        within: Duration,
        in_full: bool,
    ) -> Result<Vec<Value>, Unserved> {
        let mut tracked = false;
        let calls = || {
            tracked = self.connection.tracks();
            let mut calls = Pipeline::with_capacity(2 * batches.len());
            for claims in batches {
                let call = self.command(claims, tracked);
                if tracked {
                    calls.cmd("CLIENT").arg("CACHING").arg("YES");
                }
                calls.add_command(if in_full { RENEW.eval(&call) } else { call });
            }
            calls
        };
        let answers = self.connection.call_each(calls, within).await?;
        let of_call = |at: &usize| !tracked || at % 2 == 1;
        let calls = answers.into_iter().enumerate().filter(|(at, _)| of_call(at));
        Ok(calls.map(|(_, answer)| answer).collect())
    }
}

fn by_slot(mut batch: Vec<Due>) -> Vec<Vec<Due>> {
    let group = |renew: &Renew| (renew.slot, renew.together);
    batch.sort_unstable_by_key(|(_, renew)| group(renew));
    let mut slots = Vec::new();
    while let Some((_, last)) = batch.last() {
        let last = group(last);
        let from = batch.partition_point(|(_, renew)| group(renew) < last);
        slots.push(batch.split_off(from));
    }
    slots
}

fn is_no_script(answer: &Value) -> bool {
    let no_script = Some(redis::ServerErrorKind::NoScript);
    matches!(answer, Value::ServerError(error) if error.kind() == no_script)
}

fn tell(
    batch: &Underway<Renew, Answer, Infallible>,
    claims: Vec<Due>,
    answer: Result<Value, Failure>,
) {
    match answer {
        Ok(Value::Array(answers)) if answers.len() == claims.len() + 1 => {
            let last = match answers[0] {
                Value::Int(last) => u64::try_from(last).ok().filter(|last| *last > 0),
                _ => None,
            };
            let each = claims.into_iter().zip(&answers[1..]);
            batch.tell(each.map(|((at, _), answer)| (at, Renewed::read(answer, last))));
        }
        answer => {
            let failure = answer.err().unwrap_or_else(strange);
            batch.tell(claims.into_iter().map(|(at, _)| (at, Err(failure.clone()))));
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future::join_all;
    use tokio::sync::watch;

    use super::super::fake::{self, READ_ONLY};
    use super::super::route;
    use super::*;
    use crate::key::Key;

    fn renew(key: &str, within: Duration) -> Renew {
        let names = Names::new(&Key::new(key).unwrap());
        let claim = ClaimId::from_bits(1);
        Renew {
            names,
            claim,
            lease_ms: 900,
            tokens: 1,
            within,
            together: false,
            permit: None,
            slot: 0,
        }
    }

    fn renewals(port: u16, shape: Shape) -> Renewals {
        let connection = Connection::plain(route::to_port(port));
        Renewals::new(connection, Session::of_test(), shape)
    }

    fn requests(renewals: &Renewals) -> u64 {
        renewals.post.session.requests()
    }

    /// The answer that all claims of a call are held, with the number of them as their last token.
    fn held(words: &[&str]) -> Option<String> {
        let ["EVALSHA", _, keys, rest @ ..] = words else { return Some("+OK\r\n".into()) };
        let claims = (rest.len() - keys.parse::<usize>().unwrap() - 2) / 2;
        Some(format!("*{}\r\n:{claims}\r\n{}", claims + 1, ":1\r\n".repeat(claims)))
    }

    /// A server that answers no renewal, and what is told of each.
    fn silent() -> (u16, watch::Receiver<()>) {
        let (asked, has_asked) = watch::channel(());
        let port = fake::start(move |words| match words {
            ["EVALSHA", ..] => {
                asked.send_replace(());
                Some(String::new())
            }
            words => held(words),
        });
        (port, has_asked)
    }

    #[tokio::test]
    async fn claims_that_come_due_together_share_requests_which_are_full_at_most() {
        let renewals = renewals(fake::start(held), Shape::Whole);
        let keys = (0..2 * BATCH_MAX + 1).map(|n| n.to_string());
        let asked = keys.map(|key| renew(&key, REQUEST_WITHIN));
        let still = renewals.connection().home().stand_still();
        let asked = join_all(asked.map(|renew| renewals.renew(renew)));
        let (answers, ()) = tokio::join!(asked, async { drop(still) });
        let sizes: Vec<_> = answers
            .into_iter()
            .map(|answer| match answer {
                Ok(Renewed::Held { last: Some(last), .. }) => last,
                answer => panic!("{answer:?}"),
            })
            .collect();
        let full = BATCH_MAX as u64;
        assert_eq!(sizes, [vec![full; 2 * BATCH_MAX], vec![1]].concat());
        assert_eq!(requests(&renewals), 3);
    }

    #[tokio::test]
    async fn the_claims_of_each_slot_are_answered_by_the_call_for_that_slot() {
        let renewals = renewals(fake::start(held), Shape::BySlot);
        let slots = [7, 5, 7, 9, 7, 5];
        let asked = slots.map(|slot| Renew { slot, ..renew("k", REQUEST_WITHIN) });
        let still = renewals.connection().home().stand_still();
        let asked = join_all(asked.map(|renew| renewals.renew(renew)));
        let (answers, ()) = tokio::join!(asked, async { drop(still) });
        for (slot, answer) in slots.iter().zip(answers) {
            let last = slots.iter().filter(|other| *other == slot).count() as u64;
            let held = Renewed::Held { first: None, last: Some(last), wanted: Some(false) };
            assert_eq!(answer.unwrap(), held);
        }
        assert_eq!(requests(&renewals), 1);
    }

    /// Another server may be at its address by now, as where a name leads to the new primary.
    #[tokio::test]
    async fn a_connection_to_a_server_that_only_reads_is_left() {
        for answer in [READ_ONLY.to_owned(), format!("*2\r\n:0\r\n{READ_ONLY}")] {
            let former =
                move |words: &[&str]| matches!(words, ["EVALSHA", ..]).then(|| answer.clone());
            let port = fake::start_behind(former, held);
            let renewals = renewals(port, Shape::Whole);
            let refused = renewals.renew(renew("k", REQUEST_WITHIN)).await;
            assert!(refused.is_err(), "{refused:?}");
            let held = renewals.renew(renew("k", REQUEST_WITHIN)).await;
            assert!(matches!(held, Ok(Renewed::Held { .. })), "{held:?}");
        }
    }

    #[tokio::test]
    async fn a_batch_that_hangs_holds_up_none_behind_it() {
        let (silent, mut has_asked) = silent();
        let renewals = renewals(silent, Shape::Whole);
        let long = renewals.renew(renew("long", REQUEST_WITHIN));
        let short = async {
            has_asked.changed().await.unwrap();
            renewals.renew(renew("short", Duration::from_millis(50))).await
        };
        tokio::select! {
            _ = long => panic!("it has 2 s"),
            answer = short => assert!(answer.is_err(), "{answer:?}"),
        }
    }

    /// The task that sends the batches is held up, as by a panic in progress or a subscriber of the
    /// application.
    #[tokio::test]
    async fn a_renewal_ends_in_time_also_where_nothing_is_sent() {
        let renewals = renewals(fake::start(held), Shape::Whole);
        let _still = renewals.connection().home().stand_still();
        let short = renewals.renew(renew("k", Duration::from_millis(50)));
        let answer = tokio::time::timeout(Duration::from_secs(20), short).await;
        assert!(answer.expect("a bound of its own").is_err());
    }

    #[test]
    fn renewals_go_on_in_another_runtime() {
        let runtime =
            || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let renewals = renewals(fake::start(held), Shape::Whole);
        let renew = || renewals.renew(renew("k", REQUEST_WITHIN));
        for _ in 0..2 {
            assert!(runtime().block_on(renew()).is_ok());
        }
    }
}
