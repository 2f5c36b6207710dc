//! The lease row of a key, and what it says.
//!
//! A key that one claim holds alone, and that nobody wants, is in plain columns, which one
//! statement can compare and write. All else is in two texts of a line for each claim:
//!
//! - `holders`: `claim mode until first last told slot flags about value`. Empty where the columns
//!   say it all.
//! - `line`: `claim mode lease tokens due about value`, in the order of the line.
//!
//! Times are in milliseconds since 1970, by the database's clock. The texts of users are
//! percent-encoded behind a `=`; without one it is `-`. Each change of a row moves its `version`.
//! A new row begins with the time in microseconds as its version, so none that was deleted comes
//! back: nobody writes a row so often.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use crate::backend::register::{Owner, Place, Register, ticks};
use crate::backend::{ClaimId, Mode};
use crate::token::{FencingToken, TokenBlock};
use crate::view::Leader;

/// The longest lease of a grant that its claim was not told of: one that died in the line holds the
/// key no longer.
pub(super) const CLAIM_LEASE: Duration = Duration::from_millis(1_500);

/// The holders of a key, and its waiters.
pub(super) type Entry = Register<With>;

/// The holder of the key of an election, if it stood for it.
pub(super) fn leader(entry: &Entry, now: Duration) -> Option<Leader> {
    entry.owners(now).find_map(|owner: &Owner<With>| {
        let token = owner.first.map(FencingToken::new);
        let value = owner.place.with.value.clone()?;
        Some(Leader::new(value, token, owner.place.claim.to_string()))
    })
}

/// The texts that are kept with a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct With {
    /// Its text about itself, for people.
    pub(super) about: Arc<str>,
    /// The value that it publishes, if it stands for election.
    pub(super) value: Option<Arc<str>>,
}

/// The columns of a row, but for the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    /// Another one after each change.
    pub(super) version: i64,
    /// The last token that was reserved for the key.
    pub(super) fence: i64,
    /// The size of the block that ends with it.
    pub(super) fences: i64,
    /// The first holder, if there is any.
    pub(super) holder: Option<String>,
    /// The text of the first holder about itself.
    pub(super) about: String,
    /// When the last of the leases ends, or the time of the last release.
    pub(super) until: i64,
    /// The holders, a line for each; empty where the other columns say it all.
    pub(super) holders: String,
    /// The waiters, a line for each, in order.
    pub(super) line: String,
}

impl Row {
    /// The holders and waiters that it tells of.
    ///
    /// # Errors
    ///
    /// A description of what is odd about it.
    pub(super) fn entry(&self) -> Result<Entry, String> {
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        let owners = match (&self.holder, &*self.holders) {
            (Some(holder), "") => vec![self.plain(holder)?],
            (_, holders) => {
                lines(holders).iter().map(|line| owner(line)).collect::<Result<_, _>>()?
            }
        };
        let line = lines(&self.line).iter().map(|line| waiter(line)).collect::<Result<Vec<_>, _>>();
        let last = u64::try_from(self.fence).map_err(|_| "`fence` is negative")?;
        Ok(Register::of(owners, line?, Some(last)))
    }

    /// The claim that holds the key, if it is the only one.
    pub(super) fn only_holder(&self) -> Option<&str> {
        self.holder.as_deref().filter(|_| self.holders.lines().count() <= 1)
    }

    /// The row after a turn at `now`, in place of the one that was `seen`.
    pub(super) fn of(entry: &Entry, seen: Option<&Self>, now: Duration) -> Self {
        let (owners, now_ms) = (entry.granted(), ms(now));
        let first = owners.first();
        let until = match owners.iter().map(|owner| ms(owner.until)).max() {
            Some(until) => until,
            None => seen.map_or(now_ms, |seen| seen.until.min(now_ms)),
        };
        let fences = match first {
            Some(owner) => count(owner.tokens.left()),
            None => seen.map_or(0, |seen| seen.fences),
        };
        Self {
            version: seen.map_or(now_ms.saturating_mul(1_000), |seen| seen.version.wrapping_add(1)),
            // Not 0, from which the next block would reach back behind one that was given and forgotten.
            fence: count(entry.last().unwrap_or_else(|| ticks(micros(now)))),
            fences,
            holder: first.map(|owner| owner.place.claim.to_string()),
            about: first.map_or_else(String::new, |owner| owner.place.with.about.to_string()),
            until,
            holders: match owners {
                [] => String::new(),
                [owner] if is_plain(owner, entry.last()) => String::new(),
                owners => text(owners, write_owner),
            },
            line: text(entry.line(), write_waiter),
        }
    }

    /// Whether it says the same as another, of whatever version.
    pub(super) fn says_the_same_as(&self, other: &Self) -> bool {
        *self == Self { version: self.version, ..other.clone() }
    }

    /// How many stand in the line before a claim; `None` where it does not.
    pub(super) fn place_of(&self, claim: ClaimId) -> Option<usize> {
        let name = claim.to_string();
        self.line.lines().position(|line| line.split(' ').next() == Some(&*name))
    }

