//! Runtimes of an application that do not come to run anything.

use std::future::{Future, poll_fn, ready};
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::mpsc;
use std::task::Poll;
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::time::{sleep, timeout};

use super::drive::{Asker, Case, LOOK, Process};
use crate::backend::{Attempt, Claim, Fault, Renewal};
use crate::ground::{background, clock};
use crate::test_util::subject::Subject;

/// So many leases of a subject make this hold's: a machine that stands still for a moment, with the
/// runtime that is blocked beside it, is not the store's fault.
const LEASES: u32 = 2;

const TRAP: &str =
    "the runtime that took the key is blocked; do the store's connections live there?";

/// A claim that waits, and its attempt, which somebody began.
type Begun = Pin<Box<dyn Future<Output = (Asker, Result<Attempt, Fault>)> + Send>>;

/// A store keeps its connections off the runtime that took the key: see
/// [`backend::io`](crate::backend::io). While that runtime is blocked, the engine's own thread
/// renews and releases, and goes on with an attempt that was begun there.
///
/// In real time, on threads of its own. The test's runtime is blocked meanwhile, so a server that
/// the test runs is on a thread of its own as well. Nothing is checked where
/// [`Capabilities::in_process`](crate::backend::Capabilities) holds.
pub async fn a_hold_goes_on_while_the_runtime_that_took_it_is_blocked(subject: &dyn Subject) {
    let case = &Case::new(subject, "blocked runtime");
    if case.process().await.capabilities().in_process {
        return;
    }
    let (begin, begun) = mpsc::channel();
    let (gate, opened) = mpsc::channel::<()>();
    thread::scope(|threads| {
        threads.spawn(move || {
            runtime().block_on(async {
                let process = case.process().await;
                let mut holder = process.claim_for(case.lease() * LEASES, "the holder");
                holder.takes().await;
                let next = begun_attempt(process.claim("the next")).await;
                let sent = begin.send((process, holder, next));
                sent.map_err(drop).expect("a conductor");
                // Nothing runs here until the gate is gone.
                let _ = opened.recv();
            });
        });
        let conductor = threads.spawn(move || {
            let _here = background::enter();
            let (process, holder, next) = begun.recv().expect("a hold");
            runtime().block_on(async {
                conduct(case, process, holder, next).await;
                rests(case.soon()).await;
            });
        });
        let conducted = conductor.join();
        drop(gate);
        conducted.unwrap_or_else(|panic| resume_unwind(panic));
    });
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// An attempt that was polled once.
async fn begun_attempt(mut claim: Asker) -> Begun {
    let mut attempt: Begun = Box::pin(async move {
        let answer = claim.claim.attempt().await;
        (claim, answer)
    });
    match poll_fn(|cx| Poll::Ready(attempt.as_mut().poll(cx))).await {
        Poll::Ready(answered) => Box::pin(ready(answered)),
        Poll::Pending => attempt,
    }
}

async fn conduct(case: &Case<'_>, process: Process, mut holder: Asker, next: Begun) {
    let other = case.process().await;
    let mut rival = other.claim("the rival");
    // Longer than what nobody renews would last.
    let end = holder.sent + case.lease() * LEASES * 5 / 2;
    let hold = async {
        while clock::now() < end {
            let renewal = answered(case, "a renewal", holder.renewal()).await;
            if renewal == Renewal::Lost {
                holder.lost(TRAP);
            }
            rival.is_blocked().await;
            sleep(case.lease() / 8).await;
        }
    };
    let what = "an attempt that was begun there";
    let ((), (mut next, answer)) = tokio::join!(hold, answered(case, what, next));
    match answer {
        Ok(Attempt::Blocked { .. }) => {}
        Err(fault) if fault.is_transient() => {}
        answer => panic!("{what} came to {answer:?}"),
    }
    // It may be in doubt still.
    answered(case, "giving up", next.withdrawal()).await;
    answered(case, "a release", holder.releases()).await;
    rival.is_granted(case.soon()).await;
    rival.releases().await;
    case.is_free(&other).await;
    drop(process);
}

/// Waits for the tasks of this runtime, for so long at most: what a store ends behind an answer would
/// end with the runtime, and be there for its lease.
async fn rests(within: Duration) {
    let runtime = Handle::current().metrics();
    let rests = async {
        while runtime.num_alive_tasks() > 0 {
            sleep(LOOK).await;
        }
    };
    drop(timeout(within, rests).await);
}

async fn answered<T>(case: &Case<'_>, what: &str, verb: impl Future<Output = T>) -> T {
    let within = case.soon();
    match timeout(within, verb).await {
        Ok(answer) => answer,
        Err(_) => panic!("{what} was not answered within {within:?}: {TRAP}"),
    }
}
