//! Claims that ask with one call, and how each of them has its own answer.
//!
//! A claim is put into the batch that goes next, and waits in it. A batch is one allocation for all
//! its claims: they are gathered there, and each finds its answer there. A task at the home of the
//! connections sends one batch after the other.

use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::sync::mpsc;

use super::io::Home;

/// The place where claims are gathered: `P` is the request of one, `A` its answer, and `S` tells over
/// what it was sent.
#[derive(Debug)]
pub(crate) struct Batches<P, A, S> {
    home: Arc<Home>,
    /// Claims per batch at most.
    max: usize,
    /// The answer to one whose task is gone, by where it was sent, if it was.
    none: fn(Option<Arc<S>>) -> A,
    task: Mutex<Option<Task<P, A, S>>>,
}

#[derive(Debug)]
struct Task<P, A, S> {
    batches: mpsc::UnboundedSender<Underway<P, A, S>>,
    /// The one that claims are added to.
    open: Arc<Batch<P, A, S>>,
}

/// The batches that a task sends, in their order.
pub(crate) type Queue<P, A, S> = mpsc::UnboundedReceiver<Underway<P, A, S>>;

impl<P, A, S> Batches<P, A, S> {
    pub(crate) fn new(home: Arc<Home>, max: usize, none: fn(Option<Arc<S>>) -> A) -> Self {
        Self { home, max, none, task: Mutex::default() }
    }

    /// Adds a claim to the next batch of the task. The first claim starts the task with `serve`, and so
    /// does the next after a panic. The task ends with this value.
    pub(crate) fn add<F>(
        &self,
        part: P,
        serve: impl FnOnce(Queue<P, A, S>) -> F,
    ) -> Waiting<P, A, S>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let mut task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(task) = task.as_mut().filter(|task| !task.batches.is_closed()) {
            let part = match task.open.add(part, self.max) {
                Ok(at) => return Waiting { batch: task.open.clone(), at },
                Err(part) => part,
            };
            let underway = self.begin(part, task.open.size());
            let batch = underway.batch.clone();
            // If the task went just now, the claim is told so by what is given back here.
            drop(task.batches.send(underway));
            task.open = batch.clone();
            return Waiting { batch, at: 0 };
        }
        let (batches, queue) = mpsc::unbounded_channel();
        let underway = self.begin(part, 1);
        let batch = underway.batch.clone();
        drop(batches.send(underway));
        drop(self.home.spawn(serve(queue)));
        *task = Some(Task { batches, open: batch.clone() });
        Waiting { batch, at: 0 }
    }

    /// A batch with its first claim, and room for as many as the last one had.
    fn begin(&self, part: P, room: usize) -> Underway<P, A, S> {
        let (mut parts, mut waiting) = (Vec::with_capacity(room), Vec::with_capacity(room));
        parts.push((0, part));
        waiting.push(Waits::New);
        let gathered = Gathered { parts, waiting, is_sealed: false, sent: None };
        Underway { batch: Arc::new(Batch(Mutex::new(gathered))), none: self.none }
    }
}

#[derive(Debug)]
struct Batch<P, A, S>(Mutex<Gathered<P, A, S>>);

#[derive(Debug)]
struct Gathered<P, A, S> {
    /// Each with its place among those that wait.
    parts: Vec<(usize, P)>,
    waiting: Vec<Waits<A>>,
    /// It is on its way: the next go with another.
    is_sealed: bool,
    /// Over which connection, where that is told.
    sent: Option<Arc<S>>,
}

/// A claim that waits for its answer.
#[derive(Debug)]
enum Waits<A> {
    // ## New => (Polled | Answered | Gone)
    New,
    // ## Polled => (Answered | Gone)
    Polled(Waker),
    // ## Answered => Gone
    Answered(A),
    /// It has its answer, or waits no more.
    Gone,
}

impl<P, A, S> Batch<P, A, S> {
    fn gathered(&self) -> MutexGuard<'_, Gathered<P, A, S>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a claim, unless the batch is full or on its way; says at which place.
    fn add(&self, part: P, max: usize) -> Result<usize, P> {
        let mut gathered = self.gathered();
        let at = gathered.parts.len();
        if gathered.is_sealed || at >= max {
            return Err(part);
        }
        gathered.parts.push((at, part));
        gathered.waiting.push(Waits::New);
        Ok(at)
    }

