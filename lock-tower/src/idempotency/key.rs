//! The value of an `Idempotency-Key` header.
//!
//! ```text
//! value  = OWS ( quoted / bare ) OWS
//! quoted = DQUOTE 1*255( %x20-21 / %x23-5B / %x5D-7E / "\" DQUOTE / "\\" ) DQUOTE
//! bare   = 1*255( visible ASCII but DQUOTE "," ";" "\" )
//! ```
//!
//! `quoted` is a String of structured fields (RFC 9651, section 3.3.3), which the IETF draft asks
//! for. `bare` is what most clients send: it takes in UUIDs, ULIDs and base64. Both spellings of
//! one text are one key. The parameters that a structured field may have are refused, as the draft
//! names none: a key that one server cuts off and another does not would be two keys.

use std::borrow::Cow;

use http::header::HeaderValue;
use http::{HeaderMap, HeaderName};

/// The longest key: 255 bytes, counted without quotes and escapes.
pub const KEY_BYTES_MAX: usize = 255;

/// Why a request has no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyFault {
    /// No header line.
    Missing,
    /// More than one line, or a list in one, which means the same (RFC 9110, section 5.3).
    Repeated,
    Empty,
    TooLong,
    /// Control bytes, bytes that are not ASCII, an open quote, a bad escape, parameters.
    Syntax,
}

/// The key of a request.
pub(super) fn of_request<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
) -> Result<Cow<'a, [u8]>, KeyFault> {
    let mut lines = headers.get_all(name).iter();
    let line = lines.next().ok_or(KeyFault::Missing)?;
    if lines.next().is_some() {
        return Err(KeyFault::Repeated);
    }
    parse(HeaderValue::as_bytes(line))
}

/// The key in one header value.
pub(crate) fn parse(value: &[u8]) -> Result<Cow<'_, [u8]>, KeyFault> {
    let key = match trim(value) {
        [b'"', rest @ ..] => quoted(rest)?,
        value => bare(value)?,
    };
    match key.len() {
        0 => Err(KeyFault::Empty),
        1..=KEY_BYTES_MAX => Ok(key),
        _ => Err(KeyFault::TooLong),
    }
}

fn bare(value: &[u8]) -> Result<Cow<'_, [u8]>, KeyFault> {
    let stranger = value.iter().find(|byte| !is_bare(**byte));
    match stranger {
        None => Ok(Cow::Borrowed(value)),
        Some(b',') => Err(KeyFault::Repeated),
        Some(_) => Err(KeyFault::Syntax),
    }
}

fn is_bare(byte: u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b'"' | b',' | b';' | b'\\')
}

/// The key after the opening quote.
fn quoted(value: &[u8]) -> Result<Cow<'_, [u8]>, KeyFault> {
    let mut at = 0;
    // Filled from the first escape on; without one the key stands in the header as it is.
    let mut unescaped: Option<Vec<u8>> = None;
    loop {
        let byte = match value.get(at).ok_or(KeyFault::Syntax)? {
            b'"' => break,
            b'\\' => {
                let text = unescaped.get_or_insert_with(|| value[..at].to_vec());
                at += 1;
                let escaped = value.get(at).filter(|byte| matches!(byte, b'"' | b'\\'));
                text.push(*escaped.ok_or(KeyFault::Syntax)?);
                at += 1;
                continue;
            }
            byte @ b' '..=b'~' => *byte,
            _ => return Err(KeyFault::Syntax),
        };
        if let Some(text) = &mut unescaped {
            text.push(byte);
        }
        at += 1;
    }
    match trim(&value[at + 1..]) {
        [] => Ok(unescaped.map_or(Cow::Borrowed(&value[..at]), Cow::Owned)),
        [b',', ..] => Err(KeyFault::Repeated),
        _ => Err(KeyFault::Syntax),
    }
}

