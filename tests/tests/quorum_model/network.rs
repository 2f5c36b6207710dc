//! The messages under way.

use crate::client::ClaimId;
use crate::member::Token;

/// A message between a client and a member, or to the resource.
///
/// There is no answer that says no, and no withdrawal: a client may give up at any time, and the
/// lease of a claim that is over may end at any time, which looks the same to everyone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Message {
    /// Asks `member` for the key, with a token of at least `from`.
    Attempt { claim: ClaimId, member: u8, from: Token },
    /// `member` granted with exactly the token; the answer comes after the token was fixed. (The
    /// answers before are in [`Phase::Asking`](crate::client::Phase::Asking).)
    Granted { claim: ClaimId, member: u8 },
    /// Tells `member`, which granted with `first`, the token of the grant.
    Raise { claim: ClaimId, member: u8, first: Token, token: Token },
    /// `member` has the token of the grant.
    Raised { claim: ClaimId, member: u8 },
    /// A write to the resource by the holder of grant number `grant`. One that is late is also that
    /// of a holder that was stopped, and sends it when its hold is long over.
    Write { claim: ClaimId, token: Token, grant: u8 },
}

impl Message {
    /// The number of its kind.
    pub(crate) fn kind(&self) -> u8 {
        match self {
            Message::Attempt { .. } => 0,
            Message::Granted { .. } => 1,
            Message::Raise { .. } => 2,
            Message::Raised { .. } => 3,
            Message::Write { .. } => 4,
        }
    }

    /// The claim that it is about.
    pub(crate) fn claim(&self) -> ClaimId {
        let mut copy = *self;
        *copy.claim_mut()
    }

    /// The claim that it is about.
    pub(crate) fn claim_mut(&mut self) -> &mut ClaimId {
        match self {
            Message::Attempt { claim, .. }
            | Message::Granted { claim, .. }
            | Message::Raise { claim, .. }
            | Message::Raised { claim, .. }
            | Message::Write { claim, .. } => claim,
        }
    }

    /// The member that it comes from or goes to, if any.
    pub(crate) fn member(&self) -> Option<usize> {
        let mut copy = *self;
        copy.member_mut().map(|member| usize::from(*member))
    }

    /// The member that it comes from or goes to, if any.
    pub(crate) fn member_mut(&mut self) -> Option<&mut u8> {
        match self {
            Message::Attempt { member, .. }
            | Message::Granted { member, .. }
            | Message::Raise { member, .. }
            | Message::Raised { member, .. } => Some(member),
            Message::Write { .. } => None,
        }
    }
}

/// The messages that may still arrive, each at any time and in any order.
///
/// A lost message is one that is never chosen to arrive, so loss needs no step of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Network {
    /// Sorted, so that equal sets are equal states.
    messages: Vec<Message>,
}

impl Network {
    /// Sends `message`. Two that are alike are one.
    pub(crate) fn send(&mut self, message: Message) {
        if let Err(at) = self.messages.binary_search(&message) {
            self.messages.insert(at, message);
        }
    }

    /// Takes `message` out.
    pub(crate) fn take(&mut self, message: &Message) {
        if let Ok(at) = self.messages.binary_search(message) {
            self.messages.remove(at);
        }
    }

    /// Every message under way, in a fixed order.
    pub(crate) fn iter(&self) -> std::slice::Iter<'_, Message> {
        self.messages.iter()
    }

    /// Drops the answers to `claim`, which does not wait for them any more.
    pub(crate) fn forget_answers(&mut self, to: ClaimId) {
        self.messages.retain(|message| match message {
            Message::Granted { claim, .. } | Message::Raised { claim, .. } => *claim != to,
            _ => true,
        });
    }
}
