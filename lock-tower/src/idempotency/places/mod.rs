//! How many requests may be in memory that do not run yet. They are counted for each record and
//! each scope, so one tenant's duplicates and slow uploads keep no other tenant out.

mod book;
mod metered;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lock_core::idempotency::{Idempotency, Scope};

use self::book::{Book, Kind, Who};
pub(super) use self::book::{Bounds, Full};
pub(super) use self::metered::{Metered, NoRoom};

/// The requests that are here, of a layer and its clones.
#[derive(Debug, Default)]
pub(super) struct Places {
    book: Mutex<Book>,
}

/// The place of one request, given back when dropped.
#[derive(Debug)]
pub(super) struct Place {
    places: Arc<Places>,
    bounds: Bounds,
    who: Who,
    /// `None` once it runs.
    waits: Option<Waits>,
}

/// The room that a request takes up until it runs.
#[derive(Debug)]
struct Waits {
    kind: Kind,
    /// The bytes of its body in memory.
    bytes: usize,
}

impl Places {
    /// Lets a request in, or refuses it at once.
    pub(super) fn enter(
        self: &Arc<Self>,
        engine: &Idempotency,
        scope: &Scope,
        key: &[u8],
        bounds: Bounds,
    ) -> Result<Place, Full> {
        let record = engine.record_id(scope, key);
        // No request has an empty key, so this names the scope, in as many bytes as any other.
        let tenant = (*scope != Scope::Global).then(|| engine.record_id(scope, b""));
        let who = Who { record, scope: tenant };
        let kind = self.book().enter(&who, &bounds)?;
        let waits = Some(Waits { kind, bytes: 0 });
        Ok(Place { places: Arc::clone(self), bounds, who, waits })
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        // Nothing in here panics halfway through a change.
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// So much more of the request's body is in memory.
    pub(super) fn hold(&mut self, bytes: usize) -> Result<(), Full> {
        let Some(waits) = &mut self.waits else { return Ok(()) };
        self.places.book().hold(&self.who, waits.kind, bytes, &self.bounds)?;
        waits.bytes += bytes;
        Ok(())
    }

    /// The request runs from now on: it takes no room, and who comes for its record is a
    /// duplicate as long as this is kept.
    pub(super) fn begin(&mut self) {
        if let Some(Waits { kind, bytes }) = self.waits.take() {
            self.places.book().begin(&self.who, kind, bytes);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.begin();
        self.places.book().leave(&self.who);
    }
}