/// Without the blanks around it, which are no part of a field value.
fn trim(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn assert_parses(value: &str, expected: Result<&str, KeyFault>) {
        let parsed = parse(value.as_bytes());
        assert_eq!(parsed.as_deref(), expected.map(str::as_bytes).as_deref(), "{value:?}");
    }

    fn quote(key: &[u8]) -> Vec<u8> {
        let mut value = vec![b'"'];
        for byte in key {
            if matches!(byte, b'"' | b'\\') {
                value.push(b'\\');
            }
            value.push(*byte);
        }
        value.push(b'"');
        value
    }

    #[test]
    fn a_quoted_string_and_a_bare_token_of_the_same_text_are_one_key() {
        for value in ["\"k-1\"", "k-1", "  k-1", "\t\"k-1\" \t"] {
            assert_parses(value, Ok("k-1"));
        }
    }

    #[test]
    fn the_usual_kinds_of_keys_are_taken_bare() {
        for key in [
            "8e03978e-40d5-43e8-bc93-6894a57f9324",
            "01ARZ3NDEKTSV4RRFFQ69G5FAV",
            "KG5LxwFBepaKHyUD",
            "YWJj/+8=",
            "order:42@eu",
        ] {
            assert_parses(key, Ok(key));
        }
    }

    #[test]
    fn escapes_blanks_and_commas_belong_inside_quotes() {
        assert_parses(r#""a \"b\", \\c""#, Ok(r#"a "b", \c"#));
        for value in [r#""a\b""#, r#""a\"#, r#"a\"b"#, "a b", r#"a"b"#] {
            assert_parses(value, Err(KeyFault::Syntax));
        }
    }

    #[test]
    fn an_empty_key_is_none() {
        for value in ["", "  ", "\"\"", " \"\" "] {
            assert_parses(value, Err(KeyFault::Empty));
        }
    }

    #[test]
    fn a_list_is_refused_as_such() {
        for value in ["a,b", "a, b", ",", "\"a\",\"b\"", "\"a\" , b"] {
            assert_parses(value, Err(KeyFault::Repeated));
        }
    }

    #[test]
    fn parameters_an_open_quote_and_bytes_that_are_no_visible_ascii_are_refused() {
        for value in ["\"a\";v=1", "a;v=1", "\"a\" b", "\"a", "\"", "a\u{7f}", "\"a\n\"", "\"é\""]
        {
            assert_parses(value, Err(KeyFault::Syntax));
        }
    }

    #[test]
    fn a_key_has_at_most_255_bytes_without_quotes_and_escapes() {
        let (fits, long) = ("\\".repeat(255), "\\".repeat(256));
        let quoted = |key: &str| String::from_utf8(quote(key.as_bytes())).unwrap();
        assert_parses(&quoted(&fits), Ok(&fits));
        assert_parses(&quoted(&long), Err(KeyFault::TooLong));
        assert_parses(&"k".repeat(255), Ok(&"k".repeat(255)));
        assert_parses(&"k".repeat(256), Err(KeyFault::TooLong));
    }

    #[test]
    fn two_lines_are_refused_even_when_they_agree() {
        let name = HeaderName::from_static("idempotency-key");
        let mut headers = HeaderMap::new();
        assert_eq!(of_request(&headers, &name), Err(KeyFault::Missing));
        headers.append(&name, HeaderValue::from_static("a"));
        assert_eq!(of_request(&headers, &name).as_deref(), Ok(&b"a"[..]));
        headers.append(&name, HeaderValue::from_static("a"));
        assert_eq!(of_request(&headers, &name), Err(KeyFault::Repeated));
    }

    proptest! {
        /// The twin of the fuzz target `key_parser`.
        #[test]
        fn any_bytes_are_a_key_within_its_bounds_or_refused(
            value in proptest::collection::vec(any::<u8>(), 0..600),
        ) {
            crate::fuzzing::key_parser(&value);
        }

        #[test]
        fn bytes_of_the_grammar_are_a_key_within_its_bounds_or_refused(
            value in "[\"\\\\,; \ta-c\u{7f}]{0,12}",
        ) {
            crate::fuzzing::key_parser(value.as_bytes());
        }

        #[test]
        fn what_is_quoted_is_parsed_back(key in "[ -~]{1,255}") {
            let quoted = quote(key.as_bytes());
            let parsed = parse(&quoted);
            prop_assert_eq!(parsed.as_deref(), Ok(key.as_bytes()));
        }
    }
}
