//! Idempotency over a real `redis-server`.

#![allow(clippy::disallowed_methods)] // real servers, real time

mod conformance;
mod duplicates;
mod full;
mod http;
mod replies;
mod rights;
mod rotation;
mod support;
