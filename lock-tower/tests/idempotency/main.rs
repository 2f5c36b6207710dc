//! The idempotency layer: one test for each rule of `docs/idempotency.md`, and more.

#[path = "../common/mod.rs"]
mod common;

mod answers;
mod around;
mod capture;
mod crowd;
mod cut;
mod fixture;
mod flow;
mod header;
mod in_flight;
#[cfg(feature = "metrics")]
mod observe;
mod plain;
mod request;
mod response;
mod scope;
mod store;
mod task;
