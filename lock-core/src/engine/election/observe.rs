//! The stream of those who lead.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::Stream;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::super::conduct::ROUNDS_MAX;
use super::super::key::{Closed, Shared};
use crate::backend::{BoxFuture, Fault, Follower, Following};
use crate::error::{OperatorError, UnavailableError};
use crate::ground::{FAULT_PAUSES, clock, clock::Alarm};
use crate::key::{Key, KeyError};
use crate::view::Leader;

/// Whichever runtime polls it.
type Timer = Pin<Box<Alarm>>;

/// The leaders, from one to the next; made by [`Election::observe`](crate::Election::observe). A
/// [`Stream`], with a [`next`](Self::next) of its own for those who have no adapters at hand.
///
/// The first item tells who leads now, each further one what has changed since: `None` when nobody
/// leads. An error says that the store does not answer, once, so what was told before may be of the
/// past; the next item comes when it answers again, and tells who leads then. It ends when the
/// client is [shut down](crate::LockClient::shutdown), and after an error that nothing can mend: a
/// bad key, a store without elections, or no thread to be had where there is no runtime.
///
/// A store that pushes tells at once. A leader that died is followed by `None` when its lease ends.
/// Changes in quick succession may be told as one.
///
/// # Cancel safety
///
/// Nothing is lost by dropping a call of `next`. When the stream is dropped, the store is told in
/// the background to push no more; where that is lost, it stops by itself within half a minute.
#[must_use = "streams do nothing unless polled"]
pub struct Observe {
    shared: Arc<Shared>,
    key: Result<Key, KeyError>,
    lease: Duration,
    closed: Pin<Box<Closed>>,
    /// The leader that was told last; nothing after an error.
    told: Option<Option<Leader>>,
    /// Answers that did not come, in a row.
    failures: u32,
    /// That they do not come was told.
    is_out: bool,
    state: State,
}

enum State {
    // ## Start => (Asking | Done)
    Start,
    // ## Asking => (Resting | Pausing)
    Asking(Asked),
    // ## Resting => Asking
    Resting(Rest),
    // ## Pausing => Asking
    Pausing(Box<dyn Follower>, Timer),
    Done,
}

/// A follower that asks. It comes back with the answer.
type Asked = BoxFuture<'static, (Box<dyn Follower>, Result<Following, Fault>)>;

fn ask(mut follower: Box<dyn Follower>) -> Asked {
    Box::pin(async {
        let answer = follower.leader().await;
        (follower, answer)
    })
}

/// A follower that waits to be told, and for no longer than it may. It comes back then, and when
/// this is stopped.
struct Rest {
    rest: BoxFuture<'static, Box<dyn Follower>>,
    stop: oneshot::Sender<()>,
}

impl Rest {
    fn new(mut follower: Box<dyn Follower>, recheck: Duration) -> Self {
        let (stop, stopped) = oneshot::channel();
        let rest = Box::pin(async move {
            let due = clock::alarm_in(recheck);
            tokio::select! {
                () = follower.changed() => {}
                () = due => {}
                _ = stopped => {}
            }
            follower
        });
        Self { rest, stop }
    }
}

impl Observe {
    pub(crate) fn new(shared: Arc<Shared>, key: Result<Key, KeyError>, lease: Duration) -> Self {
        let closed = Box::pin(shared.closed());
        Self {
            shared,
            key,
            lease,
            closed,
            told: None,
            failures: 0,
            is_out: false,
            state: State::Start,
        }
    }

    /// The next item; `None` at the end.
    pub async fn next(&mut self) -> Option<Result<Option<Leader>, OperatorError>> {
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }

    fn begin(&self) -> Result<Asked, OperatorError> {
        let key = self.key.as_ref().map_err(Clone::clone)?;
        if !self.shared.capabilities.election {
            let key = key.clone();
            return Err(OperatorError::Unsupported { key, capability: "election" });
        }
        Ok(ask(self.shared.backend.follow(key, self.lease)))
    }

