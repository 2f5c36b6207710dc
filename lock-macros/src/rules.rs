//! The text of every refusal, one per rule, so that an error reads the same wherever it is found.

use std::time::Duration;

/// The options in the order in which errors list them.
pub(crate) const OPTIONS: [&str; 19] = [
    "key",
    "keys",
    "client",
    "shared",
    "permits",
    "wait",
    "retries",
    "lease",
    "hold",
    "min_hold",
    "admission",
    "name",
    "guard",
    "on_busy",
    "on_lost",
    "when",
    "reentrant",
    "blocking",
    "crate",
];

// The features of lock-core that an expansion calls for. lock-core turns on ours with its own, so
// that what is missing is named here. Unit tests are built without lock-core.
pub(crate) const HAS_AXUM: bool = cfg!(any(feature = "axum", test));
pub(crate) const HAS_IDEMPOTENT: bool = cfg!(any(feature = "idempotent", test));

pub(crate) const STATE_WITHOUT_AXUM: &str = "the client is taken from axum's `State` by the \
    feature `axum` of lock-core, which is off: add `features = [\"axum\"]` to lock-core in \
    Cargo.toml (it is a default), or say where the client is with `client = ...`";
pub(crate) const RESPONSE_WITHOUT_AXUM: &str = "`impl IntoResponse` is made by the feature `axum` \
    of lock-core, which is off: add `features = [\"axum\"]` to lock-core in Cargo.toml (it is a \
    default), or return a `Result<_, AcquireError>`";
pub(crate) const WITHOUT_IDEMPOTENT: &str = "`#[idempotent]` is the feature `idempotent` of \
    lock-core, which is off: add `features = [\"idempotent\"]` to lock-core in Cargo.toml";

/// Those that stand alone, without a value.
pub(crate) const BARE: [&str; 2] = ["shared", BLOCKING];

/// The word that a plain function needs.
pub(crate) const BLOCKING: &str = "blocking";

// The bounds are lock-core's, which a macro crate can't depend on; a test below compares them.

/// lock-core's longest key. A template whose fixed text alone is longer can never work.
pub(crate) const KEY_BYTES_MAX: usize = 512;

/// lock-core's longest `wait`, `lease` and `hold`.
pub(crate) const DURATION_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// lock-core's shortest `hold`.
pub(crate) const HOLD_LIMIT_MIN: Duration = Duration::from_millis(1);
/// lock-core's bounds of how long an outcome is kept.
pub(crate) const RECORD_TTL_MIN: Duration = Duration::from_secs(1);
pub(crate) const RECORD_TTL_MAX: Duration = Duration::from_secs(366 * 24 * 60 * 60);
/// lock-core's most retries.
pub(crate) const RETRIES_MAX: u32 = 1_000;
/// lock-core's most permits of a key.
pub(crate) const PERMITS_MAX: u32 = 1_024;
/// lock-core's longest name.
pub(crate) const NAME_BYTES_MAX: usize = 128;

pub(crate) const OPTION_FORM: &str =
    "expected `option = value`, as in `key = \"order:{id}\"` or `wait = \"2s\"`";
pub(crate) const KEY_MISSING: &str = "this function has parameters, so say what is locked: \
     `key = \"order:{id}\"`, or a constant key if every call shares one lock";
pub(crate) const KEY_AND_KEYS: &str = "give either `key` or `keys`, not both";
pub(crate) const MIN_HOLD_ALONE: &str =
    "`min_hold` is for one key that nobody shares: leave it out beside `shared` and `keys`";
pub(crate) const KEY_EMPTY: &str = "a key can't be empty";
pub(crate) const KEYS_EMPTY: &str = "`keys` is empty: the body would run without a lock";
pub(crate) const KEY_TUPLE: &str =
    "a key tuple starts with its template, as in `(\"order:{}:{}\", id, req.sku)`";
pub(crate) const NAME: &str = "`name` is a text of at most 128 bytes without control characters, \
     as in `name = \"pay an order\"`";
pub(crate) const GUARD_NAME: &str = "`guard` takes the name to bind, as in `guard = g`";
pub(crate) const ON_LOST: &str = "`on_lost` is \"cancel\" (the body is dropped when the lock is \
     lost; the default) or \"report\" (the body runs on and can ask `guard`)";
pub(crate) const CRATE_PATH: &str = "`crate` takes the path of lock-core, as in `crate = my::lock`";
pub(crate) const RETRIES: &str = "`retries` is a whole number from 0 to 1000";
pub(crate) const PERMITS: &str = "`permits` is a whole number from 1 to 1024";
pub(crate) const SHARED_AND_PERMITS: &str = "give either `shared` (any number at once) or `permits` \
     (at most so many), not both";
pub(crate) const STATES: &str = "several `State` arguments: say which one has the client, as in \
     `client = state.locks`";
pub(crate) const STATE_PATTERN: &str = "the client comes from this argument, which needs a \
     name for that: write `State(state)`, or give `client = ...`";

pub(crate) fn not_a_function(attribute: &str) -> String {
    format!("#[{attribute}] stands on an `async fn` with a body")
}

pub(crate) fn not_async(attribute: &str) -> String {
    format!(
        "#[{attribute}] needs an `async fn`: taking a lock waits, and a plain function would have \
         to block its thread"
    )
}

pub(crate) fn boxed_in_part(attribute: &str) -> String {
    format!(
        "#[{attribute}] is about the future alone, and this would run outside of it, at the call: \
         write an `async fn`, or move it into the `async move` block"
    )
}

pub(crate) const NOT_BLOCKING: &str =
    "`blocking` is for a plain `fn`; an `async fn` waits without it";