    fn plain(&self, holder: &str) -> Result<Owner<With>, String> {
        let claim = claim(holder)?;
        let with = With { about: self.about.as_str().into(), value: None };
        let (last, size) = (whole(self.fence)?, whole(self.fences)?);
        let tokens = TokenBlock::new((last + 1).saturating_sub(size), last);
        Ok(held(claim, Mode::Exclusive, since(self.until), tokens, with))
    }
}

/// Whether the columns say all that there is to say.
fn is_plain(owner: &Owner<With>, last: Option<u64>) -> bool {
    owner.place.mode == Mode::Exclusive
        && owner.place.with.value.is_none()
        && owner.tokens.last() == last
        && !(owner.handed_on || owner.revoke_requested || owner.tried)
}

/// A holder of whom nothing else is known. Its lease and the most tokens are of no use until its
/// claim asks again, and says them then.
fn held(
    claim: ClaimId,
    mode: Mode,
    until: Duration,
    tokens: TokenBlock,
    with: With,
) -> Owner<With> {
    let (lease, tokens_max, due) = (Duration::ZERO, 1, None);
    let place = Place { claim, mode, lease, tokens_max, due, with };
    let (slot, handed_on, revoke_requested, tried) = (0, false, false, false);
    let first = tokens.first();
    Owner { place, until, tokens, first, slot, handed_on, revoke_requested, tried }
}

fn text<'a, T: 'a>(
    items: impl IntoIterator<Item = &'a T>,
    write: impl Fn(&mut String, &T) -> std::fmt::Result,
) -> String {
    let mut text = String::new();
    for item in items {
        // Nothing fails to be written into a string.
        let _never_fails = write(&mut text, item);
    }
    text
}

fn write_owner(text: &mut String, owner: &Owner<With>) -> std::fmt::Result {
    let Owner { place, until, tokens, first, slot, .. } = owner;
    let flags = [(owner.handed_on, 'h'), (owner.revoke_requested, 'r'), (owner.tried, 't')];
    let mut set: String = flags.iter().filter(|(is, _)| *is).map(|(_, flag)| *flag).collect();
    if set.is_empty() {
        set.push('-');
    }
    let (claim, mode, until) = (place.claim, mode_text(place.mode), ms(*until));
    let (start, end) = (tokens.first().unwrap_or(0), tokens.last().unwrap_or(0));
    let told = first.unwrap_or(start);
    let (about, value) = (encoded(Some(&place.with.about)), encoded(place.with.value.as_deref()));
    writeln!(text, "{claim} {mode} {until} {start} {end} {told} {slot} {set} {about} {value}")
}

fn owner(line: &str) -> Result<Owner<With>, String> {
    let mut fields = Fields::of(line);
    let (id, mode, until) = (claim(fields.next()?)?, mode(fields.next()?)?, fields.number()?);
    let tokens = TokenBlock::new(fields.number()?, fields.number()?);
    let (told, slot) = (fields.number()?, fields.number()?);
    let flags = fields.next()?;
    let with = fields.with()?;
    let until = Duration::from_millis(until);
    let owner = held(id, mode, until, tokens, with);
    Ok(Owner {
        first: Some(told),
        slot: u32::try_from(slot).map_err(|_| "a slot is too large")?,
        handed_on: flags.contains('h'),
        revoke_requested: flags.contains('r'),
        tried: flags.contains('t'),
        ..owner
    })
}

fn write_waiter(text: &mut String, place: &Place<With>) -> std::fmt::Result {
    let (claim, mode) = (place.claim, mode_text(place.mode));
    let lease = ms(place.lease.min(CLAIM_LEASE));
    let (tokens, due) = (place.tokens_max, ms(place.due.unwrap_or_default()));
    let (about, value) = (encoded(Some(&place.with.about)), encoded(place.with.value.as_deref()));
    writeln!(text, "{claim} {mode} {lease} {tokens} {due} {about} {value}")
}

fn waiter(line: &str) -> Result<Place<With>, String> {
    let mut fields = Fields::of(line);
    let (id, mode) = (claim(fields.next()?)?, mode(fields.next()?)?);
    let (lease, tokens_max, due) = (fields.number()?, fields.number()?, fields.number()?);
    Ok(Place {
        claim: id,
        mode,
        lease: Duration::from_millis(lease),
        tokens_max: u32::try_from(tokens_max).map_err(|_| "a number of tokens is too large")?,
        due: Some(Duration::from_millis(due)),
        with: fields.with()?,
    })
}

/// The fields of a line.
struct Fields<'a>(std::str::Split<'a, char>);

impl<'a> Fields<'a> {
    fn of(line: &'a str) -> Self {
        Self(line.split(' '))
    }

    fn next(&mut self) -> Result<&'a str, String> {
        self.0.next().ok_or_else(|| "a field is missing".to_owned())
    }

    fn number(&mut self) -> Result<u64, String> {
        self.next()?.parse().map_err(|_| "a field is no number".to_owned())
    }

    fn with(&mut self) -> Result<With, String> {
        let (about, value) = (decoded(self.next()?)?, decoded(self.next()?)?);
        Ok(With { about: about.unwrap_or_default().into(), value: value.map(Into::into) })
    }
}

