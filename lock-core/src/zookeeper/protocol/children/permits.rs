//! The permits of a key, and what the names of our nodes say of them.

use std::fmt;

use super::{Kind, Node};

/// The permit that a claim has, of how many, or its wish for one. It stands in the name of the
/// node, between the claim's id and the mark, as data can be overwritten: Curator's `Revoker` does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Permit {
    /// Its number, once it is had.
    pub(crate) slot: Option<u32>,
    /// The number of permits.
    pub(crate) of: u32,
}

impl Permit {
    /// The permit that the name of a node tells; none where it is another client's.
    pub(crate) fn of(name: &str) -> Option<Self> {
        let said = Node::of(name)?.split()?.1.strip_prefix('-')?.strip_suffix('-')?;
        let (slot, of) = match said.strip_prefix("slot") {
            Some(both) => both.split_once("of").map(|(slot, of)| (Some(slot), of))?,
            None => (None, said.strip_prefix("of")?),
        };
        let slot = slot.map(str::parse).transpose().ok()?;
        Some(Self { slot, of: of.parse().ok()? })
    }
}

impl fmt::Display for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.slot.map_or(Ok(()), |slot| write!(f, "slot{slot}"))?;
        write!(f, "of{}", self.of)
    }
}

/// The number of permits, by the first of these nodes that says so.
pub(crate) fn limit<'a>(names: impl IntoIterator<Item = &'a str>) -> Option<u32> {
    names.into_iter().find_map(Permit::of).map(|permit| permit.of)
}

/// The permits in use, in their order.
#[derive(Debug)]
pub(crate) struct Permits<'a> {
    names: Vec<&'a str>,
}

impl<'a> Permits<'a> {
    /// Those among the children. Whatever else is there is passed over.
    pub(crate) fn of(children: &'a [String]) -> Self {
        let nodes = children.iter().filter_map(|child| Node::of(child));
        let mut leases: Vec<_> = nodes.filter(|node| node.kind == Kind::Lease).collect();
        leases.sort_unstable();
        Self { names: leases.into_iter().map(|node| node.name).collect() }
    }

    pub(crate) fn names(&self) -> &[&'a str] {
        &self.names
    }

    /// Whether as many permits are in use as there are.
    pub(crate) fn is_full(&self, of: u32) -> bool {
        self.names.len() >= of as usize
    }

    /// The number of permits, by those of ours.
    pub(crate) fn limit(&self) -> Option<u32> {
        limit(self.names.iter().copied())
    }

    /// The lowest number that none of these has.
    pub(crate) fn free_slot(&self) -> u32 {
        let mut slots: Vec<_> = self.said().filter_map(|permit| permit.slot).collect();
        slots.sort_unstable();
        slots.into_iter().fold(0, |free, slot| free + u32::from(slot == free))
    }

    /// Whether `own`, one of ours, is good; `None` if it is not there. Two claims count at one time
    /// where somebody took a mutex away. The later one then is too many, has the number of the
    /// other, or goes by another limit.
    pub(crate) fn admit(&self, own: &str) -> Option<bool> {
        let at = self.names.iter().position(|name| *name == own)?;
        let Permit { slot, of } = Permit::of(own)?;
        let mut before = self.names[..at].iter().filter_map(|name| Permit::of(name));
        Some(at < of as usize && before.all(|other| other.of == of && other.slot != slot))
    }

    fn said(&self) -> impl Iterator<Item = Permit> {
        self.names.iter().filter_map(|name| Permit::of(name))
    }
}
