use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::backend::register::{self, Register, Turn};
use crate::backend::{ClaimId, Mode};
use crate::token::TokenBlock;

fn node(id: u32, kind: Kind, sequence: i64) -> String {
    format!("_c_{id:08x}-0000-0000-0000-000000000000-{}{sequence:010}", kind.mark())
}

fn lock(id: u32, sequence: i64) -> String {
    node(id, Kind::Mutex, sequence)
}

fn names<'a>(places: &[InLine<'a>]) -> Vec<&'a str> {
    places.iter().map(InLine::name).collect()
}

#[test]
fn the_number_decides_and_not_the_name_before_it() {
    let children = [lock(9, 1), lock(1, 3), lock(5, 2)];
    let line = Line::of(&children);
    assert_eq!(names(line.holders()), [&children[0]]);
    assert_eq!(names(line.waiters()), [&children[2], &children[1]]);
    let last = line.standing(&children[1]).unwrap();
    assert_eq!((last.ahead, last.awaits), (2, Some(children[2].as_str())));
    let first = line.standing(&children[0]).unwrap();
    assert_eq!(first, Standing { ahead: 0, awaits: None, wanted: true });
}

#[test]
fn a_lock_node_of_kazoo_that_was_taught_the_mark_queues_too() {
    let children = [lock(1, 7), "0b7c6a8dd1e24ef2a0f29ae2f1e6f2f4lock-0000000006".to_owned()];
    let standing = Line::of(&children).standing(&children[0]).unwrap();
    assert_eq!(standing.awaits, Some(children[1].as_str()));
}

#[test]
fn foreign_children_are_passed_over() {
    let foreign = "0 -x zzz lock- lock-x block  a-lock-1x locks leases __READ__ __WRIT__x \
                   _c_x-lease-0000000000 0b7c6a8d__lock__0000000000";
    let mut children: Vec<_> = foreign.split(' ').map(str::to_owned).collect();
    children.push(lock(1, 4));
    let line = Line::of(&children);
    let standing = line.standing(&lock(1, 4)).unwrap();
    assert_eq!(standing, Standing { ahead: 0, awaits: None, wanted: false });
    assert_eq!(names(line.holders()), [lock(1, 4)]);
    assert_eq!(line.len(), 1);
}

#[test]
fn a_node_that_is_gone_stands_nowhere() {
    assert_eq!(Line::of(&[lock(1, 4)]).standing(&lock(1, 5)), None);
    assert_eq!(Line::of(&[]).standing(&lock(1, 5)), None);
    assert_eq!(Line::of(&["zzz".to_owned()]).standing("zzz"), None);
}

/// A line by its letters, claims numbered from 0: `m`utexes, `w`riters, `r`eaders, and `d` for the
/// reader's node of the claim at the head.
fn children(letters: &str) -> Vec<String> {
    let node = |(index, letter)| match letter {
        'm' => node(index, Kind::Mutex, i64::from(index)),
        'w' => node(index, Kind::Writer, i64::from(index)),
        'r' => node(index, Kind::Reader, i64::from(index)),
        _ => node(0, Kind::Reader, i64::from(index)),
    };
    (0..).zip(letters.chars()).map(node).collect()
}

/// The node whose end each node waits for: `-` if it holds, `.` if it is no place.
#[test]
fn writers_wait_for_all_before_them_and_readers_for_writers() {
    for (letters, awaited) in [
        ("m", "-"),
        ("r", "-"),
        ("mm", "-0"),
        ("wm", "-0"),
        ("mw", "-0"),
        // kazoo#649: a reader that waited for the writer behind it would wait for ever.
        ("rw", "-0"),
        ("rrwr", "--12"),
        // A reader waits for the nearest of several writers, so that each end of one wakes few.
        ("rwmr", "-012"),
        ("mrrw", "-002"),
        ("wrmrr", "-0122"),
        // A writer that became a reader and keeps its place.
        ("md", "-."),
        ("wd", "-."),
        ("mrwd", "--1."),
        ("mrwdr", "--1.2"),
        ("mwdr", "-0.1"),
        ("mdr", "-.-"),
        ("mrd", "--."),
        ("mdrw", "-.-2"),
    ] {
        let children = children(letters);
        let line = Line::of(&children);
        for (own, wanted) in children.iter().zip(awaited.chars()) {
            let awaits = match wanted {
                '.' => {
                    assert_eq!(line.places[0].also, Some(own.as_str()), "{letters}");
                    continue;
                }
                '-' => None,
                digit => digit.to_digit(10).map(|at| children[at as usize].as_str()),
            };
            let standing = line.standing(own).unwrap();
            assert_eq!(standing.awaits, awaits, "{own} of {letters}");
            assert_eq!(
                standing.wanted,
                awaited.contains(|c: char| c.is_ascii_digit()),
                "{letters}"
            );
        }
    }
}

