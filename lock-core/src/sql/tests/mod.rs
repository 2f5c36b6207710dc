//! The verbs over a database that does what a test says.

mod fake;
mod together;
mod told;
