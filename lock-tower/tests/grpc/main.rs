//! Refusals as a client of gRPC reads them: `tonic` on both sides of a connection, and real HTTP/2.

#[path = "../common/mod.rs"]
mod common;

mod duplicates;
mod fixture;
mod locks;
