//! Requests, and who polls them.
//!
//! Where a database does its work on a thread of its own, an answer comes over a channel, which may
//! be polled anywhere. So one who is alone with a store polls his request himself: by way of the
//! home runtime it would cost two more hand-offs between threads.
//!
//! As soon as there is a second request, or the first is dropped, they go on at home. While there
//! is one at home, nobody polls his own. So none waits for what the runtime of another caller has
//! to poll, be it blocked or gone, and a request runs to its end whoever drops it.

use std::fmt;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use futures_util::future::BoxFuture;
use tokio::task::{JoinError, JoinHandle};

use crate::backend::io::Home;
use crate::ground::lock;

/// The requests of a store.
#[derive(Debug)]
pub(super) struct Errands {
    home: Arc<Home>,
    polled: Mutex<Polled>,
}

/// Where requests are polled.
enum Polled {
    /// There are none.
    Nowhere,
    /// There is one, and whoever asked polls it.
    ByOne(Arc<dyn GoesHome>),
    /// There are so many, at home.
    AtHome(usize),
}

/// A request that can be polled at home from now on.
trait GoesHome: Send + Sync {
    fn go_home(self: Arc<Self>);

    /// The address by which it is known.
    fn place(&self) -> *const ();
}

/// A request that somebody asked for.
struct Errand<T> {
    errands: Arc<Errands>,
    state: Mutex<State<T>>,
}

enum State<T> {
    // ## Here => Polled
    /// The caller polls it, and is to be woken when that changes.
    Here(BoxFuture<'static, T>, Option<Waker>),
    // ## Polled => (Here | AtHome | Over)
    /// It is being polled by whoever asked, outside of the mutex, as a file system may stand still
    /// in there. It goes home afterwards where somebody has wished for that.
    Polled(Option<AtHome>),
    // ## AtHome => Over
    AtHome(JoinHandle<T>),
    Over,
}

/// Lasts as long as something is polled at home.
#[derive(Debug)]
pub(super) struct AtHome(Arc<Errands>);

impl Errands {
    pub(super) fn new(home: Arc<Home>) -> Arc<Self> {
        Arc::new(Self { home, polled: Mutex::new(Polled::Nowhere) })
    }

    /// Has a request run to its end, whoever drops this.
    ///
    /// # Errors
    ///
    /// Where it panics at home.
    pub(super) fn run<T: Send + 'static>(
        self: &Arc<Self>,
        request: impl Future<Output = T> + Send + 'static,
    ) -> impl Future<Output = Result<T, JoinError>> + Send {
        let state = Mutex::new(State::Here(Box::pin(request), None));
        let errand = Arc::new(Errand { errands: self.clone(), state });
        let is_alone = {
            let mut polled = lock(&self.polled);
            let is_alone = matches!(*polled, Polled::Nowhere);
            if is_alone {
                *polled = Polled::ByOne(errand.clone());
            }
            is_alone
        };
        if !is_alone {
            errand.clone().go_home();
        }
        Asked(errand)
    }

    /// From now on requests are polled at home, for as long as the guard lives. To be held over
    /// what is asked for there, so that it waits for nobody else's runtime.
    pub(super) fn at_home(self: &Arc<Self>) -> AtHome {
        self.enter(std::ptr::null())
    }

    /// As [`at_home`](Self::at_home), of the request at this place.
    fn enter(self: &Arc<Self>, place: *const ()) -> AtHome {
        let other = {
            let mut polled = lock(&self.polled);
            let others = match &*polled {
                Polled::AtHome(others) => *others,
                Polled::Nowhere | Polled::ByOne(_) => 0,
            };
            mem::replace(&mut *polled, Polled::AtHome(others + 1))
        };
        let guard = AtHome(self.clone());
        if let Polled::ByOne(other) = other
            && other.place() != place
        {
            other.go_home();
        }
        guard
    }

    /// The request at this place is polled by nobody any more.
    fn leave(&self, place: *const ()) {
        let mut polled = lock(&self.polled);
        if matches!(&*polled, Polled::ByOne(one) if one.place() == place) {
            let gone = mem::replace(&mut *polled, Polled::Nowhere);
            drop(polled);
            drop(gone);
        }
    }
}

