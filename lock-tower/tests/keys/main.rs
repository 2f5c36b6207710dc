//! What each extractor takes for a key, and what it refuses.

#[path = "../common/mod.rs"]
mod common;

mod body;
mod combine;
mod fixture;
mod head;
mod path;
mod prefix;
mod spelling;
