//! `order:{id}`: a key with holes, which each extractor fills from its own place in a request.

use std::borrow::Cow;
use std::fmt::{self, Display};
use std::str::FromStr;
use std::sync::Arc;

use lock_core::Key;

use super::extractor::KeyOutcome;
use super::typed::Typed;
use crate::answer::Reject;

const NOT_CANONICAL: &str = "lock_key_not_canonical";

/// The words of the messages about a template.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kind {
    /// The function that takes the template.
    pub(super) call: &'static str,
    /// The thing that a hole stands for; its name follows.
    pub(super) what: &'static str,
}

/// A parsed template.
///
/// The first segment is fixed text, so templates that begin with different ones never give one
/// key. Each other segment has one hole at most, because two in one segment could give one key for
/// two different pairs of values.
#[derive(Debug, Clone)]
pub(super) struct Template<N> {
    kind: Kind,
    segments: Arc<[Segment<N>]>,
    optional: bool,
}

/// The part between two `:` of a template.
#[derive(Debug, Clone)]
enum Segment<N> {
    Fixed(Box<str>),
    Hole(Hole<N>),
}

#[derive(Debug, Clone)]
struct Hole<N> {
    before: Box<str>,
    name: N,
    after: Box<str>,
    typed: Option<Typed>,
}

/// The value that a request has for a hole.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    Missing,
    One(Cow<'a, str>),
    Several,
    /// The words that follow the name of the hole in the sentence for people.
    Rejected(&'static str),
    /// As `Rejected`, for one of several spellings.
    NotCanonical(&'static str),
}

impl<N: Display + PartialEq<str> + Clone> Template<N> {
    /// Parses a template; panics with a sentence for its author.
    #[track_caller]
    pub(super) fn new(kind: Kind, text: &str, named: impl Fn(&str) -> Result<N, String>) -> Self {
        match Self::parse(kind, text, named) {
            Ok(template) => template,
            Err(reason) => panic!("bad key template `{text}`: {reason}"),
        }
    }

    fn parse(
        kind: Kind,
        text: &str,
        named: impl Fn(&str) -> Result<N, String>,
    ) -> Result<Self, String> {
        let segments = split(text).map(|segment| Segment::parse(segment, &named));
        let segments = segments.collect::<Result<Arc<[_]>, _>>()?;
        let call = kind.call;
        if segments.iter().all(|segment| matches!(segment, Segment::Fixed(_))) {
            return Err(match named(text) {
                Ok(_) if !text.contains(':') => {
                    format!("it has no `{{name}}`: write `{call}(\"order:{{{text}}}\")`")
                }
                _ => "it has no `{name}`; use `fixed` for a constant key".into(),
            });
        }
        if !matches!(&segments[0], Segment::Fixed(text) if !text.is_empty()) {
            let rest = text.trim_start_matches(':');
            return Err(format!(
                "its first segment must be fixed text that says what the key names, or other \
                 routes share its locks unasked: write `{call}(\"order:{rest}\")`"
            ));
        }
        Ok(Self { kind, segments, optional: false })
    }

    /// Has every hole take the one spelling of a `T`.
    pub(super) fn parsed<T: FromStr + Display>(&mut self) {
        self.holes().for_each(|hole| hole.typed = Some(Typed::of::<T>()));
    }

    /// Has the hole of this name take the one spelling of a `T`.
    #[track_caller]
    pub(super) fn part<T: FromStr + Display>(&mut self, name: &str) {
        let mut found = false;
        for hole in self.holes().filter(|hole| hole.name == *name) {
            hole.typed = Some(Typed::of::<T>());
            found = true;
        }
        assert!(found, "the key template has no `{{{name}}}`");
    }

    /// Has a request without a value run without a lock.
    pub(super) fn optional(&mut self) {
        self.optional = true;
    }

    /// How many segments every key has.
    pub(super) fn segments(&self) -> usize {
        self.segments.len()
    }

    /// Fills the holes; each value stays inside its segment, whatever it holds.
    pub(super) fn fill<'a>(
        &'a self,
        value_of: impl Fn(&N) -> Result<Value<'a>, Reject>,
    ) -> KeyOutcome {
        match self.filled(value_of) {
            Ok(Some(segments)) => Key::from_segments(segments).into(),
            Ok(None) => KeyOutcome::Skip,
            Err(reject) => reject.into(),
        }
    }

    fn filled<'a>(
        &'a self,
        value_of: impl Fn(&N) -> Result<Value<'a>, Reject>,
    ) -> Result<Option<Vec<Cow<'a, str>>>, Reject> {
        let mut filled = Vec::with_capacity(self.segments.len());
        // A value that is refused decides even after one that is missing.
        let mut whole = true;
        for segment in &*self.segments {
            match segment {
                Segment::Fixed(text) => filled.push(Cow::Borrowed(&**text)),
                Segment::Hole(hole) => match self.accept(hole, value_of(&hole.name)?)? {
                    Some(value) => filled.push(hole.around(value)),
                    None => whole = false,
                },
            }
        }
        Ok(whole.then_some(filled))
    }

    fn accept<'a>(&self, hole: &Hole<N>, value: Value<'a>) -> Result<Option<Cow<'a, str>>, Reject> {
        let reject = |code, why: fmt::Arguments<'_>| {
            Err(Reject::bad(code, format!("{} `{}` {why}", self.kind.what, hole.name)))
        };
        match value {
            Value::Missing if self.optional => Ok(None),
            Value::Missing => reject("lock_key_missing", format_args!("is missing")),
            // Not even where it is optional: the handler would see a value, and hold no lock.
            Value::One(text) if text.is_empty() => {
                reject("lock_key_missing", format_args!("is empty"))
            }
            Value::One(text) => match hole.typed.filter(|typed| !typed.accepts(&text)) {
                None => Ok(Some(text)),
                Some(Typed { name, .. }) => {
                    reject(NOT_CANONICAL, format_args!("must be a `{name}` in its one spelling"))
                }
            },
            Value::Several => reject("lock_key_ambiguous", format_args!("is given more than once")),
            Value::Rejected(why) => reject("lock_key_rejected", format_args!("{why}")),
            Value::NotCanonical(why) => reject(NOT_CANONICAL, format_args!("{why}")),
        }
    }

    fn holes(&mut self) -> impl Iterator<Item = &mut Hole<N>> {
        Arc::make_mut(&mut self.segments).iter_mut().filter_map(|segment| match segment {
            Segment::Hole(hole) => Some(hole),
            Segment::Fixed(_) => None,
        })
    }
}

