#![allow(unused)]

use axum::extract::State;
use lock_core::{AcquireError, LockClient, distributed_lock};

type Outcome = Result<(), AcquireError>;

#[derive(Clone)]
struct App {
    locks: LockClient,
}

#[distributed_lock(key = "k")]
async fn no_client_inside(State(app): State<App>) -> Outcome {
    Ok(())
}

#[distributed_lock(key = "k")]
async fn destructured(State(App { locks }): State<App>) -> Outcome {
    Ok(())
}

#[distributed_lock(key = "k")]
async fn unnamed(_: State<LockClient>) -> Outcome {
    Ok(())
}

#[distributed_lock(key = "k")]
async fn several(State(a): State<LockClient>, State(b): State<App>) -> Outcome {
    Ok(())
}

fn main() {}
