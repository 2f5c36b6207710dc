//! The verbs over a database that does what a test says.

mod fake;
mod sweep;
mod together;
mod told;
