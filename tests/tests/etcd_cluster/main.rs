//! Three members of etcd: what befalls a cluster, and the scenes of all layouts on it.

#![allow(clippy::disallowed_methods)]

mod conformance;
mod members;
mod scenes;