fn encoded(text: Option<&str>) -> String {
    match text {
        None => "-".to_owned(),
        Some(text) => format!("={}", utf8_percent_encode(text, NON_ALPHANUMERIC)),
    }
}

fn decoded(field: &str) -> Result<Option<String>, String> {
    let text = field.strip_prefix('=').map(|text| percent_decode_str(text).decode_utf8());
    let text = text.transpose().map_err(|_| "a text is not UTF-8")?;
    Ok(text.map(String::from))
}

fn mode_text(mode: Mode) -> String {
    match mode {
        Mode::Exclusive => "x".to_owned(),
        Mode::Shared => "s".to_owned(),
        Mode::Permit { of } => format!("p{of}"),
    }
}

fn mode(field: &str) -> Result<Mode, String> {
    match (field, field.strip_prefix('p').map(str::parse)) {
        ("x", _) => Ok(Mode::Exclusive),
        ("s", _) => Ok(Mode::Shared),
        (_, Some(Ok(of))) => Ok(Mode::Permit { of }),
        _ => Err("a mode is unknown".to_owned()),
    }
}

pub(super) fn claim(field: &str) -> Result<ClaimId, String> {
    let bits = u128::from_str_radix(field, 16).map_err(|_| "a claim is no id")?;
    Ok(ClaimId::from_bits(bits))
}

/// A time in microseconds, of which tokens are made.
pub(super) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// A time in milliseconds, as in the columns.
pub(super) fn ms(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

fn since(time_ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(time_ms).unwrap_or(0))
}

fn count(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn whole(number: i64) -> Result<u64, String> {
    u64::try_from(number).map_err(|_| "a count is negative".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(about: &str, value: Option<&str>) -> With {
        With { about: about.into(), value: value.map(Into::into) }
    }

    fn place(bits: u128, mode: Mode, with: With) -> Place<With> {
        let (lease, due) = (Duration::from_millis(900), Some(Duration::from_millis(9_000)));
        Place { claim: ClaimId::from_bits(bits), mode, lease, tokens_max: 7, due, with }
    }

    fn shown(entry: &Entry) -> String {
        format!("{entry:?}")
    }

    #[test]
    fn a_row_says_what_was_written() {
        let now = Duration::from_millis(5_000);
        let ms = Duration::from_millis;
        let plain = held(
            ClaimId::from_bits(1),
            Mode::Exclusive,
            ms(6_000),
            TokenBlock::new(4, 9),
            with("pid=1", None),
        );
        let leads = Owner {
            place: Place { with: with("", Some("a b\n= ü%")), ..plain.place.clone() },
            first: Some(2),
            ..plain.clone()
        };
        let asked = Owner { revoke_requested: true, handed_on: true, ..plain.clone() };
        let permit = |bits, slot| Owner {
            place: Place {
                claim: ClaimId::from_bits(bits),
                mode: Mode::Permit { of: 3 },
                ..plain.place.clone()
            },
            slot,
            tokens: TokenBlock::new(9, 9),
            first: Some(9),
            ..plain.clone()
        };
        let line = || {
            [
                place(3, Mode::Shared, with("", None)),
                place(4, Mode::Exclusive, with("x y", Some(""))),
            ]
        };
        let cases = [
            (vec![], vec![]),
            (vec![plain.clone()], vec![]),
            (vec![plain.clone()], line().to_vec()),
            (vec![leads], line().to_vec()),
            (vec![asked], vec![]),
            (vec![permit(7, 0), permit(8, 2)], line().to_vec()),
        ];
        for (owners, line) in cases {
            let entry = Entry::of(owners, line, Some(9));
            let row = Row::of(&entry, None, now);
            assert_eq!(shown(&row.entry().unwrap()), shown(&entry), "{row:?}");
        }
    }

    #[test]
    fn one_who_waits_is_granted_no_long_lease() {
        let long =
            Place { lease: Duration::from_secs(60), ..place(3, Mode::Shared, with("", None)) };
        let row = Row::of(&Entry::of([], [long], Some(1)), None, Duration::ZERO);
        assert_eq!(row.entry().unwrap().line().next().unwrap().lease, CLAIM_LEASE);
    }

    #[test]
    fn what_is_odd_is_told() {
        let row = Row::of(&Entry::default(), None, Duration::ZERO);
        for odd in [
            "x",
            "zz x 1 1 1 - -",
            "1 y 1 1 1 - -",
            "1 x one 1 1 - -",
            "1 x 1 1 1 -",
            "1 x 1 1 1 - =%ff",
        ] {
            let row = Row { line: format!("{odd}\n"), ..row.clone() };
            assert!(row.entry().is_err(), "{odd}");
        }
        assert!(Row { holder: Some("me".into()), ..row }.entry().is_err());
    }
}
