//! Locks in the layout of Redisson at one Redis server. With Redisson itself: tests/interop.

#![allow(clippy::disallowed_methods)]

mod conformance;
mod names;
mod scenes;
mod turns;
mod urls;
