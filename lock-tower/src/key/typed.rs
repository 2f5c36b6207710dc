//! Values that have one spelling.

use std::any::type_name;
use std::fmt::{Display, Write as _};
use std::str::FromStr;

/// Tells the one spelling of a value of some type from all others.
#[derive(Debug, Clone, Copy)]
pub(super) struct Typed {
    /// The type, as a client is told.
    pub(super) name: &'static str,
    is_canonical: fn(&str) -> bool,
}

impl Typed {
    pub(super) fn of<T: FromStr + Display>() -> Self {
        Self { name: short(type_name::<T>()), is_canonical: is_canonical::<T> }
    }

    pub(super) fn accepts(self, text: &str) -> bool {
        (self.is_canonical)(text)
    }
}

fn is_canonical<T: FromStr + Display>(text: &str) -> bool {
    let Ok(value) = text.parse::<T>() else { return false };
    let mut spelled = String::with_capacity(text.len());
    // Not `to_string`, which panics where `Display` gives up.
    write!(spelled, "{value}").is_ok() && spelled == text
}

/// `Uuid` of `uuid::Uuid`; where a program keeps a type is not the client's affair.
fn short(name: &'static str) -> &'static str {
    let plain = name.split('<').next().unwrap_or(name);
    plain.rsplit("::").next().unwrap_or(plain)
}

/// Gives an extractor with a `template` the options of typed parts.
macro_rules! typed_parts {
    ($name:ident) => {
        impl $name {
            /// Takes every value of the template for a `T`, and refuses what is not the one
            /// spelling of one: 400 `lock_key_not_canonical`. So no two spellings of one value
            /// are two locks.
            ///
            /// A value must parse as a `T` whose `Display` is the very text. Any type will do
            /// that displays equal values alike: integers, `bool` and `IpAddr` do, and so does
            /// `uuid::Uuid`, of which it takes lower case with hyphens; `f64` does not, as it has
            /// `0` and `-0`. The last word of the type's name goes to the client.
            #[must_use]
            pub fn parsed<T>(mut self) -> Self
            where
                T: std::str::FromStr + std::fmt::Display,
            {
                self.template.parsed::<T>();
                self
            }

            /// As [`parsed`](Self::parsed), for the one value of this name. The last call for a
            /// value counts.
            ///
            /// # Panics
            ///
            /// If the template has no such name.
            #[track_caller]
            #[must_use]
            pub fn part<T>(mut self, name: &str) -> Self
            where
                T: std::str::FromStr + std::fmt::Display,
            {
                self.template.part::<T>(name);
                self
            }
        }
    };
}
pub(super) use typed_parts;

#[cfg(test)]
mod tests {
    use std::fmt;

    use super::*;

    /// Takes any text, and cannot be displayed.
    struct Mute;

    impl FromStr for Mute {
        type Err = fmt::Error;

        fn from_str(_: &str) -> Result<Self, fmt::Error> {
            Ok(Self)
        }
    }

    impl Display for Mute {
        fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
            Err(fmt::Error)
        }
    }

    #[test]
    fn one_spelling_of_a_value_is_taken() {
        let (whole, signed, truth) = (Typed::of::<u64>(), Typed::of::<i8>(), Typed::of::<bool>());
        for (typed, text, taken) in [
            (whole, "0", true),
            (whole, "18446744073709551615", true),
            (whole, "18446744073709551616", false),
            (whole, "00", false),
            (whole, "-0", false),
            (whole, "+1", false),
            (whole, " 1", false),
            (whole, "1 ", false),
            (whole, "1.0", false),
            (whole, "1e0", false),
            (whole, "1_000", false),
            (whole, "\u{661}", false),
            (whole, "", false),
            (signed, "-1", true),
            (signed, "-0", false),
            (signed, "-01", false),
            (truth, "true", true),
            (truth, "TRUE", false),
            (truth, "1", false),
            (Typed::of::<std::net::IpAddr>(), "::1", true),
            (Typed::of::<std::net::IpAddr>(), "0:0:0:0:0:0:0:1", false),
            (Typed::of::<Mute>(), "a", false),
        ] {
            assert_eq!(typed.accepts(text), taken, "{text:?} as {}", typed.name);
        }
    }

    #[test]
    fn a_type_is_named_by_its_last_word() {
        assert_eq!(Typed::of::<u64>().name, "u64");
        assert_eq!(Typed::of::<Mute>().name, "Mute");
        assert_eq!(Typed::of::<std::num::NonZero<u64>>().name, "NonZero");
    }
}
