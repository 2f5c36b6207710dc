//! The value that a JSON pointer means, as it is spelled in a body.

use std::fmt;

use serde_core::de::{
    Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::value::RawValue;

use super::template::Value;

/// A JSON pointer (RFC 6901).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pointer {
    text: Box<str>,
    tokens: Box<[String]>,
}

impl Pointer {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if !text.is_empty() && !text.starts_with('/') {
            return Err(format!("`{{{text}}}` is no JSON pointer, which begins with `/`"));
        }
        if text.replace("~0", "").replace("~1", "").contains('~') {
            return Err(format!("in `{{{text}}}`, a `~` is written `~0` and a `/` in a name `~1`"));
        }
        let token = |token: &str| token.replace("~1", "/").replace("~0", "~");
        Ok(Self { text: text.into(), tokens: text.split('/').skip(1).map(token).collect() })
    }

    /// Looks a scalar up, and reads the body to its end.
    ///
    /// The text of a number is the one in the body, since the value that a parser makes of it is
    /// the same for two that differ beyond the 64th bit. A member that is given twice on the way
    /// is `Several`, as parsers differ in which one they take. A member of a list is `Rejected` and
    /// not `Missing`: serde reads a struct from a list, too, so the handler may find a value there.
    pub(super) fn find(&self, body: &str) -> serde_json::Result<Value<'static>> {
        let mut parser = serde_json::Deserializer::from_str(body);
        let found = At(&self.tokens).deserialize(&mut parser)?;
        parser.end()?;
        match found {
            Found::Nothing => Ok(Value::Missing),
            Found::Twice => Ok(Value::Several),
            Found::NoObject => Ok(Value::Rejected("is not in an object")),
            Found::Value(value) => scalar(value.get()),
        }
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl PartialEq<str> for Pointer {
    fn eq(&self, text: &str) -> bool {
        *self.text == *text
    }
}

fn scalar(text: &str) -> serde_json::Result<Value<'static>> {
    Ok(match text.as_bytes().first() {
        Some(b'"') => Value::One(serde_json::from_str::<String>(text)?.into()),
        Some(b'{' | b'[') => Value::Rejected("is no string, number or boolean"),
        Some(b'n') => Value::Missing,
        // JSON allows no leading zeros and no `+`, so these are the only other spellings.
        Some(b'-' | b'0'..=b'9') if text == "-0" || text.contains(['.', 'e', 'E']) => {
            Value::NotCanonical("must be a whole number without fraction and exponent, or a string")
        }
        _ => Value::One(text.to_owned().into()),
    })
}

enum Found<'de> {
    Nothing,
    Twice,
    /// A member of a list, or anything of a string, number or boolean.
    NoObject,
    Value(&'de RawValue),
}

/// The rest of the pointer, which is to be looked up in a value.
struct At<'p>(&'p [String]);

impl<'de> DeserializeSeed<'de> for At<'_> {
    type Value = Found<'de>;

    fn deserialize<D: Deserializer<'de>>(self, parser: D) -> Result<Found<'de>, D::Error> {
        match self.0 {
            [] => Deserialize::deserialize(parser).map(Found::Value),
            [token, rest @ ..] => parser.deserialize_any(Step { token, rest }),
        }
    }
}

/// One token into a list or an object.
struct Step<'p> {
    token: &'p str,
    rest: &'p [String],
}

impl<'de> Visitor<'de> for Step<'_> {
    type Value = Found<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Found<'de>, A::Error> {
        let mut found = None;
        while let Some(wanted) = members.next_key_seed(Is(self.token))? {
            if wanted {
                let value = members.next_value_seed(At(self.rest))?;
                found = Some(if found.is_some() { Found::Twice } else { value });
            } else {
                members.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found.unwrap_or(Found::Nothing))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Found<'de>, A::Error> {
        let index = index(self.token);
        let mut found = if index.is_some() { Found::Nothing } else { Found::NoObject };
        for place in 0_usize.. {
            let more = if Some(place) == index {
                elements.next_element_seed(At(self.rest))?.map(|value| found = value)
            } else {
                elements.next_element::<IgnoredAny>()?.map(drop)
            };
            if more.is_none() {
                break;
            }
        }
        Ok(found)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Found<'de>, E> {
        Ok(Found::NoObject)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Found<'de>, E> {
        Ok(Found::NoObject)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Found<'de>, E> {
        Ok(Found::NoObject)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Found<'de>, E> {
        Ok(Found::NoObject)
    }

    fn visit_str<E>(self, _: &str) -> Result<Found<'de>, E> {
        Ok(Found::NoObject)
    }

    // A handler finds nothing in it either.
    fn visit_unit<E>(self) -> Result<Found<'de>, E> {
        Ok(Found::Nothing)
    }
}

