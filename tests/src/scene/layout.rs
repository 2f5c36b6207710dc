//! The demands on a layout of servers that is to be tried.

use std::fmt;
use std::time::Duration;

pub use lock_core::backend::BoxFuture;
use lock_core::backend::{Backend, Capabilities};
use lock_core::test_util::AnyBackend;

use super::line::Line;
use crate::proxy::Match;

/// Something that is done to a layout. Where it cannot be, [`Kind::lacks`] says why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Power {
    /// Clients come over a [`Line`] that can be cut, delayed and silenced.
    Link,
    /// A request is caught on its way, by its verb.
    Trap,
    /// Clients are processes of their own, to be stopped and killed.
    Process,
    /// Several hold a key at a time: readers, and those who have permits.
    Share,
    /// Pushes are lost while all else arrives.
    Push,
    /// The lock is deleted by hand.
    Delete,
    /// Servers are stopped and go on. Nobody else may use the layout meanwhile.
    Pause,
    /// Servers are killed and started again. Nobody else may use the layout meanwhile.
    Kill,
    /// The wall clock of the servers jumps. Nobody else may use the layout meanwhile.
    Clock,
}

impl Power {
    /// Whether it disturbs all who use the layout.
    #[must_use]
    pub fn is_loud(self) -> bool {
        matches!(self, Self::Pause | Self::Kill | Self::Clock)
    }
}

/// The verb of the seam that a request carries out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// The first attempt on a key that nobody has used.
    Attempt,
    /// An attempt on a key that somebody holds.
    Join,
    /// A renewal, while nothing else is asked for.
    Renew,
    /// A release, or giving up.
    Withdraw,
}

/// How long what a scene takes may live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tempo {
    /// So long that whatever waits for its end is noticed.
    Patient,
    /// So short that some renewals fit in a scene, and so long that a busy machine misses none.
    Steady,
    /// So short that a scene can wait for its end.
    Brisk,
}

/// The times of one [`Tempo`] at a kind of layout, on an idle machine.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// The lease that clients ask for.
    pub lease: Duration,
    /// The session that they ask for, where there are any.
    pub session: Duration,
    /// The longest time from the last answer to the end of the hold by the holder's own clock.
    pub lost_within: Duration,
    /// The longest time until a key is granted whose holder died.
    pub freed_within: Duration,
    /// The same where the store handed the key to a waiter that is dead.
    pub handed_within: Duration,
    /// The longest time that waiters whose process was killed hold up the key together.
    pub skipped_within: Duration,
    /// The longest time between two requests of a waiter.
    pub recheck: Duration,
}

/// The locks that are left when the servers that serve them are killed and started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeps {
    /// All that was answered.
    Everything,
    /// All that its successor knew, if there is one.
    Perhaps,
    /// Nothing.
    Nothing,
}

/// All that is known of a kind of layout before one is started.
pub struct Kind {
    /// As docs call it.
    pub name: &'static str,
    /// As a command line calls it.
    pub store: &'static str,
    /// Starts one, and waits until it serves.
    pub start: fn() -> BoxFuture<'static, Box<dyn Layout>>,
    /// The locks that a restart leaves.
    pub keeps: Keeps,
    /// The capabilities of its stores, by the names of [`Capabilities`].
    pub can: &'static [&'static str],
    /// The powers that cannot be used on it, and why.
    pub lacks: &'static [(Power, &'static str)],
    /// Scenes that are known to fail on it, and why: each a bug to be mended.
    pub fails: &'static [(&'static str, &'static str)],
    /// The times of [`Tempo::Patient`].
    pub patient: Times,
    /// The times of [`Tempo::Steady`].
    pub steady: Times,
    /// The times of [`Tempo::Brisk`].
    pub brisk: Times,
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Kind {
    /// Why `power` cannot be used on such a layout; `None` if it can.
    #[must_use]
    pub fn lacks(&self, power: Power) -> Option<&'static str> {
        self.lacks.iter().find(|(lacking, _)| *lacking == power).map(|(_, why)| *why)
    }

    /// Why the scene of this name is known to fail on such a layout; `None` if it must not.
    #[must_use]
    pub fn fails(&self, scene: &str) -> Option<&'static str> {
        self.fails.iter().find(|(failing, _)| *failing == scene).map(|(_, why)| *why)
    }

    /// A store on such a layout, which says that it can do what this does.
    ///
    /// # Panics
    ///
    /// If it says anything else.
    #[must_use]
    pub fn checked(&self, backend: AnyBackend) -> AnyBackend {
        assert_eq!(capable_of(backend.capabilities()), self.can, "{self:?}");
        backend
    }

    /// Its times.
    #[must_use]
    pub fn times(&self, tempo: Tempo) -> &Times {
        match tempo {
            Tempo::Patient => &self.patient,
            Tempo::Steady => &self.steady,
            Tempo::Brisk => &self.brisk,
        }
    }
}

