//! Nothing of the user's can be in the way of the generated code, nor the other way round.
#![deny(warnings)]
#![allow(non_camel_case_types, dead_code)]

struct Ok;
struct Err;
struct Some;
struct None;
struct Result;
struct Option;
trait Future {}
mod core {}
mod std {}
mod lock_core {}

mod alone {
    #![no_implicit_prelude]

    #[::lock_core::distributed_lock(key = "x:{__call}", client = __held, guard = g)]
    async fn names(
        __held: &::lock_core::LockClient,
        __call: u8,
        __result: u8,
        __value: u8,
    ) -> ::std::result::Result<u8, ::lock_core::AcquireError> {
        let __locked = g.is_held();
        ::std::result::Result::Ok(__call + __result + __value + __locked as u8)
    }

    pub(crate) fn used() {
        let _ = names;
    }
}

pub(crate) fn main() {
    alone::used();
}