/// The index of an element: a number without leading zeros, as RFC 6901 has it.
fn index(token: &str) -> Option<usize> {
    let index = token.parse::<usize>().ok()?;
    (index.to_string() == token).then_some(index)
}

/// Whether the name of a member is this one.
struct Is<'p>(&'p str);

impl<'de> DeserializeSeed<'de> for Is<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, parser: D) -> Result<bool, D::Error> {
        parser.deserialize_str(self)
    }
}

impl Visitor<'_> for Is<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a member")
    }

    fn visit_str<E>(self, name: &str) -> Result<bool, E> {
        Ok(name == self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(pointer: &str, body: &str) -> Option<Value<'static>> {
        Pointer::parse(pointer).unwrap().find(body).ok()
    }

    #[test]
    fn a_pointer_finds_what_serde_json_finds() {
        let body = r#" {"a":[{"b~/":"x","":"y"},true,[7]],"n":null,"d":{"e":-12}} "#;
        let parsed: serde_json::Value = serde_json::from_str(body).unwrap();
        for pointer in
            ["/a/0/b~0~1", "/a/0/", "/a/1", "/a/2/0", "/a/9", "/a/0/x", "/n", "/n/x", "/d/e", "/x"]
        {
            let expected = match parsed.pointer(pointer) {
                None | Some(serde_json::Value::Null) => Value::Missing,
                Some(serde_json::Value::String(text)) => Value::One(text.clone().into()),
                Some(scalar) => Value::One(scalar.to_string().into()),
            };
            assert_eq!(find(pointer, body), Some(expected), "{pointer}");
        }
        assert!(matches!(find("/a", body), Some(Value::Rejected(_))));
        assert!(matches!(find("", body), Some(Value::Rejected(_))));
        // A handler may find something where a pointer does not.
        for pointer in
            ["/a/02", "/a/+2", "/a/-", "/a/x", "/a/2/x", "/d/e/f", "/a/1/x", "/a/0/b~0~1/x"]
        {
            assert_eq!(parsed.pointer(pointer), None);
            assert!(matches!(find(pointer, body), Some(Value::Rejected(_))), "{pointer}");
        }
    }

    #[test]
    fn a_number_is_its_text_and_has_one() {
        for number in ["0", "-1", "18446744073709551617", "340282366920938463463374607431768211456"]
        {
            assert_eq!(
                find("/n", &format!(r#"{{"n":{number}}}"#)),
                Some(Value::One(number.into()))
            );
        }
        for number in ["-0", "1.0", "1e0", "1E+2", "0.5", "-0.0"] {
            let found = find("/n", &format!(r#"{{"n": {number} }}"#));
            assert!(matches!(found, Some(Value::NotCanonical(_))), "{number}: {found:?}");
        }
    }

    #[test]
    fn a_member_that_is_given_twice_on_the_way_is_several() {
        for (pointer, body) in [
            ("/a", r#"{"a":1,"a":1}"#),
            ("/a", r#"{"a":1,"\u0061":null}"#),
            ("/a", r#"{"a":1,"a":1,"a":1}"#),
            ("/a/b", r#"{"a":{"b":1},"a":0}"#),
            ("/a/b", r#"{"a":{"b":1,"b":2}}"#),
            ("/0/b", r#"[{"b":1,"b":2}]"#),
        ] {
            assert_eq!(find(pointer, body), Some(Value::Several), "{body}");
        }
        assert_eq!(find("/a", r#"{"b":1,"b":2,"a":3}"#), Some(Value::One("3".into())));
    }

    #[test]
    fn what_is_no_json_to_its_end_has_no_value() {
        for body in ["", "{", "1 2", r#"{"a":1}x"#, r#"{"a":01}"#, r#"{"a":"\ud800"}"#, "nul"] {
            assert_eq!(find("/a", body), None, "{body}");
        }
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        assert!(matches!(find("/0", &deep), Some(Value::Rejected(_))));
        assert_eq!(find(&"/0".repeat(1_000), &deep), None);
    }

    #[test]
    fn a_pointer_that_is_none_is_refused() {
        for text in ["a", "a/b", "/a~", "/~2"] {
            assert!(Pointer::parse(text).is_err(), "{text}");
        }
        assert_eq!(*Pointer::parse("/~01").unwrap().tokens, ["~1".to_owned()]);
    }
}
