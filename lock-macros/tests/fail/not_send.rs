#![allow(unused)]

use std::rc::Rc;

use lock_core::{AcquireError, distributed_lock};

#[distributed_lock(key = "k")]
async fn not_send(rc: Rc<u8>) -> Result<u8, AcquireError> {
    tokio::task::yield_now().await;
    Ok(*rc)
}

fn is_send<T: Send>(_: T) {}

fn main() {
    is_send(not_send(Rc::new(1)));
}
