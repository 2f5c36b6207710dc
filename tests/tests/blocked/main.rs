//! The requests to Redis while the application's runtime is blocked, from the thread and runtime of
//! a conductor.
//!
//! The invariants are numbered as in the binary `faults`: **V1** no accepted write goes back, **V3**
//! a loss is told in time, **V5** a free key is granted, **V6** nothing is left.

#![allow(clippy::disallowed_methods)]

mod application;
mod conformance;
mod doubts;
mod served;
