//! A thread of ours, with a small runtime.

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::thread;

use tokio::runtime::{Handle, Runtime};

thread_local! {
    static OURS: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread, and so its runtime, is one of ours, and not the application's.
pub(crate) fn is_here() -> bool {
    OURS.get()
}

/// Has `work` done on a thread of this name, by `runtime`, which ends with it.
///
/// # Errors
///
/// Where there is no thread to be had. `work` is dropped then, and nothing of it was polled.
pub(crate) fn start<F, W>(name: &str, runtime: Runtime, work: W) -> io::Result<Handle>
where
    F: Future,
    W: FnOnce() -> F + Send + 'static,
{
    let handle = runtime.handle().clone();
    let mut runtime = Unused(Some(runtime));
    let serve = move || {
        OURS.set(true);
        if let Some(runtime) = runtime.0.take() {
            drop(runtime.block_on(work()));
        }
    };
    thread::Builder::new().name(name.to_owned()).spawn(serve)?;
    Ok(handle)
}

/// A runtime that may be dropped by whoever asked for its thread. Where that is inside of another
/// runtime, a plain drop would wait for blocking work, and panic.
struct Unused(Option<Runtime>);

impl Drop for Unused {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
