//! Keys that a store could take for something else.

use lock_core::Key;
use lock_core::key::IntoKey;

/// Texts that some store reads in a way of its own.
const STRANGE: [&str; 42] = [
    "\0",
    "{",
    "}",
    "{}",
    "}{",
    "{a}b",
    "a{b}",
    "{lock-sessions}",
    "/",
    "a/b",
    "/a",
    "a/",
    "\n",
    "\r\n",
    ".",
    "..",
    "../..",
    "./a",
    "%",
    "%7B",
    "%2525",
    " ",
    "a b",
    "é",
    "e\u{301}",
    "😀",
    "\u{feff}",
    "\u{e000}",
    "\u{fff0}",
    "\u{7f}",
    ":queue",
    ":fence",
    "a:b",
    "a::b",
    ":",
    "::",
    "zookeeper:x",
    "Zookeeper",
    "lock:{a}",
    "*",
    "?",
    "[a]",
];

/// Such keys, the longest that there can be, and some that differ only in where their segments end.
/// No two of them are one key.
///
/// # Panics
///
/// If one of them is refused.
#[must_use]
pub fn strange_keys() -> Vec<Key> {
    let segments =
        [&["a:b", "c"][..], &["a", "b:c"], &["a", "b", "c"], &["", "", "", ""], &["a", ""]];
    let texts = STRANGE.iter().map(|text| text.into_key());
    let segments = segments.iter().map(|list| Key::from_segments(*list));
    let all: Result<_, _> = texts.chain(["k".repeat(512).into_key()]).chain(segments).collect();
    all.expect("good keys")
}
