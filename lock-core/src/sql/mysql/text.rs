//! A statement whose values have numbers.
//!
//! MySQL knows its values by their order alone, and says a value anew wherever it stands.

use std::sync::Arc;

use sqlx::mysql::MySqlArguments;
use sqlx::query::Query;
use sqlx::types::Text as Written;
use sqlx::{AssertSqlSafe, MySql};

use crate::backend::ClaimId;
use crate::key::Key;

/// A value. Keys and claims are what many of stand in a batch: those cost nothing to clone.
#[derive(Debug, Clone)]
pub(super) enum Arg {
    Key(Key),
    Claim(ClaimId),
    Text(String),
    MaybeText(Option<String>),
    Whole(i64),
}

/// A statement, and which of its values stand in it, in order.
#[derive(Debug, Clone)]
pub(super) struct Text {
    sql: Arc<str>,
    order: Arc<[usize]>,
}

impl Text {
    /// The text of a statement with `$1`, `$2`, … in place of its values.
    pub(super) fn new(numbered: &str) -> Self {
        let (mut sql, mut order) = (String::with_capacity(numbered.len()), Vec::new());
        let mut pieces = numbered.split('$');
        sql.push_str(pieces.next().unwrap_or(""));
        for piece in pieces {
            let digits = piece.bytes().take_while(u8::is_ascii_digit).count();
            let (number, rest) = piece.split_at(digits);
            order.push(number.parse::<usize>().unwrap_or(1).saturating_sub(1));
            sql.push('?');
            sql.push_str(rest);
        }
        Self { sql: sql.into(), order: order.into() }
    }

    pub(super) fn bound(&self, args: &[Arg]) -> Query<'static, MySql, MySqlArguments> {
        // The text is made of constants and of names of tables, which were checked.
        let query = sqlx::query(AssertSqlSafe(self.sql.clone()));
        let values = self.order.iter().filter_map(|place| args.get(*place));
        values.fold(query, |query, arg| match arg {
            Arg::Key(key) => query.bind(key.as_str()),
            Arg::Claim(claim) => query.bind(Written(claim)),
            Arg::Text(text) => query.bind(text.as_str()),
            Arg::MaybeText(text) => query.bind(text.as_deref()),
            Arg::Whole(number) => query.bind(*number),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_given_wherever_it_stands() {
        let text = Text::new("a = $2 AND b IN ($1, $2, $10)");
        assert_eq!(&*text.sql, "a = ? AND b IN (?, ?, ?)");
        assert_eq!(*text.order, [1, 0, 1, 9]);
        assert_eq!(&*Text::new("SELECT 1").sql, "SELECT 1");
    }
}
