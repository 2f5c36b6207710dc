//! A quorum of three independent ZooKeeper servers, and what is done to it.
//!
//! The invariants are those of the other fault tests: **V1** no accepted write goes
//! back, **V2** tokens grow, **V6** nothing is left but the token counters and the enrolment.

#![allow(clippy::disallowed_methods)]

mod conformance;
mod contention;
mod enrolled;
mod faults;
mod member;
mod scenes;
mod support;
mod tokens;
mod url;
