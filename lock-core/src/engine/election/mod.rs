//! One leader, and those who follow.
//!
//! A candidate waits for a key like any other; it leads from the grant on, and its term
//! is the hold. Two things are added:
//!
//! - [`run_for`]: a candidate has a claim of its own, which publishes what it says of itself. So two
//!   of one process are two to the others, and a term that ends is never handed on in secret.
//! - [`term`]: what a leader has in hand.
//! - [`observe`]: those who follow are told by the store. Whether that was in time for a write, only
//!   the token of the term decides.
//!
//! A candidate has a cell of its own, which no other waiter finds (`Registry::add`). All else is
//! the engine's as for any hold. `Observe` is polled by who follows and needs no cell: it holds
//! nothing, so nothing of it has to go on while its task does not run.

mod observe;
mod run_for;
mod term;

pub use observe::Observe;
pub use run_for::RunFor;
pub use term::Term;