    /// The number of claims that were added.
    fn size(&self) -> usize {
        self.gathered().waiting.len()
    }
}

/// A batch on its way. If its task panics, claims that have no answer yet are told so.
#[derive(Debug)]
pub(crate) struct Underway<P, A, S> {
    batch: Arc<Batch<P, A, S>>,
    none: fn(Option<Arc<S>>) -> A,
}

impl<P, A, S> Underway<P, A, S> {
    /// Takes what is to be sent: what is still waited for, each with its place. From now on others
    /// are added to another batch.
    pub(crate) fn seal(&self, sent: Option<Arc<S>>) -> Vec<(usize, P)> {
        let mut gathered = self.batch.gathered();
        (gathered.is_sealed, gathered.sent) = (true, sent);
        let mut parts = mem::take(&mut gathered.parts);
        parts.retain(|(at, _)| !matches!(gathered.waiting[*at], Waits::Gone));
        parts
    }

    /// The number of claims that were added so far.
    pub(crate) fn size(&self) -> usize {
        self.batch.size()
    }

    /// Keeps of what was sent in vain, and is to be sent once more, what is still waited for. Who
    /// waits no more may have withdrawn its claim by now.
    pub(crate) fn keep_awaited(&self, parts: &mut Vec<(usize, P)>) {
        let gathered = self.batch.gathered();
        parts.retain(|(at, _)| !matches!(gathered.waiting[*at], Waits::Gone));
    }

    /// Tells those at these places what was answered.
    pub(crate) fn tell(&self, answers: impl Iterator<Item = (usize, A)>) {
        let mut gathered = self.batch.gathered();
        let mut told = Vec::with_capacity(gathered.waiting.len());
        for (at, answer) in answers {
            let waits = &mut gathered.waiting[at];
            match mem::replace(waits, Waits::Answered(answer)) {
                Waits::Polled(waker) => told.push(waker),
                Waits::Gone => *waits = Waits::Gone,
                Waits::New | Waits::Answered(_) => {}
            }
        }
        drop(gathered);
        told.into_iter().for_each(Waker::wake);
    }
}

impl<P, A, S> Drop for Underway<P, A, S> {
    fn drop(&mut self) {
        let mut gathered = self.batch.gathered();
        gathered.is_sealed = true;
        let unanswered = |waits: &Waits<A>| matches!(waits, Waits::New | Waits::Polled(_));
        let all = gathered.waiting.iter().enumerate();
        let left: Vec<_> = all.filter(|(_, it)| unanswered(it)).map(|(at, _)| at).collect();
        let sent = gathered.sent.clone();
        drop(gathered);
        if !left.is_empty() {
            self.tell(left.into_iter().map(|at| (at, (self.none)(sent.clone()))));
        }
    }
}

/// The answer to one claim. One that is dropped before its batch goes is not sent.
#[derive(Debug)]
pub(crate) struct Waiting<P, A, S> {
    batch: Arc<Batch<P, A, S>>,
    at: usize,
}

/// The state of a claim that waits no more.
#[derive(Debug)]
pub(crate) enum Left<A, S> {
    /// Its batch was not sent, and will go without it.
    Unsent,
    Sent(Option<Arc<S>>),
    Answered(A),
}

impl<P, A, S> Waiting<P, A, S> {
    /// Waits no more.
    pub(crate) fn leave(&self) -> Left<A, S> {
        let mut gathered = self.batch.gathered();
        match mem::replace(&mut gathered.waiting[self.at], Waits::Gone) {
            Waits::Answered(answer) => Left::Answered(answer),
            _ if gathered.is_sealed => Left::Sent(gathered.sent.clone()),
            _ => Left::Unsent,
        }
    }
}

impl<P, A, S> Future for Waiting<P, A, S> {
    type Output = A;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<A> {
        let mut gathered = self.batch.gathered();
        let waits = &mut gathered.waiting[self.at];
        match mem::replace(waits, Waits::Gone) {
            Waits::Answered(answer) => return Poll::Ready(answer),
            Waits::Polled(mut waker) => {
                waker.clone_from(cx.waker());
                *waits = Waits::Polled(waker);
            }
            Waits::New => *waits = Waits::Polled(cx.waker().clone()),
            Waits::Gone => {}
        }
        Poll::Pending
    }
}

impl<P, A, S> Drop for Waiting<P, A, S> {
    fn drop(&mut self) {
        self.leave();
    }
}
