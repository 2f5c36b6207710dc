//! Statements over connections that are handed in.

use crate::sql::runs::runs;
use crate::sql::trouble::Trouble;

runs!(sqlx::Postgres, Trouble::of_postgres, spelled);

/// `$1`, `$2`, … in place of each `?`.
fn spelled(text: String) -> String {
    let mut pieces = text.split('?');
    let mut spelled = pieces.next().unwrap_or("").to_owned();
    for (place, piece) in pieces.enumerate() {
        spelled.push_str(&format!("${}{piece}", place + 1));
    }
    spelled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_numbered_in_their_order() {
        assert_eq!(spelled("a = ? AND b = ?".to_owned()), "a = $1 AND b = $2");
        assert_eq!(spelled("a".to_owned()), "a");
    }
}
