//! The line in a ZooKeeper lock directory, as Apache Curator orders it: by the sequence number
//! that the server gave each child.
//!
//! Curator's mutex, its read-write lock and its election pass each other's nodes over. Here all of them are one
//! line, and one rule decides: **who stands at its head holds the key, and readers that stand
//! there together hold it together.** So a writer waits for every node before its own, and a reader
//! for the writers before it, never for a later one.
//!
//! Children without a number, and those of other recipes, are no members of the line. Curator
//! counts them as holders that never leave. Here they are passed over, which changes nothing among
//! those who do queue.

mod permits;
#[cfg(test)]
mod tests;

pub(crate) use permits::{Permit, Permits, limit};

/// The kind of a numbered node, by the mark before its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// A claim on the key alone, in the name of `InterProcessMutex`.
    Mutex,
    /// The same in the name of `InterProcessReadWriteLock`.
    Writer,
    /// A claim on the key beside other readers.
    Reader,
    /// The same in the name of `LeaderLatch`: one who stands for election.
    Latch,
    /// A permit of `InterProcessSemaphoreV2`; no member of a line.
    Lease,
}

impl Kind {
    const ALL: [Self; 5] = [Self::Mutex, Self::Writer, Self::Reader, Self::Latch, Self::Lease];

    /// The mark before the number.
    pub(crate) const fn mark(self) -> &'static str {
        match self {
            Self::Mutex => "lock-",
            Self::Writer => "__WRIT__",
            Self::Reader => "__READ__",
            Self::Latch => "latch-",
            Self::Lease => "lease-",
        }
    }
}

/// The server counts in 32 bits with a sign and then goes on below zero, which turns the order of
/// the line around. A directory is refused this long before.
const SEQUENCE_END: i64 = i32::MAX as i64 - (1 << 16);

/// The beginning of the name of a node whose creation Curator can recognise after a lost reply. A
/// UUID and a dash follow.
pub(crate) const PROTECTED: &str = "_c_";

/// The length of a UUID as text.
const UUID_CHARS: usize = 36;

/// A child that the server numbered. The number is compared as text, as Curator does. A writer
/// comes before the reader with its number, which Curator's becomes since 5.5.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Node<'a> {
    sequence: &'a str,
    kind: Kind,
    name: &'a str,
}

impl<'a> Node<'a> {
    fn of(name: &'a str) -> Option<Self> {
        Kind::ALL.into_iter().find_map(|kind| {
            let (_, sequence) = name.rsplit_once(kind.mark())?;
            let digits = sequence.strip_prefix('-').unwrap_or(sequence);
            let counts = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            counts.then_some(Self { sequence, name, kind })
        })
    }

    fn claim(&self) -> Option<&'a str> {
        Some(self.split()?.0)
    }

    /// The claim, and what else there is before the mark; `None` if it has no UUID.
    fn split(&self) -> Option<(&'a str, &'a str)> {
        let (before, _) = self.name.rsplit_once(self.kind.mark())?;
        let (claim, rest) = before.split_at_checked(PROTECTED.len() + UUID_CHARS)?;
        (claim.starts_with(PROTECTED) && rest.starts_with('-')).then_some((claim, rest))
    }
}

/// The number of a node; one that can serve no longer for any other child.
pub(crate) fn number(name: &str) -> i64 {
    Node::of(name).and_then(|node| node.sequence.parse().ok()).unwrap_or(-1)
}

/// The part of a name that tells the nodes of one claim from those of others; `None` if it has no
/// UUID.
pub(crate) fn claim(name: &str) -> Option<&str> {
    Node::of(name)?.claim()
}

/// Whether a directory that gave out this sequence number can serve no longer.
pub(crate) fn is_used_up(sequence: i64) -> bool {
    !(0..SEQUENCE_END).contains(&sequence)
}

