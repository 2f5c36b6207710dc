#![allow(unused)]

use lock_core::{AcquireError, distributed_lock};

#[distributed_lock]
async fn text() -> String {
    String::new()
}

#[distributed_lock]
async fn nothing() {}

struct AppError;

#[distributed_lock]
async fn no_conversion() -> Result<(), AppError> {
    Ok(())
}

// An `on_busy` that uses an argument has no answer for a lock that is lost later.
#[distributed_lock(key = "k", on_busy = |_| name)]
async fn moved(name: String) -> String {
    String::new()
}

#[distributed_lock(on_busy = |error: AcquireError| error.is_timeout())]
async fn other_type() -> String {
    String::new()
}

#[distributed_lock]
async fn body() -> Result<u8, AcquireError> {
    Ok("not a number")
}

fn main() {}
