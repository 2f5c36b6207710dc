//! The line in a ZooKeeper lock directory, as Apache Curator orders it. The order is by the text
//! after the last `lock-` in the name of each child: the sequence number that the server gave it.
//!
//! Children without such a number are no members of the line. Curator counts them as holders that
//! never leave. Here they are passed over, which changes nothing among those who do queue.

/// What precedes the sequence number in the name of a lock node.
const MARK: &str = "lock-";

/// The server counts in 32 bits with a sign and then goes on below zero, which turns the order of
/// the line around. A directory is refused this long before.
const SEQUENCE_END: i64 = i32::MAX as i64 - (1 << 16);

/// The number by which a child is ordered, as text; `None` for a child that does not queue.
fn sequence(name: &str) -> Option<&str> {
    let (_, sequence) = name.rsplit_once(MARK)?;
    let digits = sequence.strip_prefix('-').unwrap_or(sequence);
    let queues = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    queues.then_some(sequence)
}

/// The number of a lock node; one that can serve no longer for any other child.
pub(crate) fn number(name: &str) -> i64 {
    sequence(name).and_then(|number| number.parse().ok()).unwrap_or(-1)
}

/// Whether a directory that gave out this sequence number can serve no longer.
pub(crate) fn is_used_up(sequence: i64) -> bool {
    !(0..SEQUENCE_END).contains(&sequence)
}

/// Where one child stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Standing<'a> {
    /// How many are ahead.
    pub(crate) ahead: u32,
    /// The last of them.
    pub(crate) predecessor: Option<&'a str>,
    /// Whether anybody is behind.
    pub(crate) followed: bool,
}

/// Where `own` stands among all children; `None` if it is not among them.
pub(crate) fn standing<'a>(children: &'a [String], own: &str) -> Option<Standing<'a>> {
    let place = (sequence(own)?, own);
    let mut present = false;
    let mut last: Option<(&str, &'a str)> = None;
    let mut standing = Standing { ahead: 0, predecessor: None, followed: false };
    for child in children {
        let Some(sequence) = sequence(child) else { continue };
        let other = (sequence, child.as_str());
        if other < place {
            standing.ahead += 1;
            last = last.max(Some(other));
        } else if other == place {
            present = true;
        } else {
            standing.followed = true;
        }
    }
    standing.predecessor = last.map(|(_, name)| name);
    present.then_some(standing)
}

/// The line from the holder on.
pub(crate) fn line(children: &[String]) -> Vec<&str> {
    let mut line: Vec<_> =
        children.iter().filter_map(|child| Some((sequence(child)?, child.as_str()))).collect();
    line.sort_unstable();
    line.into_iter().map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn node(id: u32, sequence: i64) -> String {
        format!("_c_{id:08x}-0000-0000-0000-000000000000-lock-{sequence:010}")
    }

    #[test]
    fn the_number_decides_and_not_the_name_before_it() {
        let children = [node(9, 1), node(1, 3), node(5, 2)];
        assert_eq!(line(&children), [&children[0], &children[2], &children[1]]);
        let last = standing(&children, &children[1]).unwrap();
        assert_eq!((last.ahead, last.predecessor), (2, Some(children[2].as_str())));
        assert!(!last.followed);
        let first = standing(&children, &children[0]).unwrap();
        assert_eq!(first, Standing { ahead: 0, predecessor: None, followed: true });
    }

    #[test]
    fn a_lock_node_of_kazoo_that_was_taught_the_mark_queues_too() {
        let children = [node(1, 7), "0b7c6a8dd1e24ef2a0f29ae2f1e6f2f4lock-0000000006".to_owned()];
        let standing = standing(&children, &children[0]).unwrap();
        assert_eq!(standing.predecessor, Some(children[1].as_str()));
    }

    #[test]
    fn foreign_children_are_passed_over() {
        let mut children: Vec<_> = ["0", "-x", "zzz", "lock-", "lock-x", "block", "", "a-lock-1x"]
            .map(str::to_owned)
            .into();
        children.push(node(1, 4));
        let standing = standing(&children, &node(1, 4)).unwrap();
        assert_eq!(standing, Standing { ahead: 0, predecessor: None, followed: false });
        assert_eq!(line(&children), [node(1, 4)]);
    }

    #[test]
    fn a_node_that_is_gone_stands_nowhere() {
        assert_eq!(standing(&[node(1, 4)], &node(1, 5)), None);
        assert_eq!(standing(&[], &node(1, 5)), None);
        assert_eq!(standing(&["zzz".to_owned()], "zzz"), None);
    }

    #[test]
    fn a_directory_is_refused_before_its_numbers_run_out_and_after() {
        for good in [0, 1, 1 << 30, SEQUENCE_END - 1] {
            assert!(!is_used_up(good), "{good}");
        }
        for bad in [SEQUENCE_END, i64::from(i32::MAX), i64::from(i32::MIN), -1, 1 << 40] {
            assert!(is_used_up(bad), "{bad}");
        }
        // As many claims as may be under way while the last of them is answered.
        assert_eq!(i64::from(i32::MAX) - SEQUENCE_END, 65_536);
    }

    #[test]
    fn the_number_of_a_node_is_what_the_server_gave_it() {
        for (name, sequence) in [("_c_x-lock-0000000042", 42), ("lock--2147483648", -2_147_483_648)]
        {
            assert_eq!(number(name), sequence, "{name}");
        }
        assert!(is_used_up(number("lock-")) && is_used_up(number("config")));
    }

    proptest! {
        #[test]
        fn every_place_agrees_with_the_line(numbers in prop::collection::btree_set(0_i64..100_000, 1..40)) {
            let children: Vec<_> =
                numbers.iter().rev().map(|&number| node(number as u32 % 7, number)).collect();
            let line = line(&children);
            for (index, name) in line.iter().enumerate() {
                let standing = standing(&children, name).unwrap();
                prop_assert_eq!(standing.ahead as usize, index);
                prop_assert_eq!(standing.predecessor, index.checked_sub(1).map(|at| line[at]));
                prop_assert_eq!(standing.followed, index + 1 < line.len());
            }
        }
    }
}
