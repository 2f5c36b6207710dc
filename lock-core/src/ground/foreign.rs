//! Calling what is not ours where a panic must not go on: under the baton of a key, in the
//! conductor, which serves all keys of a client, or in a store in this process.
//!
//! Wakers are those of the application and its executor. One that panics is told so by the panic
//! hook. Its task is not woken; what else was to be done is done.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::{Context, Waker};

use tokio::sync::oneshot;

/// Calls `code`; whether it came to its end.
pub(crate) fn call(code: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(code)).is_ok()
}

pub(crate) fn wake(waker: Waker) {
    call(|| waker.wake());
}

/// Has `waker` wake the task of `cx` from now on. The one before is the caller's to drop, once it has
/// dropped the mutex.
#[must_use]
pub(crate) fn renew(waker: &mut Waker, cx: &Context<'_>) -> Option<Waker> {
    (!waker.will_wake(cx.waker())).then(|| mem::replace(waker, cx.waker().clone()))
}

/// Drops it. That may take a task with it.
pub(crate) fn end(waker: Waker) {
    call(|| drop(waker));
}

/// Answers a task, which may be gone.
pub(crate) fn answer<T>(reply: oneshot::Sender<T>, answer: T) {
    call(|| drop(reply.send(answer)));
}
