//! The future is `Send` where the body's is, and works where it is not.
#![deny(warnings)]

use std::cell::Cell;
use std::rc::Rc;

use lock_core::{AcquireError, LockClient, distributed_lock};

// `Send`, not `Sync`.
#[distributed_lock(key = "cell:{id}", client = locks, guard = g)]
async fn not_sync(locks: LockClient, cell: Cell<u8>, id: u64) -> Result<u8, AcquireError> {
    tokio::task::yield_now().await;
    cell.set(cell.get() + 1);
    assert!(g.is_held());
    Ok(cell.into_inner())
}

#[distributed_lock(keys = ["a", "b"], client = locks, when = id > 0, on_lost = "report")]
async fn several(locks: &LockClient, id: u64) -> Result<u64, AcquireError> {
    tokio::task::yield_now().await;
    Ok(id)
}

#[distributed_lock(key = "rc:{rc}", client = locks)]
async fn not_send(locks: &LockClient, rc: Rc<u8>) -> Result<Rc<u8>, AcquireError> {
    tokio::task::yield_now().await;
    Ok(rc)
}

fn is_send<T: Send>(_: T) {}

pub(crate) fn main() {
    let locks = LockClient::memory();
    is_send(not_sync(locks.clone(), Cell::new(1), 1));
    is_send(several(&locks, 1));
    let _ = not_send(&locks, Rc::new(1));
}