#[test]
fn who_does_not_queue_is_let_in_where_it_would_hold_at_once() {
    for (letters, reader, writer) in [
        ("", true, true),
        ("r", true, false),
        ("m", false, false),
        ("rw", false, false),
        ("rr", true, false),
        ("wd", true, false),
        ("mwd", false, false),
    ] {
        let children = children(letters);
        let line = Line::of(&children);
        assert_eq!(line.is_open_to(Kind::Reader), reader, "{letters}");
        assert_eq!(line.is_open_to(Kind::Mutex), writer, "{letters}");
        assert_eq!(line.is_open_to(Kind::Writer), writer, "{letters}");
    }
}

#[test]
fn a_holder_keeps_its_own_node_only_where_a_writer_would_be_let_in() {
    for (letters, has_writer) in [
        ("md", false),
        ("mrrd", false),
        ("mwd", true),
        ("wmd", true),
        ("mrwd", true),
        ("mdw", false),
    ] {
        let children = children(letters);
        let own = &children[letters.find('d').unwrap()];
        assert_eq!(Line::of(&children).has_writer_before(own), has_writer, "{letters}");
    }
}

/// Two clients that give their nodes no UUID are two claims, as are two with UUIDs of their own.
#[test]
fn only_a_claims_own_second_node_makes_it_a_reader() {
    let unprotected = ["lock-0000000001".to_owned(), "__READ__0000000002".to_owned()];
    let short = ["_c_1-lock-0000000001".to_owned(), "_c_1-__READ__0000000002".to_owned()];
    let two = [lock(1, 1), node(2, Kind::Reader, 2)];
    for children in [unprotected, short, two] {
        let line = Line::of(&children);
        assert!(!line.places[0].shares && line.waiters().len() == 1, "{children:?}");
    }
}

/// A newer Curator's downgraded writer has a reader with the number of its own.
#[test]
fn a_writer_comes_before_the_reader_with_its_number() {
    for (writer, reader) in [(1, 2), (2, 1)] {
        let children = [
            node(reader, Kind::Reader, 5),
            node(writer, Kind::Writer, 5),
            node(3, Kind::Writer, 6),
        ];
        let line = Line::of(&children);
        assert_eq!(names(line.holders()), [&children[1]]);
        assert_eq!(names(line.waiters()), [&children[0], &children[2]]);
    }
}

fn lease(id: u32, permit: Option<(u32, u32)>, sequence: i64) -> String {
    let tag = permit.map(|(slot, of)| format!("{}-", Permit { slot: Some(slot), of }));
    let name = node(id, Kind::Lease, sequence);
    let (claim, rest) = name.split_at(name.len() - "lease-0000000000".len());
    format!("{claim}{}{rest}", tag.unwrap_or_default())
}

#[test]
fn permits_are_counted_in_their_order_and_nothing_else_is() {
    let of_five = Some((2, 5));
    let children = [
        lease(9, None, 11),
        lock(1, 3),
        lease(1, of_five, 12),
        "lease-".to_owned(),
        lease(5, None, 2),
    ];
    let permits = Permits::of(&children);
    assert_eq!(permits.names(), [&children[4], &children[0], &children[2]]);
    assert!(permits.is_full(3) && !permits.is_full(4));
    assert_eq!(permits.limit(), Some(5));
    assert_eq!(Permits::of(&children[..2]).limit(), None);
    assert_eq!(claim(&children[2]), Some(&children[2][..PROTECTED.len() + UUID_CHARS]));
}

