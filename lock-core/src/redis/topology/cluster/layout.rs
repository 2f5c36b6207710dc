//! The layout of a cluster: which master serves which slot, as the nodes tell it.

use std::fmt;

use crate::backend::url::Host;
use crate::redis::protocol::slots::SLOTS;

/// Masters that one answer may list.
const MASTERS_MAX: usize = 4_096;

/// The address at which a node is reached.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(in crate::redis) struct Addr {
    pub(super) host: Box<str>,
    pub(super) port: u16,
}

impl Addr {
    pub(super) fn new(host: &str, port: u16) -> Self {
        Self { host: host.into(), port }
    }

    /// The host that is connected to.
    pub(super) fn host(&self) -> Host {
        Host::new(&*self.host, self.port)
    }

    /// Reads `host:port` as nodes write it. A node may not know what it is called: then it is where
    /// it was asked.
    pub(super) fn parse(text: &str, asked: &Self) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let host = if matches!(host, "" | "?") { &*asked.host } else { host };
        let port = port.parse().ok().filter(|port| *port != 0)?;
        Some(Self::new(host, port))
    }
}

impl fmt::Debug for Addr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// One master.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Master {
    addr: Addr,
    /// The same node by its other address, if it has one: redirections may use that.
    named: Option<Addr>,
    /// Grows whenever a slot changes hands: the new owner's is greater than the old one's.
    epoch: u64,
    ranges: Vec<(u16, u16)>,
}

/// Reads the answer to `CLUSTER NODES` by the node at `asked`; `None` if that is not what it is.
/// `by_name`: nodes that have a name are reached by it, as their certificates demand.
pub(super) fn parse(text: &str, asked: &Addr, by_name: bool) -> Option<Vec<Master>> {
    let mut masters = Vec::new();
    for line in text.lines() {
        let words: Vec<_> = line.split(' ').collect();
        let [_, addr, flags, _, _, _, epoch, _, slots @ ..] = &words[..] else { return None };
        let flags = || flags.split(',');
        if !flags().any(|flag| flag == "master") || flags().any(|flag| flag == "noaddr") {
            continue;
        }
        // One that cannot be read must not hide the others: a node of another kind of connection,
        // or of a later form.
        masters.extend(master(addr, epoch, slots, asked, by_name));
        if masters.len() > MASTERS_MAX {
            return None;
        }
    }
    (!masters.is_empty()).then_some(masters)
}

fn master(addr: &str, epoch: &str, slots: &[&str], asked: &Addr, by_name: bool) -> Option<Master> {
    // `ip:port@bus-port[,name[,more]]`
    let (addr, more) = addr.split_once('@')?;
    let addr = Addr::parse(addr, asked)?;
    let name = more.split(',').nth(1).filter(|name| !name.is_empty());
    let ranges = slots.iter().filter(|slots| !slots.starts_with('['));
    let ranges = ranges.map(|slots| range(slots)).collect::<Option<_>>()?;
    let (addr, named) = match name.map(|name| Addr::new(name, addr.port)) {
        Some(name) if by_name => (name, Some(addr)),
        named => (addr, named),
    };
    Some(Master { named, addr, epoch: epoch.parse().ok()?, ranges })
}

/// `5` or `0-5460`.
fn range(text: &str) -> Option<(u16, u16)> {
    let (from, to) = text.split_once('-').unwrap_or((text, text));
    let (from, to) = (from.parse().ok()?, to.parse().ok()?);
    (from <= to && to < SLOTS).then_some((from, to))
}

/// The layout that this client believes in.
#[derive(Debug)]
pub(super) struct Table {
    /// Per slot, the number of its owner in `masters`, and since when it owns it.
    owners: Vec<(u16, Since)>,
    masters: Vec<Addr>,
    names: Vec<(Addr, Addr)>,
}

/// The time from which somebody owns a slot, as the cluster counts it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Since {
    /// The epoch of an owner, as it was told last.
    epoch: u64,
    /// The slot has moved behind that, to an owner whose epoch is greater and not known yet.
    moved: bool,
}

