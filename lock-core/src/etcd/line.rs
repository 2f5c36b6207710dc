//! The line of a key, as Go's `clientv3/concurrency` orders it: by the revision that created each
//! key below the prefix.
//!
//! A key that Go or `etcdctl` put there (`<lease>`) is a claim on the key alone. One of ours says
//! in its name whose it is and what for: `<lease>/<claim>/<kind>`. One rule decides, as in all
//! stores: **who stands at its head holds the key, and those at the head who can share it hold it
//! together.** So Go's clients, which wait for all before them, stand in the same line.
//!
//! Below the prefix of `a` are also the keys of locks on `a/b`, which another path may have. Those
//! are in no line but their own: a name tells by its parts which it is in.

use super::about::About;
use super::wire::KeyValue;
use crate::backend::{ClaimId, Mode};

/// The digits of a claim's id.
const CLAIM_DIGITS: usize = 32;
/// Those of a lease of ours, in hexadecimal.
const LEASE_DIGITS: usize = 16;

/// The digits of a time in nanoseconds since 1970.
const TIME_DIGITS: usize = 19;

/// The kind of claim that a key in the line stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A claim on the key alone, ours or another client's.
    Alone,
    /// A candidate in an election.
    Candidate,
    /// A claim beside other readers.
    Reader,
    /// A claim on one of so many permits.
    Permit(u32),
}

impl Kind {
    /// The kind of a claim in this mode.
    pub(super) fn of(mode: Mode, is_candidate: bool) -> Self {
        match mode {
            Mode::Exclusive if is_candidate => Self::Candidate,
            Mode::Exclusive => Self::Alone,
            Mode::Shared => Self::Reader,
            Mode::Permit { of } => Self::Permit(of),
        }
    }

    fn mark(self) -> String {
        match self {
            Self::Alone => "x".to_owned(),
            Self::Candidate => "c".to_owned(),
            Self::Reader => "r".to_owned(),
            Self::Permit(of) => format!("p{of}"),
        }
    }

    fn read(mark: &str) -> Option<Self> {
        match mark {
            "x" => Some(Self::Alone),
            "c" => Some(Self::Candidate),
            "r" => Some(Self::Reader),
            _ => mark.strip_prefix('p')?.parse().ok().map(Self::Permit),
        }
    }

    /// Whether both can hold a key at one time.
    fn is_beside(self, other: Self) -> bool {
        match self {
            Self::Alone | Self::Candidate => false,
            Self::Reader | Self::Permit(_) => self == other,
        }
    }

    /// The number of claims of this kind that can hold a key at one time.
    fn most(self) -> usize {
        match self {
            Self::Alone | Self::Candidate => 1,
            Self::Reader => usize::MAX,
            Self::Permit(of) => usize::try_from(of).unwrap_or(usize::MAX),
        }
    }

    /// The mode of such a claim.
    pub(super) fn mode(self) -> Mode {
        match self {
            Self::Alone | Self::Candidate => Mode::Exclusive,
            Self::Reader => Mode::Shared,
            Self::Permit(of) => Mode::Permit { of },
        }
    }
}

/// The key of a claim below the prefix of the line.
pub(super) fn name(prefix: &[u8], lease: i64, id: ClaimId, kind: Kind) -> Vec<u8> {
    let name = format!("{lease:x}/{id}/{}", kind.mark());
    [prefix, name.as_bytes()].concat()
}

/// The name of a key's claim, its kind, and whether it is ours. `None` where the key is in the line
/// of another key, whose name goes on behind the prefix of this one.
fn read(name: &str, lease: i64) -> Option<(String, Kind, bool)> {
    let theirs = |kind| Some((name.escape_debug().to_string(), kind, false));
    let parts: Vec<_> = name.split('/').collect();
    match parts[..] {
        [_] => theirs(Kind::Alone),
        // Those of the `RWMutex` in Go's recipes.
        ["read", time] if is_time(time) => theirs(Kind::Reader),
        ["write", time] if is_time(time) => theirs(Kind::Alone),
        [of, claim, kind] if is_of(of, lease) && is_claim(claim) => match Kind::read(kind) {
            Some(kind) => Some((claim.to_owned(), kind, true)),
            None => theirs(Kind::Alone),
        },
        _ => None,
    }
}