pub(crate) const BLOCKING_FUTURE: &str = "a function that is `blocking` must not return a future: \
     the lock would be given up before that runs; write an `async fn`";
pub(crate) const OR_BLOCKING: &str = "; where it may, say `blocking`";

pub(crate) fn no_body(attribute: &str) -> String {
    format!(
        "#[{attribute}] needs a body to run under the lock: put it on the implementation, not on \
         the declaration"
    )
}

pub(crate) fn unknown_option(name: &str, options: &[&str]) -> String {
    format!("unknown option `{name}`; the options are {}", list(options))
}

pub(crate) fn twice(name: &str) -> String {
    format!("`{name}` is given twice")
}

pub(crate) fn not_bare(option: &str) -> String {
    format!("`{option}` stands alone, without a value; leave it out where it is not meant")
}

pub(crate) fn not_a_bool(option: &str) -> String {
    format!("`{option}` is true or false")
}

pub(crate) fn duration_unit(option: &str) -> String {
    format!("`{option}` needs a unit, as in \"2s\" or \"500ms\"; a `Duration` expression works too")
}

pub(crate) fn duration_text(option: &str, text: &str, why: &str) -> String {
    format!("`{option}` = \"{text}\" is not a duration ({why}); write it as in \"2s\" or \"500ms\"")
}

pub(crate) fn duration_zero(option: &str) -> String {
    let hint = match option {
        "wait" => "; for one try that does not wait, write `wait = std::time::Duration::ZERO`",
        _ => "",
    };
    format!("`{option}` must be longer than zero{hint}")
}

pub(crate) fn duration_too_short(option: &str) -> String {
    format!("`{option}` must be at least {}", shortest(option).1)
}

/// The shortest that lock-core takes for a duration which is not zero, and how to say it.
pub(crate) fn shortest(option: &str) -> (Duration, &'static str) {
    match option {
        "ttl" => (RECORD_TTL_MIN, "1s"),
        "hold" => (HOLD_LIMIT_MIN, "1ms"),
        _ => (Duration::ZERO, "0s"),
    }
}

pub(crate) fn duration_too_long(option: &str) -> String {
    format!("`{option}` must be at most {}", longest(option).1)
}

/// The longest that lock-core takes for a duration, and how to say it.
pub(crate) fn longest(option: &str) -> (Duration, &'static str) {
    match option {
        "ttl" => (RECORD_TTL_MAX, "366 days"),
        // The longest lease is longer than that by a sixty-fourth and 2.1 s.
        "min_hold" => (Duration::from_secs((23 * 60 + 37) * 60), "23h 37m"),
        _ => (DURATION_MAX, "24h"),
    }
}

pub(crate) fn duration_negative(option: &str) -> String {
    format!("`{option}` can't be negative")
}

pub(crate) fn key_too_long(bytes: usize) -> String {
    format!("the fixed text of this key has {bytes} bytes; a key has at most {KEY_BYTES_MAX}")
}

pub(crate) fn unknown_name(name: &str, known: &[String]) -> String {
    let names: Vec<&str> = known.iter().map(String::as_str).collect();
    match names.as_slice() {
        [] => format!("no argument is named `{name}`: the function has no named arguments"),
        [one] => format!("no argument is named `{name}`; the key can use `{one}`"),
        many => format!("no argument is named `{name}`; the key can use {}", list(many)),
    }
}

pub(crate) fn shared_segment(first: &str, second: &str) -> String {
    format!(
        "`{{{first}}}` and `{{{second}}}` share one segment, so different values could give the \
         same key: put a ':' between them"
    )
}

pub(crate) fn hole_count(holes: usize, values: usize) -> String {
    format!("the template has places for {holes} values, but {values} are given")
}

pub(crate) fn hole_twice(index: usize) -> String {
    format!("value {index} has two places in the key; give it twice if that is meant")
}

pub(crate) fn positional(hole: &str) -> String {
    format!(
        "`{{{hole}}}` names no argument; write `{{name}}`, or give the values as in \
         `key = (\"order:{{}}\", id)`"
    )
}

pub(crate) fn hole_unused(index: usize) -> String {
    format!("the template has no place for value {index}")
}

fn list(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bounds_are_those_of_lock_core() {
        assert_eq!(KEY_BYTES_MAX, lock_core::limits::KEY_BYTES_MAX);
        assert_eq!(DURATION_MAX, lock_core::limits::DURATION_MAX);
        assert_eq!(RETRIES_MAX, lock_core::limits::RETRIES_MAX);
        assert_eq!(NAME_BYTES_MAX, lock_core::limits::NAME_BYTES_MAX);
        assert!(NAME.contains(&NAME_BYTES_MAX.to_string()));
        assert!(RETRIES.contains(&RETRIES_MAX.to_string()));
        assert_eq!(PERMITS_MAX, lock_core::limits::PERMITS_MAX);
        assert!(PERMITS.contains(&PERMITS_MAX.to_string()));
        assert_eq!(humantime::parse_duration("24h"), Ok(DURATION_MAX));
        assert_eq!(HOLD_LIMIT_MIN, lock_core::limits::HOLD_LIMIT_MIN);
        assert_eq!(RECORD_TTL_MIN, lock_core::idempotency::RECORD_TTL_MIN);
        for option in ["wait", "hold", "ttl"] {
            let (shortest, said) = shortest(option);
            assert_eq!(humantime::parse_duration(said), Ok(shortest));
        }
        assert_eq!(RECORD_TTL_MAX, lock_core::idempotency::RECORD_TTL_MAX);
        for option in ["wait", "min_hold", "ttl"] {
            let (longest, said) = longest(option);
            assert_eq!(humantime::parse_duration(said), Ok(longest));
        }
    }
}
