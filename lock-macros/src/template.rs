//! The key template: literal text with `{name}`, `{a.b.0}` and, in the tuple form, `{}` and `{0}`.

use proc_macro2::Ident;
use syn::LitStr;

/// A piece of a template.
#[derive(Debug, PartialEq)]
pub(crate) enum Piece {
    /// Text with `{{` and `}}` resolved. Its ':' separate segments.
    Text(String),
    /// A place for a value, which becomes (part of) one segment whatever it contains.
    Hole(Hole),
}

/// A place for a value.
#[derive(Debug, PartialEq)]
pub(crate) enum Hole {
    /// `{}`
    Next,
    /// `{0}`
    Index(usize),
    /// `{name}` or `{name.field.0}`: an argument and what to take of it.
    Path(Vec<String>),
}

impl std::fmt::Display for Hole {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Hole::Next => Ok(()),
            Hole::Index(index) => write!(f, "{index}"),
            Hole::Path(names) => f.write_str(&names.join(".")),
        }
    }
}

/// Splits `lit` into its pieces.
pub(crate) fn parse(lit: &LitStr) -> syn::Result<Vec<Piece>> {
    pieces(&lit.value()).map_err(|why| syn::Error::new(lit.span(), why))
}

fn pieces(template: &str) -> Result<Vec<Piece>, String> {
    let mut pieces = Vec::new();
    let mut text = String::new();
    let mut rest = template;
    while let Some(at) = rest.find(['{', '}']) {
        text.push_str(&rest[..at]);
        let brace = &rest[at..=at];
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix(brace) {
            text.push_str(brace);
            rest = after;
        } else if brace == "}" {
            return Err("a `}` without its `{` in the key; write `}}` for the character".into());
        } else {
            let Some((inside, after)) = rest.split_once('}') else {
                return Err("a `{` without its `}` in the key; write `{{` for the character".into());
            };
            if !text.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut text)));
            }
            pieces.push(Piece::Hole(hole(inside)?));
            rest = after;
        }
    }
    text.push_str(rest);
    if !text.is_empty() {
        pieces.push(Piece::Text(text));
    }
    Ok(pieces)
}

fn hole(inside: &str) -> Result<Hole, String> {
    if inside.is_empty() {
        return Ok(Hole::Next);
    }
    if inside.contains([':', '!']) {
        return Err(format!(
            "`{{{inside}}}` has a format specification, which a key does not take; \
             write `key = (\"..{{}}..\", format_args!(..))`"
        ));
    }
    if inside.bytes().all(|b| b.is_ascii_digit()) {
        let index = inside.parse().map_err(|_| format!("`{{{inside}}}` is too large an index"))?;
        return Ok(Hole::Index(index));
    }
    let names: Vec<String> = inside.split('.').map(str::to_owned).collect();
    let (root, fields) = names.split_first().expect("split gives at least one part");
    if !is_name(root) || !fields.iter().all(|field| is_name(field) || is_index(field)) {
        return Err(format!(
            "`{{{inside}}}` is not a name or a field of one; for an expression write \
             `key = (\"..{{}}..\", expression)`"
        ));
    }
    Ok(Hole::Path(names))
}

fn is_name(text: &str) -> bool {
    text == "self" || syn::parse_str::<Ident>(text).is_ok()
}

fn is_index(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) && text.parse::<u32>().is_ok()
}

/// The first two holes that stand in one segment, with nothing but their values to tell them apart.
pub(crate) fn shared_segment(pieces: &[Piece]) -> Option<(&Hole, &Hole)> {
    let mut in_segment: Option<&Hole> = None;
    for piece in pieces {
        match piece {
            Piece::Text(text) if text.contains(':') => in_segment = None,
            Piece::Text(_) => {}
            Piece::Hole(hole) => {
                if let Some(first) = in_segment.replace(hole) {
                    return Some((first, hole));
                }
            }
        }
    }
    None
}

/// Bytes of fixed text.
pub(crate) fn text_bytes(pieces: &[Piece]) -> usize {
    pieces
        .iter()
        .map(|piece| match piece {
            Piece::Text(text) => text.len(),
            Piece::Hole(_) => 0,
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Piece {
        Piece::Text(text.into())
    }

    fn path(names: &[&str]) -> Piece {
        Piece::Hole(Hole::Path(names.iter().map(|name| (*name).into()).collect()))
    }

    #[test]
    fn a_template_is_text_and_places() {
        assert_eq!(
            pieces("order:{id}:{req.sku}/{self.0}").unwrap(),
            [
                text("order:"),
                path(&["id"]),
                text(":"),
                path(&["req", "sku"]),
                text("/"),
                path(&["self", "0"])
            ]
        );
        assert_eq!(
            pieces("{}:{12}").unwrap(),
            [Piece::Hole(Hole::Next), text(":"), Piece::Hole(Hole::Index(12))]
        );
    }

    #[test]
    fn doubled_braces_are_text() {
        assert_eq!(pieces("a{{b}}c").unwrap(), [text("a{b}c")]);
        assert_eq!(pieces("{{{id}}}").unwrap(), [text("{"), path(&["id"]), text("}")]);
        assert_eq!(pieces("").unwrap(), []);
        assert_eq!(pieces("é{id}ü").unwrap(), [text("é"), path(&["id"]), text("ü")]);
    }

    #[test]
    fn broken_templates_are_refused() {
        for template in [
            "{",
            "}",
            "a{id",
            "a}b",
            "{id:?}",
            "{id:>5}",
            "{a.}",
            "{.a}",
            "{a..b}",
            "{a b}",
            "{ }",
            "{a.len()}",
            "{a[0]}",
            "{0.a}",
            "{fn}",
            "{99999999999999999999}",
            "{a.99999999999}",
        ] {
            assert!(pieces(template).is_err(), "{template} should be refused");
        }
    }

    #[test]
    fn two_places_in_one_segment_are_found() {
        let found = |template: &str| shared_segment(&pieces(template).unwrap()).is_some();
        assert!(found("{a}{b}"));
        assert!(found("x:{a}-{b}"));
        assert!(!found("{a}:{b}"));
        assert!(!found("{a}-:-{b}"));
        assert!(!found("a:b"));
    }
}
