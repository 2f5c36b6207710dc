//! Duplicates inside this process. One of them leads, and asks lock and store. The others wait for
//! what it comes to, and are given that without a request of their own.
//!
//! A flight is a line with one place at its head. The one who has the place leads. Some ends of the
//! leader are everybody's: a payload, an outcome without payload, a store out of reach. Then the
//! line is closed, and all who stand in it read that end. When the leader leaves without one (its
//! future was dropped, its execution aborted), the place goes to the next in line.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::error::BeginError;
use super::repeat::STORE_WITHIN;
use crate::ground::clock;
use crate::records::{Fingerprint, Outcome, RecordId};

/// Requests that are duplicates of one another: another fingerprint is another request.
pub(super) type FlightKey = (RecordId, Fingerprint);

/// How many may wait for one flight. The next are told of it at once, as those who do not wait.
pub(super) const DUPLICATES_MAX: usize = 10_000;

/// The flights of one engine; one is here as long as somebody has a seat in it.
#[derive(Debug, Default)]
pub(super) struct SingleFlights {
    seats: Mutex<HashMap<FlightKey, (Arc<SingleFlight>, usize)>>,
}

#[derive(Debug)]
struct SingleFlight {
    /// One permit: the lead.
    line: Arc<Semaphore>,
    /// Set before the line is closed.
    end: OnceLock<End>,
    stage: watch::Sender<Stage>,
}

/// How far the leader is, for those who do not wait.
#[derive(Debug, Clone, Copy)]
enum Stage {
    /// It asks the store what there is.
    Looking,
    /// An execution was found, or is about to begin; its age, at this instant.
    InFlight { age: Duration, at: Instant },
}

/// An end that is everybody's.
#[derive(Clone)]
pub(super) enum End {
    Done(Bytes),
    WithoutPayload,
    Mismatch,
    Unknown { age: Duration },
    Failed(BeginError),
}

impl End {
    /// That of an execution.
    pub(super) fn of(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Payload(payload) => Self::Done(payload.clone()),
            Outcome::WithoutPayload => Self::WithoutPayload,
        }
    }
}

/// The result of standing in line.
#[derive(Debug)]
pub(super) enum Joined {
    Lead(Lead),
    End(End),
    /// The time to wait is over.
    InFlight {
        age: Duration,
    },
}

impl SingleFlights {
    fn seats(&self) -> MutexGuard<'_, HashMap<FlightKey, (Arc<SingleFlight>, usize)>> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.seats().len()
    }

    /// A seat, and whether there is room to wait in it.
    fn seat(self: &Arc<Self>, key: FlightKey) -> (Seat, bool) {
        let mut seats = self.seats();
        let (flight, taken) =
            seats.entry(key).or_insert_with(|| (Arc::new(SingleFlight::new()), 0));
        *taken += 1;
        (Seat { flights: self.clone(), key, flight: flight.clone() }, *taken <= DUPLICATES_MAX)
    }

    /// Joins the flight of `key`, or begins one. Waits until `deadline` at most; without one, not
    /// longer than it takes the leader to look. Dropping the future leaves the line.
    pub(super) async fn join(
        self: &Arc<Self>,
        key: FlightKey,
        deadline: Option<Instant>,
    ) -> Joined {
        let (seat, has_room) = self.seat(key);
        let deadline = deadline.filter(|_| has_room);
        let flight = seat.flight.clone();
        if let Ok(permit) = flight.line.clone().try_acquire_owned() {
            return Joined::Lead(Lead::new(seat, permit));
        }
        let given_up = async {
            match deadline {
                Some(deadline) => clock::sleep_until(deadline).await,
                // Its runtime may be blocked.
                None => drop(tokio::time::timeout(STORE_WITHIN, flight.has_looked()).await),
            }
        };
        tokio::select! {
            biased;
            permit = flight.line.clone().acquire_owned() => match (permit, flight.end.get()) {
                (Ok(permit), _) => Joined::Lead(Lead::new(seat, permit)),
                (Err(_), Some(end)) => Joined::End(end.clone()),
                (Err(_), None) => unreachable!("a line is closed after its end was set"),
            },
            () = given_up => Joined::InFlight { age: flight.age() },
        }
    }
}

impl SingleFlight {
    fn new() -> Self {
        Self {
            line: Arc::new(Semaphore::new(1)),
            end: OnceLock::new(),
            stage: watch::Sender::new(Stage::Looking),
        }
    }

    async fn has_looked(&self) {
        let mut stage = self.stage.subscribe();
        // The sender lives as long as `self`.
        drop(stage.wait_for(|stage| matches!(stage, Stage::InFlight { .. })).await);
    }

    fn age(&self) -> Duration {
        match *self.stage.borrow() {
            Stage::Looking => Duration::ZERO,
            Stage::InFlight { age, at } => age + clock::now().saturating_duration_since(at),
        }
    }
}

/// Keeps the flight in the map.
#[derive(Debug)]
struct Seat {
    flights: Arc<SingleFlights>,
    key: FlightKey,
    flight: Arc<SingleFlight>,
}

impl Seat {
    /// Takes the flight off the map if it is there still, and `gone` says so of its seats.
    fn leave(&self, gone: impl FnOnce(&mut usize) -> bool) {
        let mut seats = self.flights.seats();
        let Some((flight, taken)) = seats.get_mut(&self.key) else { return };
        if Arc::ptr_eq(flight, &self.flight) && gone(taken) {
            seats.remove(&self.key);
            if seats.is_empty() {
                seats.shrink_to(64);
            }
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.leave(|taken| {
            *taken -= 1;
            *taken == 0
        });
    }
}

/// The head of a flight's line. Dropping it hands the lead to the next.
#[derive(Debug)]
pub(super) struct Lead {
    seat: Seat,
    _permit: OwnedSemaphorePermit,
}

impl Lead {
    fn new(seat: Seat, permit: OwnedSemaphorePermit) -> Self {
        seat.flight.stage.send_replace(Stage::Looking);
        Self { seat, _permit: permit }
    }

    /// From now on those who do not wait are told of an execution of this age.
    pub(super) fn in_flight(&self, age: Duration) {
        self.seat.flight.stage.send_replace(Stage::InFlight { age, at: clock::now() });
    }

    /// Gives all who stand in line this end; who comes from now on begins a flight of their own.
    pub(super) fn end(&self, end: End) {
        self.seat.leave(|_| true);
        let flight = &self.seat.flight;
        if flight.end.set(end).is_ok() {
            flight.line.close();
        }
    }
}

/// A lead in the hands of an execution: given up when its lock is lost, as what ends later is no
/// duplicate's outcome any more.
#[derive(Debug)]
pub(super) struct LeadInHand(Mutex<Option<Lead>>);

impl LeadInHand {
    pub(super) fn new(lead: Lead) -> Self {
        Self(Mutex::new(Some(lead)))
    }

    fn with(&self, tell: impl FnOnce(&Lead)) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(tell);
    }

    /// See [`Lead::in_flight`].
    pub(super) fn in_flight(&self, age: Duration) {
        self.with(|lead| lead.in_flight(age));
    }

    /// See [`Lead::end`].
    pub(super) fn end(&self, end: End) {
        self.with(|lead| lead.end(end));
    }

    /// Hands the lead to the next in line.
    pub(super) fn leave(&self) {
        drop(self.0.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}
