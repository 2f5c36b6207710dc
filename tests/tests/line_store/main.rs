//! A store from outside of lock-core, over a network, written against its public face alone: lines
//! over TCP, to a small server that keeps a register for each key.
//!
//! It is what a stranger's store has to be: it passes the conformance suite, and the scenes here. A
//! twin that connects in the runtime of its caller does not.

#![allow(clippy::disallowed_methods)] // real time

mod conformance;
mod scenes;
mod server;
mod speech;
mod store;