/// One claim in the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InLine<'a> {
    node: Node<'a>,
    /// Whether it holds the key beside others who do.
    pub(crate) shares: bool,
    /// The reader's node of a writer that has become one and keeps its own node as well: a writer
    /// stands between the two, and would be let in else.
    pub(crate) also: Option<&'a str>,
}

impl<'a> InLine<'a> {
    pub(crate) fn name(&self) -> &'a str {
        self.node.name
    }

    /// Whether it stands for election.
    pub(crate) fn is_candidate(&self) -> bool {
        self.node.kind == Kind::Latch
    }
}

/// The standing of one claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Standing<'a> {
    /// The number of claims ahead.
    pub(crate) ahead: u32,
    /// The node without whose end the claim is not granted; `None` if it holds the key.
    pub(crate) awaits: Option<&'a str>,
    /// Whether a claim waits.
    pub(crate) wanted: bool,
}

/// All who queue, in their order.
#[derive(Debug)]
pub(crate) struct Line<'a> {
    places: Vec<InLine<'a>>,
    holders: usize,
}

impl<'a> Line<'a> {
    pub(crate) fn of(children: &'a [String]) -> Self {
        let nodes = children.iter().filter_map(|child| Node::of(child));
        let mut nodes: Vec<_> = nodes.filter(|node| node.kind != Kind::Lease).collect();
        nodes.sort_unstable();
        let also = downgraded(&nodes);
        nodes.retain(|node| Some(node.name) != also);
        let place = |(index, node): (usize, Node<'a>)| {
            let also = also.filter(|_| index == 0);
            InLine { node, shares: node.kind == Kind::Reader || also.is_some(), also }
        };
        let places: Vec<_> = nodes.into_iter().enumerate().map(place).collect();
        let readers = places.iter().take_while(|place| place.shares).count();
        let holders = readers.max(places.len().min(1));
        Self { places, holders }
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    pub(crate) fn places(&self) -> impl Iterator<Item = &InLine<'a>> {
        self.places.iter()
    }

    pub(crate) fn holders(&self) -> &[InLine<'a>] {
        &self.places[..self.holders]
    }

    pub(crate) fn waiters(&self) -> &[InLine<'a>] {
        &self.places[self.holders..]
    }

    /// Whether a claim that comes now holds the key at once.
    pub(crate) fn is_open_to(&self, kind: Kind) -> bool {
        self.waiters().is_empty()
            && self.holders().iter().all(|place| place.shares && kind == Kind::Reader)
    }

    /// The standing of the claim with this node; `None` if it is not there.
    pub(crate) fn standing(&self, own: &str) -> Option<Standing<'a>> {
        let at =
            self.places.iter().position(|place| place.name() == own || place.also == Some(own))?;
        let before = &self.places[..at];
        let awaits = match self.places[at].shares {
            _ if at < self.holders => None,
            true => before.iter().rev().find(|place| !place.shares),
            false => before.last(),
        };
        Some(Standing {
            ahead: u32::try_from(at).unwrap_or(u32::MAX),
            awaits: awaits.map(InLine::name),
            wanted: !self.waiters().is_empty(),
        })
    }

    /// Whether a writer, other than the head of the line, would be let in before this node.
    pub(crate) fn has_writer_before(&self, name: &str) -> bool {
        let Some(node) = Node::of(name) else { return true };
        self.places.iter().skip(1).any(|place| !place.shares && place.node < node)
    }
}

/// The node that makes a reader of the writer at the head of the line: one claim has both, as only
/// a holder does that becomes a reader.
fn downgraded<'a>(nodes: &[Node<'a>]) -> Option<&'a str> {
    let (head, rest) = nodes.split_first().filter(|(head, _)| head.kind != Kind::Reader)?;
    let claim = head.claim()?;
    let same = |node: &&Node<'a>| node.kind == Kind::Reader && node.claim() == Some(claim);
    rest.iter().find(same).map(|node| node.name)
}