/// Whether this is the lease of a key. One that somebody wrote without it has none, and is where it
/// was: its holder has the key until it finds that.
fn is_of(part: &str, lease: i64) -> bool {
    let is_lease =
        || part.len() == LEASE_DIGITS && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    part == format!("{lease:x}") || (lease == 0 && is_lease())
}

/// Whether it is an id of one of our claims.
fn is_claim(part: &str) -> bool {
    part.len() == CLAIM_DIGITS && part.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Whether it is a time of this century in nanoseconds, which no id of a lease is as long as.
fn is_time(part: &str) -> bool {
    part.len() == TIME_DIGITS && part.bytes().all(|byte| byte.is_ascii_digit())
}

/// One claim in the line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct InLine {
    pub(super) key: Vec<u8>,
    pub(super) created: i64,
    pub(super) written: i64,
    /// The claim's id, or the name of another client's key, for people.
    pub(super) claim: String,
    pub(super) kind: Kind,
    pub(super) is_ours: bool,
    pub(super) about: About,
}

impl InLine {
    fn of(prefix: &[u8], found: &KeyValue) -> Option<Self> {
        let name = found.key.strip_prefix(prefix).unwrap_or(&found.key);
        let (claim, kind, is_ours) = read(&String::from_utf8_lossy(name), found.lease)?;
        let about = About::read(&found.value, matches!(kind, Kind::Permit(_)));
        // A writer that has become a reader says so in its value.
        let kind = if kind == Kind::Alone && about.is_shared { Kind::Reader } else { kind };
        Some(Self {
            key: found.key.clone(),
            created: found.create_revision,
            written: found.mod_revision,
            claim,
            kind,
            is_ours,
            about,
        })
    }
}

/// The standing of one claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Standing<'a> {
    pub(super) place: &'a InLine,
    /// The number of claims ahead.
    pub(super) ahead: usize,
    pub(super) awaits: Awaits<'a>,
    /// Whether anybody waits because of it.
    pub(super) is_wanted: bool,
}

/// The change that a claim waits for before it is granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Awaits<'a> {
    /// It holds the key.
    Nothing,
    /// This key.
    One(&'a [u8]),
    /// The end of any that stands before it.
    Any,
}

/// All who queue, in their order.
#[derive(Debug)]
pub(super) struct Line {
    places: Vec<InLine>,
    holders: usize,
}

