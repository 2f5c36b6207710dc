//! The thread of a connection breaks at the commit: the connection is lost, and its answer with it.
#![cfg(target_os = "linux")]

use std::future::{Future, poll_fn};
use std::path::Path;
use std::pin::pin;
use std::sync::{Arc, Mutex, OnceLock};
use std::task::Poll;

use lock_core::idempotency::CommitError;
use nix::unistd::gettid;
use tracing::instrument::WithSubscriber as _;
use tracing::{Instrument as _, Metadata, Subscriber, span};
use tracing_core::span::Current;

use crate::commits::{committed_unheard, is_settled};
use tests::executions::run;

use crate::payments::{paid, pay};
use crate::support::Shop;

/// A thread to be broken: by a panic where it enters the span of a command, which sqlx has it do.
#[derive(Debug, Clone)]
struct Break(Arc<Mutex<State>>);

#[derive(Debug, Clone, Copy)]
enum State {
    /// ## After => (After | Broken)
    ///
    /// So many commands.
    After(u32),
    /// The thread, by its number.
    Broken(i32),
}

impl Break {
    fn after(commands: u32) -> Self {
        Self(Arc::new(Mutex::new(State::After(commands))))
    }

    /// Waits for an answer, and sees that of the broken thread when that is gone. While it ends,
    /// sqlx takes further commands for it, which nobody ever answers.
    async fn is_seen_by<F: Future>(&self, future: F) -> F::Output {
        let mut future = pin!(future);
        poll_fn(|cx| {
            // It does not break in the middle of a poll.
            let state = self.0.lock().expect("no panic under it");
            if let State::Broken(thread) = *state {
                while Path::new(&format!("/proc/self/task/{thread}")).exists() {
                    std::thread::yield_now();
                }
            }
            let polled: Poll<_> = future.as_mut().poll(cx);
            drop(state);
            polled
        })
        .await
    }

    fn is_broken(&self) -> bool {
        matches!(*self.0.lock().expect("no panic under it"), State::Broken(_))
    }
}

struct Breaks {
    state: Break,
    current: OnceLock<&'static Metadata<'static>>,
}

impl Subscriber for Breaks {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &span::Attributes<'_>) -> span::Id {
        self.current.get_or_init(|| span.metadata());
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, _: &tracing::Event<'_>) {}

    fn enter(&self, _: &span::Id) {
        let thread = std::thread::current();
        if !thread.name().is_some_and(|name| name.starts_with("sqlx-sqlite")) {
            return;
        }
        let mut state = self.state.0.lock().expect("no panic under it");
        match *state {
            State::After(0) => *state = State::Broken(gettid().as_raw()),
            State::After(commands) => {
                *state = State::After(commands - 1);
                return;
            }
            State::Broken(_) => return,
        }
        drop(state);
        panic!("the thread of the connection breaks, as this test wants it");
    }

    fn exit(&self, _: &span::Id) {}

    fn current_span(&self) -> Current {
        let id = span::Id::from_u64(1);
        self.current.get().map_or_else(Current::none, |metadata| Current::new(id, metadata))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_whose_connection_is_lost_is_looked_up() {
    for happened in [true, false] {
        let shop = Shop::new().await;
        let once = shop.process().await;
        let mut execution = run(&once, "k").await;
        let mut tx = shop.begin().await;
        if happened {
            committed_unheard(&mut execution, &mut tx).await;
        } else {
            pay(&mut tx).await;
        }
        // That the transaction is open is seen by one command. The record is completed by another; that
        // it was completed before is seen by two.
        let state = Break::after(if happened { 3 } else { 2 });
        let breaks = Breaks { state: state.clone(), current: OnceLock::new() };
        let commit = async {
            let span = tracing::info_span!("commit");
            execution.commit(tx, paid()).instrument(span).await
        };
        match state.is_seen_by(commit.with_subscriber(breaks)).await {
            Ok(()) => assert!(happened, "it was not committed"),
            Err(CommitError::NotCommitted { source, .. }) => {
                assert!(!happened && matches!(source, sqlx::Error::WorkerCrashed), "{source:?}");
            }
            Err(error) => panic!("{error:?}"),
        }
        assert!(state.is_broken());
        is_settled(&shop, &once, "k", happened).await;
    }
}
