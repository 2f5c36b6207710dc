//! One lock at a majority of independent Redis servers, `redlock://`: the conformance suite, and
//! what becomes of it when members are killed, frozen, slow, or come back without their data (F41).
//!
//! The invariants are numbered as in the binary `faults`: **V1** no accepted write goes back, **V2**
//! tokens grow, **V3** a loss is told in time, **V4** acquire returns within its budget, **V6**
//! nothing is left, **V8** the error says what happened.

#![allow(clippy::disallowed_methods)]

mod clocks;
mod conformance;
mod lists;
mod load;
mod member;
mod members;
mod pools;
mod scenes;
mod support;
