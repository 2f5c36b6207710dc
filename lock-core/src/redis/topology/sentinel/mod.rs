//! Following the master that sentinels name.
//!
//! A client asks all sentinels and takes the master of the greatest epoch (`answer`). From then on
//! it has a connection to each (`watch`), listens to their messages and asks them every second.
//! The time of one master is a *term*, with a number of its own in this client. Each connection
//! to a server carries the number of the term that it was made in: when the term is over, what it
//! still answers does not count.
//!
//! One failure is told by nobody. A client that is cut off from all sentinels together with the old
//! master goes on to use it. For that there is `min-replicas-to-write`, by which a master that is
//! left alone refuses.
//!
//! - `target`: the sentinels to ask, and the logins. `ask`: asking one of them.
//! - `answer`: the meaning of their answers. `known`: the sentinels that are known.
//! - `sentinels`: the master by what they say. `watch`: the task that listens to one.

mod answer;
mod ask;
mod known;
mod sentinels;
mod target;
#[cfg(test)]
mod tests;
mod watch;

pub(in crate::redis) use self::sentinels::Sentinels;
pub(in crate::redis) use self::target::Target;
