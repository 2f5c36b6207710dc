//! The state that all clones of an engine share.

use std::sync::Arc;

use tokio::sync::watch;

use super::single_flight::SingleFlights;
use super::stats::Counters;
use crate::client::LockClient;
use crate::records::RecordStore;

/// Locks, records, and what of both is under way here.
#[derive(Debug)]
pub(super) struct Service {
    pub(super) locks: LockClient,
    pub(super) store: Arc<dyn RecordStore>,
    pub(super) flights: Arc<SingleFlights>,
    pub(super) counters: Counters,
    /// How many executions are kept now.
    pub(super) tasks: watch::Sender<usize>,
}
