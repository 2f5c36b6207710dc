//! The layers beside those that services usually have: outside of them and inside, in one
//! `ServiceBuilder` and one by one on a router.

#[path = "../common/mod.rs"]
mod common;

mod bodies;
mod errors;
mod everywhere;
mod refusals;
mod stacks;
mod stage;
mod timeouts;
