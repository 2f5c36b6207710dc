//! The machine without a runtime: tables of single moments, and random histories.
//!
//! - `world`: a driver and waiters around the machine, and what must hold. `store`: its store.
//! - `tables`: single moments. `histories`: random histories.
//! - `admit`: refusals. `waits`: how waits end. `tries`: tries that must not stand in line.
//! - `guards`: several guards of one hold. `told`: news for a holder.
//! - `rival`: the holder elsewhere. `asked`: leases that were asked for. `elsewhere`: another server in the place of one.
//! - `fleet`: several processes and one register of the key.

mod admit;
mod asked;
mod elsewhere;
mod fleet;
mod guards;
mod histories;
mod rival;
mod store;
mod tables;
mod told;
mod tries;
mod waits;
mod world;
