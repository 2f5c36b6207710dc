//! The machine without a runtime: tables of single moments, and random histories.

mod admit;
mod asked;
mod elsewhere;
mod fleet;
mod guards;
mod histories;
mod store;
mod tables;
mod told;
mod tries;
mod waits;
mod world;
