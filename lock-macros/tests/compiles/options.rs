//! Every option, as a literal and as an expression.
#![deny(warnings)]

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use lock_core::multi::MultiLockHandle;
use lock_core::{AcquireError, Key, LockClient, LockHandle, distributed_lock};

mod re_exported {
    pub mod lock {
        pub use lock_core::*;
    }
}

const WAIT: Duration = Duration::from_millis(5);

#[distributed_lock(
    key = "all:{id}",
    client = locks,
    wait = "250ms",
    retries = 3,
    lease = "1m 30s",
    hold = "1h",
    min_hold = "50s",
    admission = true,
    name = "all of it",
    guard = guard,
    on_busy = |error: AcquireError| Err(error),
    on_lost = "report",
    when = id > 3,
    reentrant = false,
    crate = re_exported::lock,
)]
async fn all(locks: Option<LockClient>, id: u64) -> Result<u64, AcquireError> {
    let _: Option<LockHandle> = guard;
    Ok(id)
}

#[derive(PartialEq)]
struct Flags {
    on: bool,
}

// A condition loses its parentheses, without which an `if` takes no literal of a struct.
#[distributed_lock(key = "condition", when = (Flags { on: true } == *flags))]
async fn literal_condition(flags: &Flags) -> Result<(), AcquireError> {
    let _ = flags;
    Ok(())
}

#[distributed_lock(key = "condition", when = (matches!(flags, Some(Flags { on: true }))))]
async fn macro_condition(flags: Option<Flags>) -> Result<(), AcquireError> {
    drop(flags);
    Ok(())
}

#[distributed_lock(key = "condition", when = { let on = flags.on; on })]
async fn block_condition(flags: &Flags) -> Result<(), AcquireError> {
    let _ = flags;
    Ok(())
}

struct Config {
    lease: Duration,
    retries: u32,
    reentrant: bool,
}

#[distributed_lock(
    key = "expressions", client = locks, wait = WAIT * 2, retries = config.retries,
    lease = config.lease, hold = (Duration::from_secs(1) + WAIT), min_hold = WAIT, reentrant = config.reentrant,
    on_lost = "cancel"
)]
async fn expressions(locks: Arc<LockClient>, config: &Config) -> Result<(), AcquireError> {
    let _ = config;
    Ok(())
}

#[distributed_lock(key = "zero", wait = Duration::ZERO, retries = 0)]
async fn one_try(_id: u64) -> Result<(), AcquireError> {
    Ok(())
}

fn busy(_: AcquireError) -> &'static str {
    "busy"
}

#[distributed_lock(key = "path", on_busy = busy)]
async fn by_path(_id: u64) -> &'static str {
    "done"
}

#[distributed_lock(key = "value", on_busy = "busy".to_owned())]
async fn by_value(_id: u64) -> String {
    "done".to_owned()
}

#[distributed_lock(key = "argument:{sku}", on_lost = "report", on_busy = |e| format!("{sku}: {e}"))]
async fn by_argument(sku: String) -> String {
    sku
}

#[distributed_lock(key = "argument:{sku}", on_busy = |_| Err(AppError(sku)))]
async fn by_moved_argument(sku: String) -> Result<String, AppError> {
    Ok(sku)
}

struct AppError(#[allow(dead_code)] String);

impl From<AcquireError> for AppError {
    fn from(error: AcquireError) -> Self {
        Self(error.to_string())
    }
}

#[distributed_lock(key = "response", on_busy = |_| StatusCode::CONFLICT)]
async fn opaque(_id: u64) -> impl IntoResponse {
    "done"
}

#[distributed_lock(key = "response", on_busy = StatusCode::CONFLICT.into_response())]
async fn concrete(_id: u64) -> Response {
    "done".into_response()
}

#[distributed_lock(keys = ["from:{a}", ("to:{}", b), Key::new("third")], guard = guards)]
async fn several(a: u64, b: u64) -> Result<u64, AcquireError> {
    let _: MultiLockHandle = guards;
    Ok(a + b)
}

#[distributed_lock(keys = items.iter().map(|item| Key::from_segments(["item", item])), when = true)]
async fn many(items: Vec<String>) -> Result<usize, AcquireError> {
    Ok(items.len())
}

#[distributed_lock(key = "doc:{id}", shared, guard = guard)]
async fn read(id: u64) -> Result<u64, AcquireError> {
    let _: LockHandle = guard;
    Ok(id)
}

#[distributed_lock(shared)]
async fn read_all() -> Result<(), AcquireError> {
    Ok(())
}

#[distributed_lock(keys = ["doc:{a}", "doc:{b}"], when = a != b, shared)]
async fn compare(a: u64, b: u64) -> Result<bool, AcquireError> {
    Ok(a == b)
}

const CALLS: u32 = 5;

#[distributed_lock(key = "api:{tenant}", permits = 5)]
async fn call(tenant: u64) -> Result<u64, AcquireError> {
    Ok(tenant)
}

#[distributed_lock(keys = ["api:{tenant}", "api"], permits = CALLS * 2)]
async fn call_both(tenant: u64) -> Result<u64, AcquireError> {
    Ok(tenant)
}

#[distributed_lock(key = "api", permits = config.retries)]
async fn call_as_configured(config: &Config) -> Result<(), AcquireError> {
    let _ = config;
    Ok(())
}

pub(crate) fn main() {
    let _ = (read, read_all, compare, call, call_both, call_as_configured);
    let _ = (literal_condition, macro_condition, block_condition);
    let _ = (all, expressions, one_try, by_path, by_value, by_argument, by_moved_argument);
    let _ = (opaque, concrete, several, many);
}