    /// Nothing can be asked or waited for here.
    fn ends_with(&mut self, fault: Fault) -> Option<Result<Option<Leader>, OperatorError>> {
        if matches!(self.state, State::Done) {
            return None;
        }
        self.leave();
        self.state = State::Done;
        let error = match &self.key {
            Ok(key) => UnavailableError::new(key.clone(), fault).into(),
            Err(error) => error.clone().into(),
        };
        Some(Err(error))
    }

    /// The store has answered; what to tell of it.
    fn answered(
        &mut self,
        follower: Box<dyn Follower>,
        answer: Result<Following, Fault>,
    ) -> Option<Result<Option<Leader>, OperatorError>> {
        let fault = match answer {
            Ok(Following { leader, recheck }) => {
                (self.failures, self.is_out) = (0, false);
                self.state = State::Resting(Rest::new(follower, recheck));
                let is_news = self.told.as_ref() != Some(&leader);
                return is_news.then(|| Ok(self.told.insert(leader).clone()));
            }
            Err(fault) => fault,
        };
        self.failures += 1;
        if self.failures == 1 && fault.is_superseded() {
            // Another server is known: nothing is wrong before it was asked.
            self.state = State::Asking(ask(follower));
            return None;
        }
        let pause = FAULT_PAUSES.pause(self.failures, clock::random_bits());
        self.state = State::Pausing(follower, Box::pin(clock::alarm_in(pause)));
        self.told = None;
        let key = self.key.clone().ok()?;
        let is_news = !std::mem::replace(&mut self.is_out, true);
        is_news.then(|| Err(UnavailableError::new(key, fault).into()))
    }
}

impl Stream for Observe {
    type Item = Result<Option<Leader>, OperatorError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        let lent = match this.shared.lent_runtime() {
            Ok(lent) => lent,
            Err(fault) => return Poll::Ready(this.ends_with(fault)),
        };
        let _entered = lent.as_ref().map(Handle::enter);
        if this.closed.as_mut().poll(cx).is_ready() {
            this.leave();
        }
        for _ in 0..ROUNDS_MAX {
            match std::mem::replace(&mut this.state, State::Done) {
                State::Start => match this.begin() {
                    Ok(request) => this.state = State::Asking(request),
                    Err(error) => return Poll::Ready(Some(Err(error))),
                },
                State::Asking(mut request) => {
                    let Poll::Ready((follower, answer)) = request.as_mut().poll(cx) else {
                        this.state = State::Asking(request);
                        return Poll::Pending;
                    };
                    if let Some(news) = this.answered(follower, answer) {
                        return Poll::Ready(Some(news));
                    }
                }
                State::Resting(mut resting) => {
                    let Poll::Ready(follower) = resting.rest.as_mut().poll(cx) else {
                        this.state = State::Resting(resting);
                        return Poll::Pending;
                    };
                    this.state = State::Asking(ask(follower));
                }
                State::Pausing(follower, mut timer) => {
                    if timer.as_mut().poll(cx).is_pending() {
                        this.state = State::Pausing(follower, timer);
                        return Poll::Pending;
                    }
                    this.state = State::Asking(ask(follower));
                }
                State::Done => return Poll::Ready(None),
            }
        }
        // Pushed without an end, though nothing changes.
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Observe {
    /// Has the store push no more.
    fn leave(&mut self) {
        let last = std::mem::replace(&mut self.state, State::Done);
        if let State::Start | State::Done = last {
            return;
        }
        let leaving = self.shared.leave();
        self.shared.conductor.spawn(async move {
            let _leaving = leaving;
            let mut follower = match last {
                State::Start | State::Done => return,
                State::Asking(request) => request.await.0,
                State::Resting(Rest { rest, stop }) => {
                    drop(stop);
                    rest.await
                }
                State::Pausing(follower, _) => follower,
            };
            // One whose word is lost ends by itself.
            drop(follower.leave().await);
        });
    }
}

impl Drop for Observe {
    fn drop(&mut self) {
        self.leave();
    }
}

impl fmt::Debug for Observe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observe").field("key", &self.key).finish_non_exhaustive()
    }
}
