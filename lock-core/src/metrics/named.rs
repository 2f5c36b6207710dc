//! The series of locks that have a name, made when the name is first seen.
//!
//! A name is static text, of the source that is, so there are as many as the application has places
//! that lock. Should somebody make names as it goes, those behind the first [`NAMES_MAX`] are counted
//! as locks without a name.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use metrics::{Key, Label};

use super::names;
use crate::labels::{LOST, RefusedBy, WaitEnd};
use crate::lock_name::LockName;

/// The names that have series of their own.
pub(crate) const NAMES_MAX: usize = 1_000;

static TABLE: RwLock<Option<Table>> = RwLock::new(None);

#[derive(Debug, Default)]
struct Table {
    numbers: HashMap<&'static str, LockName>,
    /// By number.
    all: Vec<&'static OfName>,
}

/// The series of one name.
#[derive(Debug)]
pub(super) struct OfName {
    pub(super) wait: [Key; WaitEnd::ALL.len()],
    pub(super) hold: Key,
    pub(super) refused: [Key; RefusedBy::ALL.len()],
    pub(super) lost: [Key; LOST.len()],
}

impl OfName {
    fn new(name: &'static str) -> Self {
        let key = |of: &'static str, label: Option<(&'static str, &'static str)>| {
            let own = Label::from_static_parts("name", name);
            let other = label.map(|(label, value)| Label::from_static_parts(label, value));
            Key::from_parts(of, [own].into_iter().chain(other).collect::<Vec<_>>())
        };
        Self {
            wait: WaitEnd::ALL.map(|end| key(names::WAIT_SECONDS, Some(("outcome", end)))),
            hold: key(names::HOLD_SECONDS, None),
            refused: RefusedBy::ALL.map(|by| key(names::REFUSED_TOTAL, Some(("reason", by)))),
            lost: LOST.map(|reason| key(names::LOST_TOTAL, Some(("reason", reason)))),
        }
    }
}

/// The number of a name.
pub(crate) fn number(name: Option<&'static str>) -> LockName {
    let Some(name) = name else { return LockName::default() };
    let known = TABLE.read().unwrap_or_else(PoisonError::into_inner);
    let found = known.as_ref().and_then(|known| known.numbers.get(name).copied());
    drop(known);
    found.unwrap_or_else(|| add(name))
}

#[cold]
fn add(name: &'static str) -> LockName {
    let mut table = TABLE.write().unwrap_or_else(PoisonError::into_inner);
    let Table { numbers, all } = table.get_or_insert_default();
    if let Some(number) = numbers.get(name) {
        return *number;
    }
    match u16::try_from(all.len()) {
        Ok(place) if all.len() < NAMES_MAX => {
            all.push(Box::leak(Box::new(OfName::new(name))));
            numbers.insert(name, LockName::at(place));
            LockName::at(place)
        }
        _ => LockName::default(),
    }
}

/// The series of a name that has some.
pub(super) fn series_of(name: LockName) -> Option<&'static OfName> {
    let place = name.place()?;
    let table = TABLE.read().unwrap_or_else(PoisonError::into_inner);
    table.as_ref()?.all.get(place).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_number_and_too_many_names_have_none() {
        assert_eq!(number(None), LockName::default());
        let first = number(Some("the first"));
        assert_eq!(number(Some("the first")), first);
        assert_ne!(number(Some("the second")), first);
        let series = series_of(first).expect("it has some");
        let labels: Vec<_> = series.lost[0].labels().map(|label| label.value()).collect();
        assert_eq!(labels, ["the first", LOST[0]]);
        for nth in 0..2 * NAMES_MAX {
            number(Some(Box::leak(format!("one of many, {nth}").into_boxed_str())));
        }
        assert_eq!(number(Some("one too many")), LockName::default());
        assert_eq!(number(Some("the first")), first, "it keeps its number");
    }
}