const NOBODY: u16 = u16::MAX;

impl Table {
    pub(super) fn empty() -> Self {
        let owners = vec![(NOBODY, Since::default()); usize::from(SLOTS)];
        Self { owners, masters: Vec::new(), names: Vec::new() }
    }

    pub(super) fn owner(&self, slot: u16) -> Option<&Addr> {
        self.masters.get(usize::from(self.owners[usize::from(slot % SLOTS)].0))
    }

    /// All that own a slot, or were told to be masters last.
    pub(super) fn masters(&self) -> &[Addr] {
        &self.masters
    }

    /// A slot of each node that owns any.
    pub(super) fn one_slot_each(&self) -> Vec<(u16, Addr)> {
        let first = |(number, addr): (usize, &Addr)| {
            let slot = self.owners.iter().position(|owner| usize::from(owner.0) == number)?;
            Some((u16::try_from(slot).ok()?, addr.clone()))
        };
        self.masters.iter().enumerate().filter_map(first).collect()
    }

    /// The address by which the table knows a node.
    pub(super) fn known(&self, addr: Addr) -> Addr {
        match self.names.iter().find(|(named, _)| *named == addr) {
            Some((_, known)) => known.clone(),
            None => addr,
        }
    }

    fn number(&mut self, addr: &Addr) -> u16 {
        let at = self.masters.iter().position(|known| known == addr).unwrap_or_else(|| {
            self.masters.push(addr.clone());
            self.masters.len() - 1
        });
        u16::try_from(at).unwrap_or(NOBODY)
    }

    /// Learns what a node told. Its word on a slot counts unless somebody else owns the slot under
    /// a later epoch: a node that was cut off does not know that it was succeeded. Returns whether
    /// a slot has another owner now.
    pub(super) fn learn(&mut self, told: &[Master]) -> bool {
        let mut next = Self::empty();
        next.names = told.iter().filter_map(|m| Some((m.named.clone()?, m.addr.clone()))).collect();
        for master in told {
            let number = next.number(&master.addr);
            for (from, to) in &master.ranges {
                let since = Since { epoch: master.epoch, moved: false };
                next.owners[usize::from(*from)..=usize::from(*to)].fill((number, since));
            }
        }
        for (slot, (number, since)) in self.owners.iter().enumerate() {
            let (told_number, told) = next.owners[slot];
            let stays = told_number == NOBODY || *since > told;
            if stays && let Some(addr) = self.masters.get(usize::from(*number)) {
                next.owners[slot] = (next.number(addr), *since);
            }
        }
        let last = std::mem::replace(self, next);
        (0..SLOTS).any(|slot| {
            let owner = last.owner(slot);
            owner.is_some() && owner != self.owner(slot)
        })
    }

    /// Owners of slots that none of these answers names as owners of any: they are gone, if they do
    /// not answer either.
    pub(super) fn unnamed(&self, told: &[Vec<Master>]) -> Vec<Addr> {
        let named = |addr: &Addr| {
            let mut masters = told.iter().flatten();
            masters.any(|master| master.addr == *addr && !master.ranges.is_empty())
        };
        let owners = self.one_slot_each().into_iter().map(|(_, addr)| addr);
        owners.filter(|addr| !named(addr)).collect()
    }

    /// Forgets an owner that is gone, under whatever epoch it owned its slots.
    pub(super) fn forget(&mut self, gone: &Addr) {
        let Some(number) = self.masters.iter().position(|known| known == gone) else { return };
        for owner in self.owners.iter_mut().filter(|owner| usize::from(owner.0) == number) {
            *owner = (NOBODY, Since::default());
        }
    }

