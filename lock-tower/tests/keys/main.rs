//! The keys that each extractor takes, and what it refuses.

#[path = "../common/mod.rs"]
mod common;

mod body;
mod combine;
mod fixture;
mod head;
mod path;
mod prefix;
mod spelling;
