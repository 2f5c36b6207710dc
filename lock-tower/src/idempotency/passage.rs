//! From the task that reads a response for its record to the body that its caller reads.
//!
//! The task does not wait for a slow caller, who would hold up the lock. What the caller has not
//! taken yet is kept in one piece, and is no more than the record may be, and a frame.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::{Buf, Bytes};
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};

use crate::BoxError;
use crate::pieces::Pieces;

/// The answer of a body that is asked for a frame.
pub(super) type Polled = Poll<Option<Result<Frame<Bytes>, BoxError>>>;

/// Asks any body for a frame, in one piece.
pub(super) fn poll_body<R>(body: Pin<&mut R>, cx: &mut Context<'_>) -> Polled
where
    R: Body,
    R::Error: Into<BoxError>,
{
    let frame = body.poll_frame(cx).map_err(Into::into);
    frame.map_ok(|frame| frame.map_data(|mut data| data.copy_to_bytes(data.remaining())))
}

/// The tail of a body, after all pieces.
pub(super) enum Tail<R> {
    End(Option<HeaderMap>),
    Broken(BoxError),
    /// More, which the caller reads by itself.
    Rest(Pin<Box<R>>),
}

/// The state that both ends see.
struct Shared<R> {
    /// Not taken by the caller yet.
    fresh: Pieces,
    tail: Option<Tail<R>>,
    is_caller_gone: bool,
    caller: Option<Waker>,
    task: Option<Waker>,
}

type Both<R> = Arc<Mutex<Shared<R>>>;

/// The end where the task puts pieces in. Dropped without a [`Tail`], it breaks the body.
pub(super) struct Inlet<R> {
    both: Both<R>,
}

/// The end where the caller takes pieces out.
pub(super) struct Outlet<R> {
    state: State<R>,
}

enum State<R> {
    // ## Open => (Rest | Ended)
    Open(Both<R>),
    Rest(Pin<Box<R>>),
    Ended,
}

/// A way from one to the other.
pub(super) fn passage<R>() -> (Inlet<R>, Outlet<R>) {
    let shared = Shared {
        fresh: Pieces::default(),
        tail: None,
        is_caller_gone: false,
        caller: None,
        task: None,
    };
    let both = Arc::new(Mutex::new(shared));
    (Inlet { both: Arc::clone(&both) }, Outlet { state: State::Open(both) })
}

fn lock<R>(both: &Both<R>) -> MutexGuard<'_, Shared<R>> {
    // Nothing in here panics halfway through a change.
    both.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Not under the lock, as whoever is woken may run at once.
fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

impl<R> Inlet<R> {
    pub(super) fn pass(&self, data: &Bytes) {
        let mut shared = lock(&self.both);
        if shared.is_caller_gone {
            return;
        }
        shared.fresh.add(data.clone());
        let caller = shared.caller.take();
        drop(shared);
        wake(caller);
    }

    pub(super) fn end(self, tail: Tail<R>) {
        self.put(tail);
    }

    /// The first one counts.
    fn put(&self, tail: Tail<R>) {
        let mut shared = lock(&self.both);
        let mut left = Some(tail);
        if !shared.is_caller_gone && shared.tail.is_none() {
            shared.tail = left.take();
        }
        let caller = shared.caller.take();
        drop(shared);
        // The body of a handler may do anything when it is dropped.
        drop(left);
        wake(caller);
    }

    /// Whether the caller has dropped its body.
    pub(super) fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut shared = lock(&self.both);
        if shared.is_caller_gone {
            return Poll::Ready(());
        }
        shared.task = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl<R> Drop for Inlet<R> {
    fn drop(&mut self) {
        // After an `end` this one is too late: that is there, or the caller has it and looks no
        // more.
        self.put(Tail::Broken("the runtime of this response was shut down".into()));
    }
}

impl<R> Outlet<R> {
    pub(super) fn poll_frame(&mut self, cx: &mut Context<'_>) -> Polled
    where
        R: Body,
        R::Error: Into<BoxError>,
    {
        let tail = match &mut self.state {
            State::Rest(rest) => return poll_body(rest.as_mut(), cx),
            State::Ended => return Poll::Ready(None),
            State::Open(both) => {
                let mut shared = lock(both);
                if shared.fresh.len() > 0 {
                    let data = std::mem::take(&mut shared.fresh).into_bytes();
                    return Poll::Ready(Some(Ok(Frame::data(data))));
                }
                match shared.tail.take() {
                    Some(tail) => tail,
                    None => {
                        shared.caller = Some(cx.waker().clone());
                        return Poll::Pending;
                    }
                }
            }
        };
        self.state = State::Ended;
        match tail {
            Tail::End(trailers) => Poll::Ready(trailers.map(|it| Ok(Frame::trailers(it)))),
            Tail::Broken(error) => Poll::Ready(Some(Err(error))),
            Tail::Rest(mut rest) => {
                let polled = poll_body(rest.as_mut(), cx);
                self.state = State::Rest(rest);
                polled
            }
        }
    }

    pub(super) fn is_end_stream(&self) -> bool
    where
        R: Body,
    {
        match &self.state {
            State::Open(_) => false,
            State::Rest(rest) => rest.is_end_stream(),
            State::Ended => true,
        }
    }

    pub(super) fn size_hint(&self) -> SizeHint
    where
        R: Body,
    {
        match &self.state {
            State::Open(_) => SizeHint::new(),
            State::Rest(rest) => rest.size_hint(),
            State::Ended => SizeHint::with_exact(0),
        }
    }
}

impl<R> Drop for Outlet<R> {
    fn drop(&mut self) {
        let State::Open(both) = &self.state else { return };
        let mut shared = lock(both);
        shared.is_caller_gone = true;
        let (fresh, tail) = (std::mem::take(&mut shared.fresh), shared.tail.take());
        let task = shared.task.take();
        drop(shared);
        drop((fresh, tail));
        wake(task);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::poll;
    use futures_util::task::noop_waker;
    use http_body_util::Full;

    use super::*;

    type Text = Full<Bytes>;

    async fn next(outlet: &mut Outlet<Text>) -> Option<Result<Bytes, String>> {
        let frame = std::future::poll_fn(|cx| outlet.poll_frame(cx)).await?;
        Some(frame.map(|it| it.into_data().unwrap()).map_err(|error| error.to_string()))
    }

    #[tokio::test]
    async fn pieces_come_as_they_were_passed_and_those_that_wait_come_together() {
        let (inlet, mut outlet) = passage::<Text>();
        inlet.pass(&Bytes::from("a"));
        assert_eq!(next(&mut outlet).await.unwrap().unwrap(), "a");
        {
            let waiting = std::pin::pin!(next(&mut outlet));
            let mut waiting = waiting;
            assert!(poll!(&mut waiting).is_pending());
            inlet.pass(&Bytes::from("b"));
            assert_eq!(waiting.await.unwrap().unwrap(), "b");
        }
        inlet.pass(&Bytes::from("c"));
        inlet.pass(&Bytes::from("d"));
        inlet.end(Tail::Rest(Box::pin(Full::from("rest"))));
        assert_eq!(next(&mut outlet).await.unwrap().unwrap(), "cd");
        assert_eq!(next(&mut outlet).await.unwrap().unwrap(), "rest");
        assert!(next(&mut outlet).await.is_none() && outlet.is_end_stream());
    }

    #[tokio::test]
    async fn a_task_that_is_dropped_breaks_the_body_and_does_not_leave_it_open() {
        let (inlet, mut outlet) = passage::<Text>();
        inlet.pass(&Bytes::from("a"));
        drop(inlet);
        assert_eq!(next(&mut outlet).await.unwrap().unwrap(), "a");
        assert!(!outlet.is_end_stream(), "an end would pass for the whole");
        assert!(next(&mut outlet).await.unwrap().unwrap_err().contains("shut down"));
        assert!(next(&mut outlet).await.is_none());
    }

    #[tokio::test]
    async fn an_end_is_one_although_the_task_ends_after_it() {
        let (inlet, mut outlet) = passage::<Text>();
        inlet.end(Tail::End(None));
        assert!(next(&mut outlet).await.is_none());
        assert!(next(&mut outlet).await.is_none());
    }

    #[test]
    fn a_caller_that_goes_away_is_known_and_nothing_is_kept_for_it() {
        let (inlet, outlet) = passage::<Text>();
        let waker = noop_waker();
        let mut cx = Context::from_waker(&waker);
        assert!(inlet.poll_gone(&mut cx).is_pending());
        drop(outlet);
        assert!(inlet.poll_gone(&mut cx).is_ready());
        inlet.pass(&Bytes::from("a"));
        assert_eq!(lock(&inlet.both).fresh.len(), 0);
    }
}
