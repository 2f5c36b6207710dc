//! Faults of a store in this process, for tests: it is started anew, or set back.

use super::Memory;
use super::member::Member;
use super::store::State;
use crate::ground::clock;

/// The data that a store had at one time.
#[derive(Debug, Clone)]
pub struct MemoryImage(State);

impl Memory {
    /// Forgets every key, token and enrolment, as a server without persistence does that is started
    /// anew. Claims that were there find out as over a network.
    pub fn restart(&self) {
        let mut state = self.store.state();
        state.clear();
        let incarnation = state.member.incarnation + 1;
        state.member = Member { incarnation, ..Member::new(clock::now()) };
    }

    /// Forgets the same without a new start, as by `FLUSHALL`.
    pub fn flush(&self) {
        let mut state = self.store.state();
        state.clear();
        state.member.enrolment = None;
    }

    /// The data that the store has now.
    #[must_use]
    pub fn image(&self) -> MemoryImage {
        MemoryImage(self.store.state().clone())
    }

    /// Starts anew with what it had when the image was made.
    pub fn restore(&self, image: &MemoryImage) {
        let mut state = self.store.state();
        let incarnation = state.member.incarnation + 1;
        *state = image.0.clone();
        (state.member.incarnation, state.member.started) = (incarnation, clock::now());
    }
}
