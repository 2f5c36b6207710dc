//! The register against another one, by tables and chance, and in a small system that is explored.

mod cards;
mod model;
