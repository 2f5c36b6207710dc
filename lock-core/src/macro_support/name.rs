//! The name of an acquire that nobody named.

use crate::limits::NAME_BYTES_MAX;

/// The path of a function as a name: of a longer one the end, which tells more than the crate does.
#[must_use]
pub fn function_name(path: &'static str) -> &'static str {
    let mut start = path.len().saturating_sub(NAME_BYTES_MAX);
    while !path.is_char_boundary(start) {
        start += 1;
    }
    &path[start..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_any_length_makes_a_name() {
        assert_eq!(function_name("shop::buy"), "shop::buy");
        for path in ["shop::".repeat(40), "é".repeat(100), format!("{}x", "é".repeat(100))] {
            let path: &'static str = path.leak();
            let name = function_name(path);
            assert!(path.ends_with(name), "{name}");
            assert!((NAME_BYTES_MAX - 1..=NAME_BYTES_MAX).contains(&name.len()), "{name}");
        }
    }
}
