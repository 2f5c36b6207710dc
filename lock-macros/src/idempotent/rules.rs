//! The text of every refusal that `#[idempotent]` does not share with `#[distributed_lock]`.

/// The options in the order in which errors list them.
pub(super) const OPTIONS: [&str; 11] = [
    "key",
    "scope",
    "client",
    "ttl",
    "fingerprint",
    "wait",
    "on_unknown",
    "guard",
    "tx",
    "name",
    "crate",
];

pub(super) const KEY_MISSING: &str =
    "say which calls are the same: `key = \"{request_id}\"`, of what the caller sends";
pub(super) const SCOPE_MISSING: &str = "say whose keys they are: `scope = \"tenant:{tenant}\"`, \
     so that none is given what was kept for another; if all share their keys, `scope = global`";
pub(super) const NAME_MISSING: &str = "a method says what it is called: `name = \"Shop::pay\"`. The \
     attribute does not see the type, so another method of this name in this module would be given \
     this one's values";
pub(super) const ON_UNKNOWN: &str = "`on_unknown` is \"reexecute\" (a call whose outcome is \
     unknown runs again; the default) or \"refuse\" (it does not)";
pub(super) const RETURNS_OPAQUE: &str = "#[idempotent] keeps the function's value, so its type \
     must be written down: a `Result<T, E>` with `T: Serialize + DeserializeOwned`";
pub(super) const FINGERPRINT_EMPTY: &str = "`fingerprint` is empty: name what makes two calls \
     with one key the same, as in `fingerprint = (amount, currency)`, or leave it out";
pub(super) const TX_NAME: &str = "`tx` is the name of the argument that is a \
     `lock_core::idempotency::Tx`, as in `tx = tx`";