#[test]
fn a_node_of_ours_says_in_its_name_what_it_has_of_permits() {
    let uuid = "_c_00000001-0000-0000-0000-000000000000";
    for (slot, text) in [(None, "of5"), (Some(0), "slot0of5"), (Some(1_023), "slot1023of5")] {
        let permit = Permit { slot, of: 5 };
        assert_eq!(permit.to_string(), text);
        for mark in ["lock-", "lease-"] {
            let name = format!("{uuid}-{text}-{mark}0000000007");
            assert_eq!(Permit::of(&name), Some(permit), "{name}");
        }
    }
    for theirs in ["", "of", "slot1", "slot1of", "slotof5", "slotxof5", "of-5", "of5-x", "-of5"] {
        let name = format!("{uuid}-{theirs}-lease-0000000007");
        assert_eq!(Permit::of(&name), None, "{name}");
    }
    for name in ["", "of5-lease-0000000007", "_c_x-of5-lease-0000000007"] {
        assert_eq!(Permit::of(name), None, "{name}");
    }
    assert_eq!(Permit::of(&lock(1, 7)), None);
    assert_eq!(Permit::of(&format!("{uuid}-of5-lease-")), None);
}

#[test]
fn a_permit_gets_the_lowest_number_that_no_other_has() {
    for (slots, free) in [
        (&[][..], 0),
        (&[0], 1),
        (&[1], 0),
        (&[1, 0, 3], 2),
        (&[0, 0, 2], 1),
        (&[4, 3, 2, 1, 0], 5),
    ] {
        let mut children = vec![lease(99, None, 0)];
        children.extend((1..).zip(slots).map(|(at, slot)| lease(7, Some((*slot, 9)), at)));
        assert_eq!(Permits::of(&children).free_slot(), free, "{slots:?}");
    }
}

/// The one that came first goes on, whatever the later one has in common with it.
#[test]
fn of_two_permits_that_exclude_each_other_the_later_is_none() {
    let admit = |own: &str, children: &[String]| Permits::of(children).admit(own);
    let first = lease(5, Some((0, 3)), 1);
    for (second, is_good) in [((1, 3), true), ((0, 3), false), ((1, 4), false)] {
        let second = lease(2, Some(second), 2);
        let children = [second.clone(), first.clone()];
        assert_eq!(admit(&first, &children), Some(true), "{second}");
        assert_eq!(admit(&second, &children), Some(is_good), "{second}");
        assert_eq!(admit(&second, &children[1..]), None);
    }
    let last = lease(4, Some((2, 3)), 4);
    let children = [lease(1, None, 1), lease(2, None, 2), lease(3, None, 3), last.clone()];
    assert_eq!(admit(&last, &children), Some(false));
    assert_eq!(admit(&last, &children[1..]), Some(true));
}

#[test]
fn a_directory_is_refused_before_its_numbers_run_out_and_after() {
    for good in [0, 1, 1 << 30, SEQUENCE_END - 1] {
        assert!(!is_used_up(good), "{good}");
    }
    for bad in [SEQUENCE_END, i64::from(i32::MAX), i64::from(i32::MIN), -1, 1 << 40] {
        assert!(is_used_up(bad), "{bad}");
    }
    // So many claims may be under way while the last of them is answered.
    assert_eq!(i64::from(i32::MAX) - SEQUENCE_END, 65_536);
}

#[test]
fn the_number_of_a_node_is_what_the_server_gave_it() {
    for (name, sequence) in [
        ("_c_x-lock-0000000042", 42),
        ("lock--2147483648", -2_147_483_648),
        ("_c_x-__READ__0000000007", 7),
        ("_c_x-__WRIT__-2147483648", -2_147_483_648),
        ("_c_x-lease-0000000001", 1),
    ] {
        assert_eq!(number(name), sequence, "{name}");
    }
    assert!(is_used_up(number("lock-")) && is_used_up(number("config")));
}

/// A change that can happen to a line.
#[derive(Debug, Clone)]
enum Act {
    Comes(Kind),
    Leaves(prop::sample::Index),
    Downgrades,
}

