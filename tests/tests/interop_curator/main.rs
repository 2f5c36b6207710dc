//! Apache Curator's recipes and ours are one lock: what we and Java hold, the other waits for.
//!
//! Ours for the key `K` under the URL's path `/locks` is Curator's at `/locks/K`.

#![allow(clippy::disallowed_methods)]

mod election;
mod modes;
mod mutex;
mod permits;
mod support;
