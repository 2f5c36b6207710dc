//! One member of a quorum, as a claim knows it.

use std::time::{Duration, Instant};

use crate::backend::{Fault, Grant};
use crate::ground::Plus as _;
use crate::proto::lease::drift;
use crate::token::TokenBlock;

/// The last answer of one member.
#[derive(Debug)]
pub(super) enum Standing {
    // ## Outside => (Waits | Granted | Down)
    Outside,
    // ## Waits => (Granted | Down | Outside)
    /// In line there, to be asked again at this time.
    Waits {
        ahead: Option<u32>,
        ask_at: Instant,
    },
    // ## Granted => (Outside | Down)
    Granted(Share),
    // ## Down => (Waits | Granted | Outside)
    /// It did not answer; it may hold the key for the claim all the same.
    Down {
        fault: Fault,
        ask_at: Instant,
    },
}

/// The key at one member.
#[derive(Debug, Clone, Copy)]
pub(super) struct Share {
    pub(super) tokens: TokenBlock,
    /// The member's counter has reached this.
    pub(super) counter: u64,
    /// It was answered since the renewal under way began.
    pub(super) fresh: bool,
    pub(super) part: Part,
    /// When the request was sent that it counts from.
    pub(super) sent: Instant,
    pub(super) until: Instant,
    pub(super) wanted: bool,
    pub(super) handed_on: bool,
}

/// The part of a share in the hold that goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    // ## Kept
    Kept,
    // ## New => Joining
    /// Granted since the last renewal began.
    New,
    // ## Joining => Kept
    /// Granted before the renewal under way began.
    Joining,
}

/// A member: the request to it, and its answer.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) standing: Standing,
    /// When the request was sent that was not answered yet.
    pub(super) sent: Option<Instant>,
    /// Something was pushed since it was asked last.
    pub(super) heard: bool,
    /// It was told to forget the claim, and has not said that it did: whatever it says until then
    /// is of the past.
    pub(super) leaving: bool,
    pub(super) failures: u32,
}

impl Seat {
    pub(super) const fn new() -> Self {
        Self { standing: Standing::Outside, sent: None, heard: false, leaving: false, failures: 0 }
    }

    /// Nothing is asked of it.
    pub(super) const fn is_free(&self) -> bool {
        self.sent.is_none() && !self.leaving
    }

    /// Its answer is waited for.
    pub(super) const fn is_open(&self) -> bool {
        self.sent.is_some() && !self.leaving
    }

    /// It said where the claim stands. One that was told to forget the claim is there, too.
    pub(super) const fn spoke(&self) -> bool {
        self.leaving
            || (self.sent.is_none()
                && matches!(self.standing, Standing::Waits { .. } | Standing::Granted(_)))
    }

    pub(super) fn is_down(
        &mut self,
        fault: Fault,
        now: Instant,
        pause: impl FnOnce(u32) -> Duration,
    ) {
        self.failures += 1;
        self.standing = Standing::Down { fault, ask_at: now.plus(pause(self.failures)) };
    }
}

impl Share {
    pub(super) fn new(grant: Grant, sent: Instant, counter: u64) -> Self {
        let last = grant.tokens.last().unwrap_or(0);
        Self {
            tokens: grant.tokens,
            counter: counter.max(last),
            fresh: true,
            part: Part::Kept,
            sent,
            until: sent.plus(grant.valid_for),
            wanted: grant.wanted,
            handed_on: grant.handed_on,
        }
    }

    /// Until when it lasts for a clock that starts at `began`, whose margin is that of the rest.
    pub(super) fn until_from(&self, began: Instant) -> Instant {
        let since = began.saturating_duration_since(self.sent);
        self.until.checked_sub(drift(since)).unwrap_or(self.until)
    }
}