impl Drop for AtHome {
    fn drop(&mut self) {
        let mut polled = lock(&self.0.polled);
        if let Polled::AtHome(count) = &mut *polled {
            *count -= 1;
            if *count == 0 {
                *polled = Polled::Nowhere;
            }
        }
    }
}

impl<T: Send + 'static> Errand<T> {
    /// Goes from one state to the next. What is left of the one before is dropped outside of the
    /// mutex.
    fn to(&self, next: State<T>) -> State<T> {
        mem::replace(&mut *lock(&self.state), next)
    }

    fn poll(&self, cx: &mut Context<'_>) -> Poll<Result<T, JoinError>> {
        match self.to(State::Polled(None)) {
            State::Here(request, waker) => self.poll_here(request, waker, cx),
            State::AtHome(task) => {
                drop(self.to(State::Over));
                self.poll_at_home(task, cx)
            }
            // One that panicked is over.
            State::Polled(_) | State::Over => {
                drop(self.to(State::Over));
                Poll::Pending
            }
        }
    }

    fn poll_here(
        &self,
        mut request: BoxFuture<'static, T>,
        waker: Option<Waker>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<T, JoinError>> {
        // Where it panics, too.
        let is_over = IsOver(self);
        if let Poll::Ready(answer) = request.as_mut().poll(cx) {
            drop(is_over);
            drop(request);
            self.errands.leave(self.place());
            return Poll::Ready(Ok(answer));
        }
        mem::forget(is_over);
        let waker = waker.filter(|waker| waker.will_wake(cx.waker()));
        let waker = waker.unwrap_or_else(|| cx.waker().clone());
        let mut state = lock(&self.state);
        match mem::replace(&mut *state, State::Over) {
            State::Polled(Some(stays)) => {
                let task = self.spawn(request, stays);
                drop(state);
                self.poll_at_home(task, cx)
            }
            _ => {
                *state = State::Here(request, Some(waker));
                Poll::Pending
            }
        }
    }

    fn poll_at_home(
        &self,
        mut task: JoinHandle<T>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<T, JoinError>> {
        let answer = Pin::new(&mut task).poll(cx);
        if answer.is_pending() {
            drop(self.to(State::AtHome(task)));
        }
        answer
    }

    fn spawn(&self, request: BoxFuture<'static, T>, stays: AtHome) -> JoinHandle<T> {
        self.errands.home.spawn(async move {
            let _stays = stays;
            request.await
        })
    }
}

/// A request that is polled is over when this is dropped.
struct IsOver<'a, T: Send + 'static>(&'a Errand<T>);

impl<T: Send + 'static> Drop for IsOver<'_, T> {
    fn drop(&mut self) {
        drop(self.0.to(State::Over));
    }
}

impl<T: Send + 'static> GoesHome for Errand<T> {
    fn go_home(self: Arc<Self>) {
        let stays = self.errands.enter(self.place());
        let mut state = lock(&self.state);
        match mem::replace(&mut *state, State::Over) {
            State::Here(request, waker) => {
                *state = State::AtHome(self.spawn(request, stays));
                drop(state);
                if let Some(waker) = waker {
                    waker.wake();
                }
            }
            State::Polled(wish) => *state = State::Polled(Some(wish.unwrap_or(stays))),
            other => *state = other,
        }
    }

    fn place(&self) -> *const () {
        std::ptr::from_ref(self).cast()
    }
}

/// Somebody waits for it.
struct Asked<T: Send + 'static>(Arc<Errand<T>>);

impl<T: Send + 'static> Future for Asked<T> {
    type Output = Result<T, JoinError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll(cx)
    }
}

impl<T: Send + 'static> Drop for Asked<T> {
    fn drop(&mut self) {
        let is_here = matches!(*lock(&self.0.state), State::Here(..));
        if is_here {
            self.0.clone().go_home();
        } else {
            // It may be one that panicked.
            self.0.errands.leave(self.0.place());
        }
    }
}