impl Line {
    /// The line of the keys that were read below the prefix.
    pub(super) fn of(prefix: &[u8], found: &[KeyValue]) -> Self {
        let mut places: Vec<_> =
            found.iter().filter_map(|found| InLine::of(prefix, found)).collect();
        places.sort_by(|one, other| (one.created, &one.key).cmp(&(other.created, &other.key)));
        let holders = places.first().map_or(0, |head| {
            let beside = places.iter().skip(1).take_while(|place| place.kind.is_beside(head.kind));
            beside.count().saturating_add(1).min(head.kind.most())
        });
        Self { places, holders }
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    pub(super) fn holders(&self) -> &[InLine] {
        self.places.get(..self.holders).unwrap_or_default()
    }

    pub(super) fn waiters(&self) -> &[InLine] {
        self.places.get(self.holders..).unwrap_or_default()
    }

    /// Whether one who comes now holds the key at once.
    pub(super) fn is_open_to(&self, kind: Kind) -> bool {
        let fits = |head: &InLine| kind.is_beside(head.kind) && self.holders < kind.most();
        self.waiters().is_empty() && self.places.first().is_none_or(fits)
    }

    /// The limit of the permits in use.
    pub(super) fn limit(&self) -> Option<u32> {
        match self.places.first()?.kind {
            Kind::Permit(of) => Some(of),
            _ => None,
        }
    }

    /// The lowest number that no permit in use has.
    pub(super) fn free_slot(&self) -> u32 {
        let mut slots: Vec<_> = self.places.iter().filter_map(|place| place.about.slot).collect();
        slots.sort_unstable();
        slots.into_iter().fold(0, |free, slot| free.saturating_add(u32::from(slot == free)))
    }

    /// The standing of the claim with this key; `None` if it is not there.
    pub(super) fn standing(&self, own: &[u8]) -> Option<Standing<'_>> {
        let at = self.places.iter().position(|place| place.key == own)?;
        let (place, before) = (self.places.get(at)?, self.places.get(..at)?);
        let awaits = match place.kind {
            _ if at < self.holders => Awaits::Nothing,
            Kind::Permit(_) => Awaits::Any,
            kind => {
                let other = before.iter().rev().find(|before| !kind.is_beside(before.kind));
                other.map_or(Awaits::Any, |other| Awaits::One(&other.key))
            }
        };
        let is_wanted = !self.waiters().is_empty();
        Some(Standing { place, ahead: at, awaits, is_wanted })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PREFIX: &[u8] = b"locks/k/";

    /// The key of a name in which a claim's id is short.
    fn key(name: &str) -> Vec<u8> {
        let mut parts: Vec<_> = name.split('/').map(str::to_owned).collect();
        if let [_, claim, _] = &mut parts[..] {
            *claim = format!("{claim:0>32}");
        }
        [PREFIX, parts.join("/").as_bytes()].concat()
    }

    fn found(names: &[&str]) -> Vec<KeyValue> {
        let one = |(at, name): (usize, &&str)| {
            let (name, value) = name.split_once('=').unwrap_or((name, ""));
            let revision = i64::try_from(at).unwrap() + 10;
            let lease = name.split('/').next().and_then(|of| i64::from_str_radix(of, 16).ok());
            KeyValue {
                key: key(name),
                lease: lease.unwrap_or(0),
                create_revision: revision,
                mod_revision: revision,
                value: value.as_bytes().to_vec(),
            }
        };
        let mut found: Vec<_> = names.iter().enumerate().map(one).collect();
        found.reverse();
        found
    }

    /// An operator who writes the mark of a revocation has to say `--ignore-lease`, and may forget
    /// it.
    #[test]
    fn a_key_that_was_written_without_its_lease_is_where_it_was() {
        let (of, claim) = ("5".repeat(LEASE_DIGITS), "c".repeat(CLAIM_DIGITS));
        let (whose, _, is_ours) = read(&format!("{of}/{claim}/x"), 0).expect("it is in line");
        assert_eq!((whose, is_ours), (claim.clone(), true));
        assert!(read(&format!("a/{claim}/x"), 0).is_none(), "of the key `k/a`");
        assert!(read(&format!("{of}/{claim}/x"), 7).is_none(), "of another key as well");
    }

    fn line(names: &[&str]) -> Line {
        Line::of(PREFIX, &found(names))
    }

    fn holders(names: &[&str]) -> usize {
        line(names).holders().len()
    }

    #[test]
    fn who_stands_at_the_head_holds_the_key() {
        for (names, many) in [
            (&[][..], 0),
            (&["7a"], 1),
            (&["7a", "7b"], 1),
            (&["7a/c1/x", "7b/c2/r"], 1),
            (&["7a/c1/r", "7b/c2/r", "7c", "7d/c3/r"], 2),
            (&["7a/c1/x=__SHARED__ host", "7b/c2/r", "7b/c3/x"], 2),
            (&["7a/c1/c=__SHARED__ host", "7b/c2/r"], 1),
            (&["7a/c1/p2", "7a/c2/p2", "7a/c3/p2"], 2),
            (&["7a/c1/p2", "7a/c2/p3"], 1),
            (&["7a/c1/r", "7a/c2/p3"], 1),
            (&["7a/c1/odd", "7a/c2/r"], 1),
            (&["read/1753000000000000000", "7a/c1/r", "write/1753000000000000001"], 2),
            (&["write/1753000000000000001", "7a/c1/r"], 1),
        ] {
            assert_eq!(holders(names), many, "{names:?}");
        }
    }

    #[test]
    fn what_is_below_a_longer_path_is_in_no_line_but_its_own() {
        for name in [
            "{lock-sessions}/7a",
            "other/7a",
            "other/7a/c1/x",
            "other/key/7a/c1/x",
            "read/7a",
            "7b/key/x",
        ] {
            let line = line(&[name, "7a/c1/x"]);
            assert_eq!((line.len(), line.holders().len()), (1, 1), "{name}");
            assert!(line.standing(&key(name)).is_none(), "{name}");
        }
        // The parts are ours, and the lease is not.
        let mut stranger = found(&["7a/c1/x"]);
        stranger[0].lease = 0;
        assert_eq!(Line::of(PREFIX, &stranger).len(), 0);
    }

    #[test]
    fn each_waits_for_what_stands_in_its_way() {
        let line = line(&["7a", "7b/c1/r", "7b/c2/r", "7c", "7d/c3/p1", "7d/c4/x"]);
        let awaits = |name: &str| match line.standing(&key(name)).unwrap().awaits {
            Awaits::Nothing => b"nothing".to_vec(),
            Awaits::Any => b"any".to_vec(),
            Awaits::One(key) => key.to_vec(),
        };
        for (name, awaited) in [
            ("7a", b"nothing".to_vec()),
            ("7b/c1/r", key("7a")),
            ("7b/c2/r", key("7a")),
            ("7c", key("7b/c2/r")),
            ("7d/c3/p1", b"any".to_vec()),
            ("7d/c4/x", key("7d/c3/p1")),
        ] {
            assert_eq!(awaits(name), awaited, "{name}");
        }
        assert!(line.standing(b"locks/k/7e").is_none());
    }

    #[test]
    fn who_does_not_wait_is_let_in_where_nobody_is_in_the_way() {
        for (names, kind, is_open) in [
            (&[][..], Kind::Alone, true),
            (&["7a/c1/r"], Kind::Reader, true),
            (&["7a/c1/r"], Kind::Alone, false),
            (&["7a/c1/r", "7b"], Kind::Reader, false),
            (&["7a/c1/p2"], Kind::Permit(2), true),
            (&["7a/c1/p2", "7a/c2/p2"], Kind::Permit(2), false),
        ] {
            assert_eq!(line(names).is_open_to(kind), is_open, "{names:?} {kind:?}");
        }
    }

    #[test]
    fn a_number_that_is_had_is_given_to_nobody_else() {
        let slots = |names| line(names).free_slot();
        assert_eq!(slots(&["7a/c1/p9"]), 0);
        assert_eq!(slots(&["7a/c1/p9=__SLOT__0 h", "7a/c2/p9=__SLOT__2 h"]), 1);
        assert_eq!(slots(&["7a/c1/p9=__REVOKE__ __SLOT__0 h", "7a/c2/p9=__SLOT__1 h"]), 2);
    }

    #[test]
    fn a_name_is_read_as_it_is_written() {
        let id = ClaimId::from_bits(7);
        for kind in [Kind::Alone, Kind::Candidate, Kind::Reader, Kind::Permit(12)] {
            let name = name(PREFIX, 0x7fab, id, kind);
            let text = String::from_utf8(name[PREFIX.len()..].to_vec()).unwrap();
            assert_eq!(read(&text, 0x7fab), Some((id.to_string(), kind, true)));
        }
        assert_eq!(read("7fab", 0), Some(("7fab".to_owned(), Kind::Alone, false)));
    }
}
