//! The two sides of a client: its conductor, and everybody else.
//!
//! A multiplexed connection is served by a task of the runtime in which it was made, and a timer
//! fires by its runtime. So the conductor opens its connections itself, and starts the tasks that
//! tell it where to connect to. Nothing that an application does to its runtimes holds them up. The
//! conductor takes no lock that a task of the application may hold while it waits.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::runtime::{Handle, Id};
use tokio::task::AbortHandle;

use crate::ground::background;

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::redis) enum Side {
    /// A task of the application, or the conductor where it is one.
    Application,
    /// The conductor, on its own thread and runtime.
    Conductor,
}

impl Side {
    /// That of whoever polls this.
    pub(in crate::redis) fn here() -> Self {
        if background::is_here() { Self::Conductor } else { Self::Application }
    }
}

/// One for each side.
#[derive(Debug, Default)]
pub(in crate::redis) struct Sides<T> {
    application: T,
    conductor: T,
}

impl<T> Sides<T> {
    pub(in crate::redis) fn new(make: impl Fn(Side) -> T) -> Self {
        Self { application: make(Side::Application), conductor: make(Side::Conductor) }
    }

    pub(in crate::redis) fn of(&self, side: Side) -> &T {
        match side {
            Side::Application => &self.application,
            Side::Conductor => &self.conductor,
        }
    }

    /// That of whoever polls this.
    pub(in crate::redis) fn here(&self) -> &T {
        self.of(Side::here())
    }

    pub(in crate::redis) fn both(&self) -> [&T; 2] {
        [&self.application, &self.conductor]
    }
}

/// The runtime of the application in which something was made last. It is made anew there, also
/// when the conductor finds that it must be.
#[derive(Debug, Clone, Default)]
pub(in crate::redis) struct Home(Arc<Mutex<Option<Handle>>>);

impl Home {
    /// Something is made here.
    pub(in crate::redis) fn note(&self) {
        drop(self.runtime());
    }

    /// Where it is to be made: here, unless the conductor asks, and it was made elsewhere before.
    pub(in crate::redis) fn runtime(&self) -> Option<Handle> {
        let here = Handle::try_current().ok();
        let mut home = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if Side::here() == Side::Conductor {
            return home.clone().or(here);
        }
        if here.is_some() {
            home.clone_from(&here);
        }
        here
    }
}

/// A task that does something for both sides. It begins on the side that needs it first, and is
/// begun anew by the conductor, which outlives whatever blocks the application.
#[derive(Debug)]
pub(in crate::redis) struct Shared {
    task: AbortHandle,
    runtime: Id,
}

impl Shared {
    pub(in crate::redis) fn start(
        runtime: &Handle,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> Self {
        Self { task: runtime.spawn(task).abort_handle(), runtime: runtime.id() }
    }

    /// Whether it runs, where whoever polls this may rely on it.
    pub(in crate::redis) fn serves_here(&self) -> bool {
        !self.task.is_finished() && (Side::here() == Side::Application || is_here(self.runtime))
    }

    pub(in crate::redis) fn abort(&self) {
        self.task.abort();
    }
}

/// Whether this is polled in a runtime.
pub(in crate::redis) fn is_here(runtime: Id) -> bool {
    Handle::try_current().is_ok_and(|here| here.id() == runtime)
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::runtime::{Builder, Runtime};

    use super::*;

    fn runtime() -> Runtime {
        Builder::new_current_thread().build().unwrap()
    }

    #[test]
    fn the_conductor_makes_anew_where_the_application_did_and_else_with_itself() {
        let (application, conductor) = (runtime(), runtime());
        let home = Home::default();
        assert!(home.runtime().is_none());
        let id = |runtime: Option<Handle>| runtime.map(|runtime| runtime.id());
        let by_conductor = || {
            let _here = background::enter();
            conductor.block_on(async { id(home.runtime()) })
        };
        assert_eq!(by_conductor(), Some(conductor.handle().id()));
        assert_eq!(
            application.block_on(async { id(home.runtime()) }),
            Some(application.handle().id())
        );
        assert_eq!(by_conductor(), Some(application.handle().id()));
        assert!(home.runtime().is_none(), "there is none here");
    }

    #[test]
    fn a_shared_task_serves_the_conductor_only_where_that_runs() {
        let (application, conductor) = (runtime(), runtime());
        let theirs = Shared::start(application.handle(), pending());
        let its = Shared::start(conductor.handle(), pending());
        assert!(theirs.serves_here() && its.serves_here());
        let here = background::enter();
        conductor.block_on(async { assert!(!theirs.serves_here() && its.serves_here()) });
        drop(here);
        drop(conductor);
        assert!(theirs.serves_here() && !its.serves_here(), "it went with its runtime");
    }
}
