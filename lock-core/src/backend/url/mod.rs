//! The URLs that name stores: one grammar, one reader, for every store.
//!
//! A [`Scheme`] says what the URLs of one kind of store may hold, and [`StoreUrl::parse`] reads
//! them by it. So each store gets hosts with ports, a login that nothing shows, a path and the
//! parameters that it knows, and refuses all else in the same words.
//!
//! ```text
//! scheme[+tls]://[user:password@]host[:port][,host[:port]…][/path][?name=value[&name=value…]]
//! ```
//!
//! | part | what it may be |
//! |---|---|
//! | scheme | in lower or upper case; `+tls` stands at its end, and nowhere else |
//! | login | `user:password@`, or `:password@` for the store's default user |
//! | host | a name of letters, digits and `.-_`, an IPv4 address, or an IPv6 address in brackets |
//! | port | 1 to 65535; without one, that of the scheme |
//! | path, values | what the scheme says; a store in a file has a path in place of hosts, or `:memory:` |
//!
//! - User, password, path and values are percent-encoded. There is no other encoding: a `+` is a
//!   `+`. Control characters, and `#` anywhere, are refused unless they are encoded.
//! - In a login, `%`, `/`, `?`, `#` and `@` are written `%25`, `%2F`, `%3F`, `%23` and `%40`. Where
//!   each host may have a login of its own, a `,` is written `%2C` too. In a value, an `&` is
//!   `%26`. So a password that was pasted as it is, is refused and not read as something else.
//! - A parameter that the scheme does not know, one given twice and one without a value are
//!   refused.
//!
//! No error, and no `Debug` of anything here, shows a login or the value of a secret parameter.
//!
//! - `scheme`: the parts that are allowed. `read`: the reader, and what it refuses.
//! - `store_url`: the parts that were read, with `host` and `login`. `error`: why one is refused.

mod error;
mod host;
mod login;
mod read;
mod scheme;
mod store_url;
#[cfg(test)]
mod tests;

pub use error::{UrlError, UrlPart};
pub use host::Host;
pub use login::Login;
pub(crate) use read::is_scheme;
pub use scheme::Scheme;
pub use store_url::StoreUrl;
