//! The pages, in a real browser.
//!
//! With `SCREENSHOTS=1` in the environment the pictures in `docs/` are taken anew.

#![allow(clippy::disallowed_methods)]

mod flash_sale;
mod inspector;
mod support;