/// The capabilities of a store, by the names that this has for them.
#[must_use]
pub fn capable_of(can: Capabilities) -> Vec<&'static str> {
    let all = [
        (can.fencing, "fencing"),
        (can.fifo, "fifo"),
        (can.push, "push"),
        (can.shared, "shared"),
        (can.permits, "permits"),
        (can.election, "election"),
        (can.revocation, "revocation"),
        (can.force_release, "force_release"),
        (can.force_acquire, "force_acquire"),
        (can.listing, "listing"),
        (can.quorum, "quorum"),
        (can.replicas, "replicas"),
        (can.in_process, "in_process"),
    ];
    all.into_iter().filter(|(can, _)| *can).map(|(_, name)| name).collect()
}

/// Started servers, as one lock service.
///
/// A *scope* is a word that the keys of one user of the layout begin with, as `f18-2`: several may
/// use one layout at a time, and each can tell what it left behind. Servers have numbers from 0.
///
/// All calls block the calling thread for as long as they take, and panic where the layout
/// [lacks](Kind::lacks) what they need.
pub trait Layout: fmt::Debug + Send + Sync {
    /// The kind that it is of.
    fn kind(&self) -> &'static Kind;

    /// The URL straight to the servers.
    fn url(&self, scope: &str, tempo: Tempo) -> String;

    /// A way of one client's own to the servers, through proxies.
    fn line_of(&self, scope: &str, tempo: Tempo) -> Line;

    /// The request that carries out `verb` for `key`.
    fn request(&self, verb: Verb, key: &str) -> Match;

    /// Whether nobody holds the key.
    fn is_free(&self, scope: &str, key: &str) -> bool;

    /// How many claims stand in the line for the key, its holder not counted.
    fn in_line(&self, scope: &str, key: &str) -> usize;

    /// All that clients of this scope left at the servers, beyond what docs name.
    fn left(&self, scope: &str) -> Vec<String>;

    /// Deletes the lock as an operator would who knows no better, whoever holds it.
    fn delete(&self, scope: &str, key: &str);

    /// How many servers there are that hold locks.
    fn servers(&self) -> usize;

    /// The servers without which nobody is granted this key: the master, or a majority.
    fn serving(&self, scope: &str, key: &str) -> Vec<usize>;

    /// The servers that take over from these once they are dead, unasked.
    fn successors(&self, _servers: &[usize]) -> Vec<usize> {
        Vec::new()
    }

    /// Stops a server (`SIGSTOP`): its connections stay open and say nothing.
    fn pause(&self, server: usize);

    /// Has a server that was stopped go on.
    fn resume(&self, server: usize);

    /// Kills a server (`SIGKILL`). Its port refuses connections then.
    fn kill(&mut self, server: usize);

    /// Starts servers that were killed, on what they have on their disks. They need not serve yet:
    /// see [`settled`](Self::settled).
    fn restart(&mut self, servers: &[usize]);

    /// Has another server take over from the one that serves the key, while both are well, and waits
    /// for it. False where there is none that could.
    fn fail_over(&self, _key: &str) -> BoxFuture<'_, bool> {
        Box::pin(std::future::ready(false))
    }

    /// Takes all data from a server that goes on. False where there is no such command.
    fn wipe(&self, _server: usize) -> bool {
        false
    }

    /// Moves the wall clocks of all servers by so many milliseconds.
    fn skew_clock(&self, by_ms: i64);

    /// Waits until all servers run and any key is granted at once.
    fn settled(&self) -> BoxFuture<'_, ()>;
}