impl fmt::Debug for Polled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nowhere => f.write_str("Nowhere"),
            Self::ByOne(_) => f.write_str("ByOne"),
            Self::AtHome(count) => f.debug_tuple("AtHome").field(count).finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_executor::block_on;
    use tokio::sync::oneshot;

    use super::*;

    fn errands() -> Arc<Errands> {
        Errands::new(Home::start("test").expect("a thread"))
    }

    fn name() -> Option<String> {
        std::thread::current().name().map(str::to_owned)
    }

    /// Names the thread that polls it, each time that it is told to go on.
    async fn walk(mut steps: Vec<oneshot::Receiver<()>>) -> Vec<Option<String>> {
        let mut names = vec![name()];
        for step in steps.drain(..) {
            step.await.expect("a step");
            names.push(name());
        }
        names
    }

    fn poll_once<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn one_who_is_alone_polls_it_and_the_next_sends_it_home() {
        let errands = errands();
        assert_eq!(block_on(errands.run(walk(Vec::new()))).unwrap(), [name()]);
        let (go, step) = oneshot::channel();
        let mut first = pin!(errands.run(walk(vec![step])));
        // Its caller stands still from here on.
        assert!(poll_once(first.as_mut()).is_pending());
        let at_home = Some("test".to_owned());
        assert_eq!(
            block_on(errands.run(walk(Vec::new()))).unwrap(),
            std::slice::from_ref(&at_home)
        );
        go.send(()).unwrap();
        assert_eq!(block_on(first).unwrap(), [name(), at_home]);
        // Nobody is left at home.
        loop {
            if block_on(errands.run(walk(Vec::new()))).unwrap() == [name()] {
                return;
            }
        }
    }

    /// A caller that stands still in the middle of its poll keeps nobody from asking.
    #[test]
    fn one_who_is_in_the_middle_of_his_poll_holds_up_nobody_who_asks() {
        let errands = errands();
        let (begun, has_begun) = std::sync::mpsc::channel();
        let (go, goes_on) = std::sync::mpsc::channel::<()>();
        let first = errands.run(async move {
            begun.send(()).unwrap();
            let goes_on = goes_on.recv_timeout(std::time::Duration::from_secs(20));
            goes_on.expect("the other has asked meanwhile");
            tokio::task::yield_now().await;
            name()
        });
        std::thread::scope(|scope| {
            let first = scope.spawn(|| block_on(first));
            has_begun.recv().unwrap();
            let second = errands.run(async { name() });
            go.send(()).unwrap();
            let at_home = Some("test".to_owned());
            assert_eq!(block_on(second).unwrap(), at_home);
            assert_eq!(first.join().unwrap().unwrap(), at_home, "it went home afterwards");
        });
    }

    #[test]
    fn while_something_is_at_home_nobody_polls_his_own() {
        let errands = errands();
        let at_home = [Some("test".to_owned())];
        let (go, step) = oneshot::channel();
        let mut first = pin!(errands.run(walk(vec![step])));
        assert!(poll_once(first.as_mut()).is_pending());
        let stays = errands.at_home();
        assert_eq!(block_on(errands.run(walk(Vec::new()))).unwrap(), at_home);
        go.send(()).unwrap();
        assert_eq!(block_on(first).unwrap(), [&[name()], &at_home[..]].concat());
        assert_eq!(block_on(errands.run(walk(Vec::new()))).unwrap(), at_home);
        drop(stays);
    }

    #[test]
    fn what_is_dropped_runs_to_its_end() {
        let errands = errands();
        let (done, is_done) = oneshot::channel();
        let (go, step) = oneshot::channel::<()>();
        let mut request = Box::pin(errands.run(async move {
            step.await.expect("a step");
            done.send(name()).expect("somebody listens");
        }));
        assert!(poll_once(request.as_mut()).is_pending());
        drop(request);
        go.send(()).unwrap();
        assert_eq!(block_on(is_done).unwrap(), Some("test".to_owned()));
    }

    #[test]
    fn one_that_panics_leaves_the_place_to_the_next() {
        let errands = errands();
        let panics = errands.run(async { std::panic::resume_unwind(Box::new("a bug")) });
        let mut panics: Pin<Box<dyn Future<Output = Result<(), JoinError>>>> = Box::pin(panics);
        let polls = std::panic::AssertUnwindSafe(|| poll_once(panics.as_mut()));
        assert!(std::panic::catch_unwind(polls).is_err());
        drop(panics);
        assert_eq!(block_on(errands.run(walk(Vec::new()))).unwrap(), [name()]);
    }
}
