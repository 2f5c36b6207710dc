//! The values of a statement, in place of `$1`, `$2`, …
//!
//! Over a connection of our own a value is bound to a statement that the server has prepared.
//! Behind a pooler that gives each transaction another connection a prepared statement may be
//! missing, and even an unnamed one is gone between its two halves: there the values are written
//! into the text.

use std::fmt::Write as _;
use std::sync::Arc;

use sqlx::Postgres;
use sqlx::postgres::PgArguments;
use sqlx::query::Query;

/// A value.
#[derive(Debug, Clone)]
pub(super) enum Arg {
    Text(String),
    MaybeText(Option<String>),
    Texts(Arc<[String]>),
    Whole(i64),
    Wholes(Arc<[i64]>),
}

type Bound<'q> = Query<'q, Postgres, PgArguments>;

impl Arg {
    pub(super) fn bind<'q>(&self, query: Bound<'q>) -> Bound<'q> {
        match self {
            Self::Text(text) => query.bind(text.as_str()),
            Self::MaybeText(text) => query.bind(text.as_deref()),
            Self::Texts(texts) => query.bind(&**texts),
            Self::Whole(number) => query.bind(*number),
            Self::Wholes(numbers) => query.bind(&**numbers),
        }
    }

    fn write(&self, into: &mut String) {
        match self {
            Self::Text(text) | Self::MaybeText(Some(text)) => write_text(text, into),
            Self::MaybeText(None) => into.push_str("NULL::text"),
            Self::Texts(texts) => {
                into.push_str("ARRAY[");
                for (place, text) in texts.iter().enumerate() {
                    if place > 0 {
                        into.push(',');
                    }
                    write_text(text, into);
                }
                into.push_str("]::text[]");
            }
            Self::Whole(number) => {
                // In brackets, as a minus binds more loosely than the cast.
                let _never_fails = write!(into, "({number})::bigint");
            }
            Self::Wholes(numbers) => {
                let numbers: Vec<_> = numbers.iter().map(ToString::to_string).collect();
                let _never_fails = write!(into, "ARRAY[{}]::bigint[]", numbers.join(","));
            }
        }
    }
}

/// An escape string means the same whatever `standard_conforming_strings` says.
fn write_text(text: &str, into: &mut String) {
    into.push_str("E'");
    for c in text.chars() {
        match c {
            '\'' => into.push_str("''"),
            '\\' => into.push_str("\\\\"),
            // No text of PostgreSQL can hold it. A key has none, and other texts are encoded.
            '\0' => {}
            c => into.push(c),
        }
    }
    into.push_str("'::text");
}

/// The statement with its values written into it.
pub(super) fn written(statement: &str, args: &[Arg]) -> String {
    let mut pieces = statement.split('$');
    let mut text = pieces.next().unwrap_or("").to_owned();
    for piece in pieces {
        let digits = piece.bytes().take_while(u8::is_ascii_digit).count();
        let (number, rest) = piece.split_at(digits);
        let place = number.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
        match place.and_then(|place| args.get(place)) {
            Some(arg) => arg.write(&mut text),
            None => {
                text.push('$');
                text.push_str(number);
            }
        }
        text.push_str(rest);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_so_that_nothing_ends_them() {
        let args = [
            Arg::Text("it's \\ a $2".to_owned()),
            Arg::Whole(-7),
            Arg::MaybeText(None),
            Arg::Texts(["a", "'); DROP"].map(str::to_owned).into()),
            Arg::Wholes([1, -2].into()),
        ];
        assert_eq!(
            written("SELECT $1, $2, $3, name = ANY($4), $10, $5", &args),
            r"SELECT E'it''s \\ a $2'::text, (-7)::bigint, NULL::text, name = ANY(ARRAY[E'a'::text,E'''); DROP'::text]::text[]), $10, ARRAY[1,-2]::bigint[]"
        );
    }
}