fn act() -> impl Strategy<Value = Act> {
    let kind = prop_oneof![Just(Kind::Mutex), Just(Kind::Writer), Just(Kind::Reader)];
    prop_oneof![
        4 => kind.prop_map(Act::Comes),
        2 => any::<prop::sample::Index>().prop_map(Act::Leaves),
        1 => Just(Act::Downgrades),
    ]
}

/// A directory and the register that it should be one with.
struct Both {
    children: Vec<String>,
    register: Register<()>,
    next: u32,
    /// The claims, by the number in their nodes' names.
    claims: Vec<u32>,
}

fn id_of(name: &str) -> u32 {
    u32::from_str_radix(&name[3..11], 16).unwrap()
}

fn turn<A>(ask: impl FnOnce(&Turn<'_, ()>) -> A) -> A {
    let mint = |last: Option<u64>, _| TokenBlock::new(last.unwrap_or(0) + 1, last.unwrap_or(0) + 1);
    ask(&Turn { now: Duration::ZERO, mint: &mint, wake: &|()| {}, may_grant: true })
}

impl Both {
    fn create(&mut self, id: u32, kind: Kind) -> String {
        let name = node(id, kind, i64::from(self.next));
        self.next += 1;
        self.children.insert(self.children.len() / 2, name.clone());
        name
    }

    fn act(&mut self, act: Act) {
        let lease = Duration::from_secs(1);
        match act {
            Act::Comes(kind) => {
                let id = self.next;
                self.create(id, kind);
                self.claims.push(id);
                let mode = if kind == Kind::Reader { Mode::Shared } else { Mode::Exclusive };
                let claim = ClaimId::from_bits(u128::from(id));
                let place =
                    register::Place { claim, mode, lease, tokens_max: 1, due: None, with: () };
                let attempt = turn(|turn| self.register.attempt(place, true, turn));
                assert!(attempt.is_ok(), "no permits");
            }
            Act::Leaves(which) if !self.claims.is_empty() => {
                let id = self.claims.remove(which.index(self.claims.len()));
                self.children.retain(|name| id_of(name) != id);
                turn(|turn| self.register.withdraw(ClaimId::from_bits(u128::from(id)), turn));
            }
            Act::Leaves(_) => {}
            Act::Downgrades => {
                let line = Line::of(&self.children);
                let head = line.holders().first().filter(|place| !place.shares);
                let Some(head) = head.map(|head| head.name().to_owned()) else { return };
                let id = id_of(&head);
                let reader = self.create(id, Kind::Reader);
                if !Line::of(&self.children).has_writer_before(&reader) {
                    self.children.retain(|name| *name != head);
                }
                turn(|turn| {
                    self.register.downgrade(ClaimId::from_bits(u128::from(id)), lease, turn)
                });
            }
        }
    }
}

proptest! {
    /// One rule, whether a register decides or every claim by what it sees of the nodes.
    #[test]
    fn the_line_grants_as_the_register_does(acts in prop::collection::vec(act(), 1..40)) {
        let register = Register::default();
        let mut both = Both { children: Vec::new(), register, next: 0, claims: Vec::new() };
        for act in acts {
            both.act(act);
            let line = Line::of(&both.children);
            let ids = |places: &[InLine<'_>]| -> Vec<_> {
                places.iter().map(|place| (u128::from(id_of(place.name())), place.shares)).collect()
            };
            let of = |place: &register::Place<()>| (place.claim.bits(), place.mode == Mode::Shared);
            let mut holders = ids(line.holders());
            let mut owners: Vec<_> =
                both.register.owners(Duration::ZERO).map(|owner| of(&owner.place)).collect();
            holders.sort_unstable();
            owners.sort_unstable();
            prop_assert_eq!(holders, owners);
            let waiting: Vec<_> = both.register.line().map(of).collect();
            prop_assert_eq!(ids(line.waiters()), waiting);
            for (at, place) in line.places.iter().enumerate() {
                let standing = line.standing(place.name()).unwrap();
                prop_assert_eq!(standing.awaits.is_none(), at < line.holders);
                prop_assert_eq!(standing.ahead as usize, at);
                // A claim that is waited for came before: nobody waits in a circle.
                let before = names(&line.places[..at]);
                prop_assert!(standing.awaits.is_none_or(|other| before.contains(&other)));
            }
        }
    }
}
