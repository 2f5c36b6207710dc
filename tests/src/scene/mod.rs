//! Every fault, done to every layout of servers.
//!
//! A **layout** is servers that make one lock service: a Redis server, a Redis master with its
//! sentinels, a cluster, a quorum, ZooKeeper in three ways, and memory. It is a [`Layout`]: what
//! can be done to it and asked of it. Its [`Kind`] is what is known before one is started: its
//! name, its times, and what it lacks, with the reason.
//!
//! A **scene** is one fault of the matrix in `docs/faults.md`, done to a layout, and what must come
//! of it. It knows of no store: it has a `Stage`, which is a layout, keys of its own, and clients,
//! each on a [`Line`] that can be cut. A scene that needs what a layout lacks is not played on it.
//! A test reads the matrix and compares it with this table, so neither can lie.
//!
//! | to add | write |
//! |---|---|
//! | a scene | a function in `faults/`, a line in `table.rs`, its name in `docs/faults.md` |
//! | a layout | one file in `layouts/`, its line there, `tests::scenes!(ITS_KIND);` in its suite, its rows in `docs/topologies.md` and `docs/faults.md` |
//!
//! Scenes of one suite share one layout and run at the same time. Those that stop servers, kill
//! them or move their clocks wait until they have it for themselves; see [`Pool`].
//!
//! A scene about one holder may be played *in each mode*: alone, as a reader, and with the only
//! permit. Its `Stage` says in which mode its holders have the key, and `Stage::client` wants what
//! nobody can have beside them. What several holders suffer together is in `faults/modes.rs`.
//!
//! A fault of one store's own is no scene, and stays in the suite of that store: a switch of
//! sentinels, slots that move, rights, formats.
//!
//! - `table`: every scene, and which faults it shows. `faults`: the scenes.
//! - `layout`: the demands on a layout. `layouts`: all of them.
//! - `pool`: started layouts, shared by the scenes of one binary.
//! - `stage`: a layout as one scene has it.
//! - `line`: the way of one client to its servers. `history`: the history of one run.

mod faults;
mod history;
pub mod layout;
pub mod layouts;
mod line;
mod pool;
mod stage;
mod table;

pub use history::{History, LATE, Remote};
pub use layout::{Keeps, Kind, Layout, Power, Tempo, Times, Verb, capable_of};
pub use line::{Line, Snare};
pub use pool::Pool;
pub use table::{SCENES, Scene};
