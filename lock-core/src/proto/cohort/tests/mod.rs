//! The machine without a runtime: tables of single moments, and random histories.

mod histories;
mod tables;
mod world;