    /// `by` says that a slot is at `to`. Whoever is believed to own it knows best.
    ///
    /// The new owner's epoch is greater than the last one's, if not known yet. So a node that has
    /// not heard of the move, and names the last owner on, does not count. However often two nodes name
    /// each other, its next epoch does, and so does that of whoever succeeds it.
    pub(super) fn moved(&mut self, slot: u16, by: &Addr, to: &Addr) -> bool {
        let last = self.owner(slot).cloned();
        if last.as_ref().is_some_and(|owner| owner != by) {
            return false;
        }
        let number = self.number(to);
        let owner = &mut self.owners[usize::from(slot % SLOTS)];
        owner.0 = number;
        owner.1.moved |= last.is_some_and(|last| last != *to);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked() -> Addr {
        Addr::new("seed", 7000)
    }

    fn lines(masters: &[(&str, u64, &str)]) -> String {
        let line = |(addr, epoch, slots): &(&str, u64, &str)| {
            let line = format!("07c37d {addr}@1 master - 0 0 {epoch} connected {slots}");
            format!("{}\n", line.trim_end())
        };
        masters.iter().map(line).collect()
    }

    fn learn(table: &mut Table, masters: &[(&str, u64, &str)]) {
        table.learn(&parse(&lines(masters), &asked(), false).unwrap());
    }

    fn owner(table: &Table, slot: u16) -> String {
        table.owner(slot).map_or("nobody".into(), |addr| format!("{addr:?}"))
    }

    #[test]
    fn an_answer_is_read_with_names_migrations_and_unknown_hosts() {
        let text = "\
a 127.0.0.1:1@11,name-of-1 myself,master - 0 0 3 connected 0-5 9 [5->-b] [7-<-b]\n\
b :2@12 master,fail? - 0 0 2 connected 6-8\n\
c 127.0.0.1:3@13 slave a 0 0 3 connected\n\
d 127.0.0.1:4@14 master,noaddr - 0 0 1 disconnected 10\n\
e ?:5@15 master - 0 0 0 connected\n";
        let mut table = Table::empty();
        table.learn(&parse(text, &asked(), false).unwrap());
        let owners = [0, 5, 9, 6, 10].map(|slot| owner(&table, slot));
        assert_eq!(owners, ["127.0.0.1:1", "127.0.0.1:1", "127.0.0.1:1", "seed:2", "nobody"]);
        assert_eq!(table.masters().len(), 3);
        assert_eq!(table.known(Addr::new("name-of-1", 1)), Addr::new("127.0.0.1", 1));
        assert_eq!(table.known(Addr::new("name-of-1", 2)), Addr::new("name-of-1", 2));
        table.learn(&parse(text, &asked(), true).unwrap());
        assert_eq!(owner(&table, 0), "name-of-1:1");
        assert_eq!(table.known(Addr::new("127.0.0.1", 1)), Addr::new("name-of-1", 1));
    }

    #[test]
    fn what_is_no_answer_is_none() {
        for text in [
            "",
            "a b",
            "a h:1@2 master - 0 0 x connected 0-1",
            "a h:1@2 master - 0 0 1 connected 5-1",
            "a h:1@2 master - 0 0 1 connected 0-16384",
            "a h:1@2 slave x 0 0 1 connected",
            "a h:1 master - 0 0 1 connected 0-1",
            "a h@2 master - 0 0 1 connected",
        ] {
            assert_eq!(parse(text, &asked(), false), None, "{text}");
        }
    }

    #[test]
    fn a_master_that_cannot_be_read_hides_no_other() {
        let text = "\
a h:0@1 master - 0 0 1 connected 0-5\n\
b h:2@2 master - 0 0 2 connected 6-8\n\
c h:3@3 master - 0 0 3 connected 9-later\n";
        let mut table = Table::empty();
        table.learn(&parse(text, &asked(), false).unwrap());
        assert_eq!([0, 6, 9].map(|slot| owner(&table, slot)), ["nobody", "h:2", "nobody"]);
        assert_eq!(parse("a b", &asked(), false), None);
    }

    #[test]
    fn a_node_that_was_cut_off_takes_no_slot_back() {
        let mut table = Table::empty();
        learn(&mut table, &[("h:1", 1, "0-100")]);
        learn(&mut table, &[("h:2", 7, "0-50"), ("h:1", 1, "51-100")]);
        learn(&mut table, &[("h:1", 1, "0-100")]);
        assert_eq!([0, 51].map(|slot| owner(&table, slot)), ["h:2", "h:1"]);
        assert!(table.masters().contains(&Addr::new("h", 2)), "it is asked on");
        learn(&mut table, &[("h:1", 8, "0-50"), ("h:2", 7, "")]);
        assert_eq!(owner(&table, 0), "h:1");
    }

    #[test]
    fn an_owner_that_is_gone_makes_way_for_an_earlier_epoch() {
        let mut table = Table::empty();
        learn(&mut table, &[("h:1", 9, "0-100"), ("h:2", 2, "101")]);
        let told = [&[("h:3", 1, "0-100")][..], &[("h:3", 1, "0-100"), ("h:1", 9, "")]];
        let told = told.map(|told| parse(&lines(told), &asked(), false).unwrap());
        table.learn(&told[0]);
        assert_eq!([0, 101].map(|slot| owner(&table, slot)), ["h:1", "h:2"]);
        let mut unnamed = table.unnamed(&told);
        unnamed.sort_by_key(|addr| addr.port);
        assert_eq!(unnamed, [1, 2].map(|port| Addr::new("h", port)));
        table.forget(&unnamed[0]);
        table.learn(&told[0]);
        assert_eq!([0, 101].map(|slot| owner(&table, slot)), ["h:3", "h:2"]);
    }

    #[test]
    fn a_redirection_counts_if_it_is_by_the_owner() {
        let mut table = Table::empty();
        learn(&mut table, &[("h:1", 1, "0"), ("h:2", 2, "1")]);
        let [one, two, three] = [1, 2, 3].map(|port| Addr::new("h", port));
        assert!(!table.moved(0, &two, &three));
        assert!(table.moved(0, &one, &three));
        assert_eq!([0, 1].map(|slot| owner(&table, slot)), ["h:3", "h:2"]);
    }

    #[test]
    fn a_node_that_has_not_heard_of_a_move_does_not_undo_it() {
        let mut table = Table::empty();
        let late = [("h:1", 4, "0"), ("h:2", 2, "1"), ("h:3", 3, "")];
        learn(&mut table, &late);
        let [one, three] = [1, 3].map(|port| Addr::new("h", port));
        assert!(table.moved(0, &one, &three));
        learn(&mut table, &late);
        assert_eq!(owner(&table, 0), "h:3");
        // Words under the new owner's epoch, or a later one, count.
        learn(&mut table, &[("h:1", 4, ""), ("h:2", 2, "1"), ("h:3", 5, "0")]);
        learn(&mut table, &late);
        assert_eq!(owner(&table, 0), "h:3");
        learn(&mut table, &[("h:1", 6, "0"), ("h:2", 2, "1"), ("h:3", 5, "")]);
        assert_eq!(owner(&table, 0), "h:1");
        assert!(table.moved(0, &one, &one));
        learn(&mut table, &[("h:2", 6, "0-1")]);
        assert_eq!(owner(&table, 0), "h:2", "who names itself has not moved anything");
    }
    /// As in a migration that is told to the former owner first.
    #[test]
    fn a_slot_for_which_two_nodes_named_each_other_goes_to_who_succeeds_them() {
        let mut table = Table::empty();
        learn(&mut table, &[("h:1", 5, "0"), ("h:2", 2, "1")]);
        let [one, two] = [1, 2].map(|port| Addr::new("h", port));
        for _ in 0..3 {
            assert!(table.moved(0, &one, &two) && table.moved(0, &two, &one));
        }
        assert!(table.moved(0, &one, &two));
        learn(&mut table, &[("h:1", 5, "0"), ("h:2", 2, "1")]);
        assert_eq!(owner(&table, 0), "h:2");
        learn(&mut table, &[("h:1", 5, ""), ("h:2", 6, "0-1")]);
        learn(&mut table, &[("h:1", 5, ""), ("h:3", 7, "0-1")]);
        assert_eq!(owner(&table, 0), "h:3");
    }
}
