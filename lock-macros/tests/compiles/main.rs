//! What the docs promise compiles, without a warning of the generated code; most of it is never
//! run. Not by `trybuild`: that compiles all dependencies once more, and each of these as a program.

// Of what is written here, and not of what comes of it.
#![allow(clippy::all, clippy::multiple_bound_locations)]
#![allow(dead_code, missing_debug_implementations, unreachable_pub)]

mod attributes;
mod extractors;
mod generics;
mod hygiene;
mod idempotent;
mod keys;
mod methods;
mod options;
mod returns;
mod send;
mod traits;

#[test]
fn what_compiles_runs() {
    attributes::main();
    extractors::main();
    generics::main();
    hygiene::main();
    idempotent::main();
    keys::main();
    methods::main();
    options::main();
    returns::main();
    send::main();
    traits::main();
}
