//! `buy:{sku}`: a key with holes.

use std::sync::Arc;

use lock_core::{Key, KeyError};

/// A parsed template. A segment has one hole at most, because two in one segment could give one
/// key for two different pairs of values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Template {
    segments: Arc<[Segment]>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Segment {
    before: Box<str>,
    hole: Option<Box<str>>,
    after: Box<str>,
}

/// The name of a hole that has no value.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NoValue<'a>(pub(super) &'a str);

impl Template {
    /// Parses a template; the error is a sentence for its author.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let segments = text.split(':').map(Segment::parse);
        let segments = segments
            .collect::<Result<Arc<[_]>, _>>()
            .map_err(|reason| format!("bad key template `{text}`: {reason}"))?;
        if segments.iter().all(|segment| segment.hole.is_none()) {
            return Err(format!(
                "bad key template `{text}`: it has no `{{name}}`; use `fixed` for a constant key"
            ));
        }
        Ok(Self { segments })
    }

    /// Fills the holes; each value stays inside its segment, whatever it holds.
    pub(super) fn fill<'a>(
        &self,
        value_of: impl Fn(&str) -> Option<&'a str>,
    ) -> Result<Result<Key, KeyError>, NoValue<'_>> {
        let mut filled = Vec::with_capacity(self.segments.len());
        for Segment { before, hole, after } in &*self.segments {
            let value = match hole {
                Some(name) => value_of(name).ok_or(NoValue(name))?,
                None => "",
            };
            filled.push([before, value, after].concat());
        }
        Ok(Key::from_segments(filled))
    }
}

impl Segment {
    fn parse(text: &str) -> Result<Self, &'static str> {
        let Some((before, rest)) = text.split_once('{') else {
            return match text.contains('}') {
                true => Err("a `}` without its `{`"),
                false => Ok(Self { before: text.into(), hole: None, after: "".into() }),
            };
        };
        let (name, after) = rest.split_once('}').ok_or("a `{` without its `}`")?;
        if name.is_empty() || name.contains('{') || before.contains('}') {
            return Err("a parameter looks like `{name}`");
        }
        if after.contains(['{', '}']) {
            return Err("one parameter per segment: put a `:` between two");
        }
        Ok(Self { before: before.into(), hole: Some(name.into()), after: after.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(template: &str, values: &[(&str, &str)]) -> String {
        let template = Template::parse(template).unwrap();
        let value_of = |name: &str| values.iter().find(|(n, _)| *n == name).map(|(_, v)| *v);
        template.fill(value_of).unwrap().unwrap().to_string()
    }

    #[test]
    fn a_value_cannot_leave_its_segment() {
        assert_eq!(fill("buy:{sku}", &[("sku", "1:2/3")]), "buy:1%3A2%2F3");
        assert_eq!(fill("a{x}b:{y}", &[("x", "1"), ("y", "..")]), "a1b:%2E%2E");
    }

    #[test]
    fn a_template_that_is_not_one_is_refused_with_the_reason() {
        for (text, reason) in [
            ("buy", "no `{name}`"),
            ("buy:{", "without its `}`"),
            ("buy:}", "without its `{`"),
            ("buy:}{x}", "looks like"),
            ("buy:{}", "looks like"),
            ("{a}-{b}", "one parameter per segment"),
        ] {
            let error = Template::parse(text).unwrap_err();
            assert!(error.contains(reason) && error.contains(text), "{error}");
        }
    }

    #[test]
    fn a_hole_without_a_value_is_named() {
        let template = Template::parse("buy:{sku}").unwrap();
        assert_eq!(template.fill(|_| None), Err(NoValue("sku")));
    }
}
