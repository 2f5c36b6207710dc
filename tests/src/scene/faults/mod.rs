//! The scenes, by what they are about. Each function's doc names the fault and the invariants that
//! it defends, as `docs/faults.md` lists them.
//!
//! Bounds on time are wide, for a machine that is busy with other things; no assertion is decided
//! by a sleep.

pub(super) mod cancel;
pub(super) mod replies;

use super::history::LATE;
use super::layout::{Power, Tempo, Verb};
use super::stage::{Client, SLACK, Stage, ms};
use crate::proxy::{Action, Direction, Flow, Match};
use crate::wait::{eventually, within};
