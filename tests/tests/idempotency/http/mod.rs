//! The HTTP layer in processes of its own: duplicates over four of them, a process that is
//! stopped, responses that are too long, clients that go away, and a store that does.

mod client;
mod disconnect;
mod down;
mod duplicates;
mod oversized;
mod shop;
mod stopped;