impl<N> Hole<N> {
    /// The segment with its value.
    fn around<'a>(&self, value: Cow<'a, str>) -> Cow<'a, str> {
        match (&*self.before, &*self.after) {
            ("", "") => value,
            (before, after) => Cow::Owned([before, &*value, after].concat()),
        }
    }
}

impl<N> Segment<N> {
    fn parse(text: &str, named: impl Fn(&str) -> Result<N, String>) -> Result<Self, String> {
        let Some((before, rest)) = text.split_once('{') else {
            return match text.contains('}') {
                true => Err("a `}` without its `{`".into()),
                false => Ok(Self::Fixed(text.into())),
            };
        };
        let (name, after) = rest.split_once('}').ok_or("a `{` without its `}`")?;
        if name.contains('{') || before.contains('}') {
            return Err("a part looks like `{name}`, with no brace in the name".into());
        }
        if after.contains(['{', '}']) {
            return Err("one part per segment: put a `:` between two".into());
        }
        let (before, after) = (before.into(), after.into());
        Ok(Self::Hole(Hole { before, name: named(name)?, after, typed: None }))
    }
}

/// The segments, where a `:` inside braces belongs to the name.
fn split(text: &str) -> impl Iterator<Item = &str> {
    let mut inside = false;
    text.split(move |char| {
        inside = char == '{' || inside && char != '}';
        char == ':' && !inside
    })
}

/// The name of a hole that can be anything but empty.
pub(super) fn any_name(name: &str) -> Result<String, String> {
    match name {
        "" => Err("a part looks like `{name}`".into()),
        name => Ok(name.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: Kind = Kind { call: "query", what: "the query parameter" };

    fn parse(text: &str) -> Result<Template<String>, String> {
        Template::parse(KIND, text, any_name)
    }

    fn fill(template: &Template<String>, values: &[(&str, &str)]) -> Result<String, &'static str> {
        let value_of = |name: &String| {
            let found = values.iter().find(|(other, _)| other == name);
            Ok(found.map_or(Value::Missing, |(_, value)| Value::One((*value).into())))
        };
        match template.fill(value_of) {
            KeyOutcome::Lock(key) => Ok(key.to_string()),
            KeyOutcome::Skip => Ok("-".into()),
            KeyOutcome::Reject(reject) => Err(reject.code().unwrap()),
        }
    }

    #[test]
    fn a_value_cannot_leave_its_segment() {
        for (template, values, key) in [
            ("buy:{sku}", &[("sku", "1:2/3")][..], "buy:1%3A2%2F3"),
            ("a:{x}b:{y}", &[("x", "1"), ("y", "..")], "a:1b:%2E%2E"),
            ("a:{x:y}", &[("x:y", "1")], "a:1"),
        ] {
            assert_eq!(fill(&parse(template).unwrap(), values).as_deref(), Ok(key), "{template}");
        }
    }

    #[test]
    fn a_template_that_is_not_one_is_refused_with_the_reason() {
        for (text, reason) in [
            ("x-order", r#"write `query("order:{x-order}")`"#),
            ("buy:all", "use `fixed`"),
            ("buy:{", "without its `}`"),
            ("buy:}", "without its `{`"),
            ("buy:}{x}", "looks like"),
            ("buy:{}", "looks like"),
            ("buy:{a{b}", "looks like"),
            ("buy:{a}-{b}", "one part per segment"),
            ("{sku}", r#"write `query("order:{sku}")`"#),
            ("{a}:buy:{b}", r#"write `query("order:{a}:buy:{b}")`"#),
            (":{sku}", r#"write `query("order:{sku}")`"#),
            ("buy-{sku}", "first segment"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    #[test]
    fn a_hole_that_is_refused_decides_over_one_that_is_missing() {
        let mut template = parse("a:{x}:{y}").unwrap();
        assert_eq!(fill(&template, &[("y", "1")]), Err("lock_key_missing"));
        template.optional();
        template.part::<u64>("y");
        assert_eq!(fill(&template, &[("y", "1")]).as_deref(), Ok("-"));
        assert_eq!(fill(&template, &[("y", "01")]), Err(NOT_CANONICAL));
        assert_eq!(fill(&template, &[("x", ""), ("y", "1")]), Err("lock_key_missing"));
        assert_eq!(fill(&template, &[("x", "01"), ("y", "1")]).as_deref(), Ok("a:01:1"));
    }
}
