//! One script per verb, with a shared reader and writer of records. `KEYS[1]` is the record.

use std::sync::LazyLock;

use crate::redis::protocol::script::Script;

fn with_record(body: &str) -> Script {
    Script::new(body.replace("--RECORD", include_str!("record.lua")))
}

pub(super) static PEEK: LazyLock<Script> = LazyLock::new(|| with_record(include_str!("peek.lua")));
pub(super) static CLAIM: LazyLock<Script> =
    LazyLock::new(|| with_record(include_str!("claim.lua")));
pub(super) static COMPLETE: LazyLock<Script> =
    LazyLock::new(|| with_record(include_str!("complete.lua")));
pub(super) static ABORT: LazyLock<Script> =
    LazyLock::new(|| with_record(include_str!("abort.lua")));
pub(super) static RIGHTS: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("rights.lua").to_owned()));
