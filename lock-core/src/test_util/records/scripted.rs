//! A record store that answers as the test says: at once, late, never, or not at all.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use crate::backend::{Fault, FaultKind};
use crate::idempotency::{
    ClaimRecord, Claimed, Fingerprint, Found, Outcome, RecordId, RecordStore, RecordTable, Written,
};
use crate::test_util::{Act, BoxFuture};
use crate::token::FencingToken;

/// A verb of a [`RecordStore`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RecordVerb {
    /// [`RecordStore::peek`].
    Peek,
    /// [`RecordStore::claim`].
    Claim,
    /// [`RecordStore::complete`].
    Complete,
    /// [`RecordStore::abort`].
    Abort,
}

impl RecordVerb {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Peek, Self::Claim, Self::Complete, Self::Abort];
}

/// One request.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RecordCall {
    /// The verb that was asked.
    pub verb: RecordVerb,
    /// The record that it was asked for.
    pub id: RecordId,
    /// Its fate, as the script had it.
    pub act: Act,
    /// The store's answer, as its `Debug` has it, whether the caller got to see it or not; `None`
    /// if it was not reached, or failed by itself.
    pub reply: Option<String>,
}

#[derive(Debug, Default)]
struct Rules {
    next: [VecDeque<Act>; 4],
    always: [Option<Act>; 4],
    calls: Vec<RecordCall>,
}

#[derive(Debug)]
struct Stage {
    rules: Mutex<Rules>,
    /// Counts the openings of each verb's gate.
    gates: [watch::Sender<u64>; 4],
    /// Poked with every call.
    called: watch::Sender<()>,
}

/// The test's hand on [`ScriptedRecords`]. It keeps a record of every call, so it is for
/// thousands of requests, not for millions.
#[derive(Debug, Clone)]
pub struct RecordScript(Arc<Stage>);

impl RecordScript {
    fn rules(&self) -> MutexGuard<'_, Rules> {
        self.0.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on `verb` does this, unless [`next`](Self::next) says otherwise.
    pub fn always(&self, verb: RecordVerb, act: Act) {
        self.rules().always[verb as usize] = Some(act);
    }

    /// One coming request does this; called again, the one after it.
    pub fn next(&self, verb: RecordVerb, act: Act) {
        self.rules().next[verb as usize].push_back(act);
    }

    /// Lets the requests go on that stand at the gate of `verb` now.
    pub fn open(&self, verb: RecordVerb) {
        self.0.gates[verb as usize].send_modify(|opened| *opened += 1);
    }

    /// From now on everything is served, and what stands at a gate goes on.
    pub fn heal(&self) {
        for verb in RecordVerb::ALL {
            self.rules().next[verb as usize].clear();
            self.always(verb, Act::Ok);
            self.open(verb);
        }
    }

    /// The calls of one verb so far, in order.
    #[must_use]
    pub fn calls_of(&self, verb: RecordVerb) -> Vec<RecordCall> {
        self.rules().calls.iter().filter(|call| call.verb == verb).cloned().collect()
    }

    /// Waits until `verb` was called `times` times, counted from the beginning.
    ///
    /// # Cancel safety
    ///
    /// Keeps no state.
    pub async fn called(&self, verb: RecordVerb, times: usize) {
        let mut calls = self.0.called.subscribe();
        while self.calls_of(verb).len() < times {
            // The sender lives as long as `self`.
            drop(calls.changed().await);
        }
    }

    /// Asks `store` as the script says.
    async fn ask<T: fmt::Debug>(
        &self,
        verb: RecordVerb,
        id: RecordId,
        store: impl Future<Output = Result<T, Fault>> + Send,
    ) -> Result<T, Fault> {
        let (number, act, mut gate) = self.begin(verb, id);
        match act {
            Act::Err(kind) => {
                return Err(Fault::new(kind, "the script lets no request through"));
            }
            Act::Stuck => drop(gate.changed().await),
            _ => {}
        }
        let answer = store.await;
        self.rules().calls[number].reply = answer.as_ref().ok().map(|reply| format!("{reply:?}"));
        match act {
            Act::Lost => return Err(Fault::new(FaultKind::Transient, "the script lost the reply")),
            Act::Slow(time) => tokio::time::sleep(time).await,
            Act::Never => drop(gate.changed().await),
            Act::Ok | Act::Err(_) | Act::Stuck => {}
        }
        answer
    }

    fn begin(&self, verb: RecordVerb, id: RecordId) -> (usize, Act, watch::Receiver<u64>) {
        let mut rules = self.rules();
        let always = rules.always[verb as usize].unwrap_or(Act::Ok);
        let act = rules.next[verb as usize].pop_front().unwrap_or(always);
        rules.calls.push(RecordCall { verb, id, act, reply: None });
        // Under the mutex, so that no opening comes between the rule and the gate.
        let gate = self.0.gates[verb as usize].subscribe();
        let number = rules.calls.len() - 1;
        drop(rules);
        self.0.called.send_replace(());
        (number, act, gate)
    }
}

/// A record store whose requests do what its [`RecordScript`] says before and after they reach
/// `S`.
#[derive(Debug, Clone)]
pub struct ScriptedRecords<S> {
    inner: S,
    script: RecordScript,
}

impl<S: RecordStore> ScriptedRecords<S> {
    /// Serves everything, until the script says otherwise.
    #[must_use]
    pub fn new(inner: S) -> (Self, RecordScript) {
        let gates = std::array::from_fn(|_| watch::Sender::new(0));
        let stage = Stage { rules: Mutex::default(), gates, called: watch::Sender::new(()) };
        let script = RecordScript(Arc::new(stage));
        (Self { inner, script: script.clone() }, script)
    }
}

impl<S: RecordStore> RecordStore for ScriptedRecords<S> {
    fn peek(&self, id: RecordId, fingerprint: Fingerprint) -> BoxFuture<'_, Result<Found, Fault>> {
        let store = async move { self.inner.peek(id, fingerprint).await };
        Box::pin(self.script.ask(RecordVerb::Peek, id, store))
    }

    fn claim<'a>(
        &'a self,
        id: RecordId,
        record: &'a ClaimRecord,
    ) -> BoxFuture<'a, Result<Claimed, Fault>> {
        let store = async move { self.inner.claim(id, record).await };
        Box::pin(self.script.ask(RecordVerb::Claim, id, store))
    }

    fn complete<'a>(
        &'a self,
        id: RecordId,
        token: FencingToken,
        outcome: &'a Outcome,
        ttl: Duration,
    ) -> BoxFuture<'a, Result<Written, Fault>> {
        let store = async move { self.inner.complete(id, token, outcome, ttl).await };
        Box::pin(self.script.ask(RecordVerb::Complete, id, store))
    }

    fn abort(&self, id: RecordId, token: FencingToken) -> BoxFuture<'_, Result<Written, Fault>> {
        let store = async move { self.inner.abort(id, token).await };
        Box::pin(self.script.ask(RecordVerb::Abort, id, store))
    }

    fn table(&self) -> Option<&RecordTable> {
        self.inner.table()
    }
}
