//! Keys that several hold together, at one Redis server: what the conformance suite cannot see.

#![allow(clippy::disallowed_methods)]

mod commands;
mod election;
mod ends;
mod pages;
mod permits;
mod pushes;
mod readers;
mod support;
