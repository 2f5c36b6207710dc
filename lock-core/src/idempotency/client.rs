//! The handle that a service keeps.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::watch;

use super::begin::Begin;
use super::begun::Begun;
use super::error::BeginError;
use super::observe::Request;
use super::options::{BeginRejection, Duplicates, Options, check_key};
use super::rotation::{self, Old};
use super::service::Service;
use super::stats::{Counters, IdempotencyStats};
use crate::client::LockClient;
use crate::error::AlreadyInstalled;
use crate::key::Key;
use crate::options::LockOptions;
use crate::records::{Fingerprint, Ids, OnUnknown, RecordId, RecordStore, Scope};

/// The secret of a service that has none of its own: one that everybody knows.
pub const SECRET_DEFAULT: &[u8] = b"lock-core idempotency records";

static GLOBAL: OnceLock<Idempotency> = OnceLock::new();

/// Runs each key once, and remembers how it ended. Cheap to clone. All clones share the lock
/// client, the record store, the counters, and the local line of each key. A line has 10,000
/// duplicates at most; the next do not wait. When the service ends, [`LockClient::shutdown`] waits
/// for the executions that run, as they hold locks.
///
/// The choices are those of one clone, so a service may have endpoints that choose otherwise.
/// They are checked by [`begin`](Self::begin), and by [`check`](Self::check) at start-up:
///
/// | option | default | bounds |
/// |---|---|---|
/// | [`service`](Self::new) | none, must be given | 1 to 128 bytes |
/// | [`secret`](Self::with_secret) | one that everybody knows | at least 16 bytes |
/// | [`old_secret`](Self::with_old_secret) | none | at least 16 bytes |
/// | [`record_ttl`](Self::with_record_ttl) | 24 h | 1 s to 366 days |
/// | [`in_flight_ttl`](Self::with_in_flight_ttl) | 24 h | 3 leases to 366 days |
/// | [`lock_options`](Self::with_lock_options) | the lock client's | see [`LockOptions`] |
/// | [`duplicates`](Self::with_duplicates) | wait 10 s | 0 to 24 h |
/// | [`on_unknown`](Self::with_on_unknown) | run again | |
#[doc(alias = "idempotency key")]
#[derive(Clone)]
pub struct Idempotency {
    shared: Arc<Service>,
    service: Arc<str>,
    ids: Ids,
    old: Option<Old>,
    options: Options,
}

impl Idempotency {
    /// Serialises by `locks`, remembers in `store`. Both must be shared by all processes that
    /// serve the same keys. **With `memory:` locks and records that several processes share, each
    /// process takes over from living executions of the others.**
    ///
    /// `service` is whose records these are: the name of the service and of its stage, such as
    /// `"shop-staging"`, 1 to 128 bytes, the same in all its processes. Those of another name are
    /// out of reach, so that services and stages may share a store. It is checked by
    /// [`check`](Self::check). Those under another [`prefix`](crate::ClientBuilder::prefix) of the
    /// lock client are, too.
    #[must_use]
    pub fn new(service: impl AsRef<str>, locks: LockClient, store: impl RecordStore) -> Self {
        let service: Arc<str> = service.as_ref().into();
        let options = Options::new(locks.defaults(), service.len(), SECRET_DEFAULT.len());
        let store: Arc<dyn RecordStore> = Arc::new(store);
        let (flights, counters) = (Arc::default(), Counters::default());
        let shared =
            Arc::new(Service { locks, store, flights, counters, tasks: watch::Sender::new(0) });
        let ids = ids(&shared, &service, SECRET_DEFAULT);
        Self { shared, service, ids, old: None, options }
    }

    /// The secret under which scopes, keys and fingerprints are hashed, the same in all processes;
    /// at least 16 bytes. Without one of the service's own, whoever sees record ids (in the store,
    /// in logs, among the lock's keys) can test guesses at scopes and keys. Whoever reads the store
    /// can also test guesses at what was asked. This opens no record to a client: no client can
    /// name one by its id.
    ///
    /// With another secret, all records are out of reach, and a key that has run runs again. So it
    /// is replaced with the old one beside it, see [`with_old_secret`](Self::with_old_secret).
    #[must_use]
    pub fn with_secret(mut self, secret: impl AsRef<[u8]>) -> Self {
        let secret = secret.as_ref();
        self.options.secret_bytes = secret.len();
        self.ids = ids(&self.shared, &self.service, secret);
        self
    }

    /// The secret that [`with_secret`](Self::with_secret) replaces; at least 16 bytes (default:
    /// none). Each execution then has the lock and the record of both, so it excludes processes
    /// that know either one, and those are given its outcome. The last one that is given counts.
    ///
    /// 1. Deploy the new secret, with the old one here. Processes of before may run beside.
    /// 2. Wait for the longest life of a record ([`record_ttl`](Self::with_record_ttl),
    ///    [`in_flight_ttl`](Self::with_in_flight_ttl)) after the last process of before has ended.
    /// 3. Deploy without this. Until then an execution costs twice the requests.
    ///
    /// Where there was no secret, the old one is [`SECRET_DEFAULT`](super::SECRET_DEFAULT).
    ///
    /// Handle and token of an [`Execution`](super::Execution) are those of the lock under the new
    /// secret; [`lost`](super::Execution::lost) tells of either. So for as long as processes of two
    /// steps run, tokens of one key are those of two locks. They grow together where a store's
    /// tokens grow over all keys: in memory, at one Redis server or ZooKeeper ensemble. In a Redis
    /// Cluster and in a quorum a resource that checks tokens may refuse the later of two.
    #[must_use]
    pub fn with_old_secret(mut self, secret: impl AsRef<[u8]>) -> Self {
        let secret = secret.as_ref();
        self.options.old_secret_bytes = Some(secret.len());
        self.old = Some(Old::new(ids(&self.shared, &self.service, secret), &self.shared));
        self
    }

    /// How long an outcome is kept, 1 s to 366 days (default 24 h). A duplicate that comes later
    /// runs.
    #[must_use]
    pub fn with_record_ttl(mut self, ttl: Duration) -> Self {
        self.options.record_ttl = ttl;
        self
    }

    /// How long the store remembers that an execution was begun and left no outcome, from 3 leases
    /// to 366 days (default 24 h). While an execution holds its lock, its record is extended at
    /// each third of this.
    #[must_use]
    pub fn with_in_flight_ttl(mut self, ttl: Duration) -> Self {
        self.options.in_flight_ttl = ttl;
        self
    }

    /// How the lock on a record is held (default: as the lock client was told, without its
    /// `hold_limit`). The mode, `wait`, `retries`, `linger`, `min_hold`, `admission` and `reentrant` are not
    /// the caller's to choose here: an execution is alone whatever others share. See
    /// [`with_duplicates`](Self::with_duplicates).
    #[must_use]
    pub fn with_lock_options(mut self, lock: LockOptions) -> Self {
        self.options.lock = lock;
        self
    }

    /// How long the lock of an execution outlives its process, see
    /// [`LockBuilder::lease`](crate::LockBuilder::lease).
    #[must_use]
    pub fn with_lease(mut self, lease: Duration) -> Self {
        self.options.lock.lease = lease;
        self
    }

    /// The choice for a duplicate of an execution that has not ended (default: wait 10 s).
    #[must_use]
    pub fn with_duplicates(mut self, duplicates: Duplicates) -> Self {
        self.options.duplicates = duplicates;
        self
    }

    /// The choice where an earlier execution left no outcome (default: run again).
    #[must_use]
    pub fn with_on_unknown(mut self, on_unknown: OnUnknown) -> Self {
        self.options.on_unknown = on_unknown;
        self
    }

    /// Checks the options, as [`begin`](Self::begin) does each time.
    ///
    /// # Errors
    ///
    /// [`BeginRejection`] names the option and its bounds.
    pub fn check(&self) -> Result<(), BeginRejection> {
        self.options.check(&self.shared.locks.capabilities())
    }

    /// The name of the record of a key, for operators who look into the store.
    #[must_use]
    pub fn record_id(&self, scope: &Scope, key: &[u8]) -> RecordId {
        self.ids.id(scope, key)
    }

    /// Asks what is to be done about a request: run it, answer what was answered before, or
    /// refuse it.
    ///
    /// The record is looked at first, so an outcome that is there costs one request, and no lock.
    /// If there is none, the request stands in the lock's line, and is woken when the execution
    /// before it ends. Duplicates inside one process share one place there. It must be called
    /// inside a Tokio runtime.
    ///
    /// # Errors
    ///
    /// [`BeginError`], when it is not known whether an execution may begin. The store is given
    /// 2 s to say what there is, and 2 s to take the claim, apart from the wait for duplicates.
    ///
    /// # Cancel safety
    ///
    /// Dropping it at any point leaves nothing and holds up nobody. The place in line goes to the
    /// next duplicate. A claim that was made meanwhile is taken back in the background.
    pub async fn begin(
        &self,
        scope: &Scope,
        key: &[u8],
        fingerprint: Fingerprint,
    ) -> Result<Begun, BeginError> {
        self.check()?;
        check_key(scope, key)?;
        let begin = self.begin_under(&self.ids, &self.shared, (scope, key), fingerprint);
        let request = Request::begins(begin.id);
        let old = self.old.as_ref();
        let old = old.map(|old| self.begin_under(&old.ids, &old.shared, (scope, key), fingerprint));
        let begun = match old {
            // A secret that replaces itself.
            Some(old) if old.id != begin.id => rotation::begin(&begin, &old).await,
            _ => begin.begin(begin.deadline()).await,
        };
        let counters = &self.shared.counters;
        match &begun {
            Ok(Begun::Run(execution)) => {
                counters.executed.add();
                if execution.replaced().is_some() {
                    counters.unknown.add();
                }
            }
            // Counted where it is found.
            Ok(Begun::Unknown { .. }) => {}
            Ok(Begun::Replay(_)) => counters.replayed.add(),
            Ok(Begun::InFlight { .. }) => counters.in_flight.add(),
            Ok(Begun::WithoutPayload) => counters.without_payload.add(),
            Ok(Begun::Mismatch) => counters.mismatches.add(),
            Err(_) => counters.failed.add(),
        }
        request.ended(&begun);
        match begun {
            // There is no await from here to the caller.
            Ok(Begun::Run(execution)) => Ok(Begun::Run(execution.handed_over())),
            begun => begun,
        }
    }

    fn begin_under<'a>(
        &self,
        ids: &Ids,
        shared: &'a Arc<Service>,
        (scope, key): (&Scope, &[u8]),
        fingerprint: Fingerprint,
    ) -> Begin<'a> {
        let id = ids.id(scope, key);
        Begin { shared, options: self.options, id, fingerprint: ids.seal(id, fingerprint) }
    }

    /// The counters since this was made, and a gauge of what is busy now.
    #[must_use]
    pub fn stats(&self) -> IdempotencyStats {
        self.shared.counters.read(self.shared.flights.len())
    }

    /// Waits until no execution of this engine and its clones is under way: each outcome is
    /// written, each abort done, each lock given up. It waits for `within` at most; `false` if
    /// there are some left then.
    ///
    /// It keeps no new execution away. So it is for the end of a process, after
    /// [`LockClient::shutdown`]: that keeps new ones away, and waits for those that run, as they
    /// hold locks. Called before the shutdown, once the server takes no more requests, it also lets
    /// handlers finish that take further locks. A shutdown refuses those.
    ///
    /// # Cancel safety
    ///
    /// Keeps no state.
    pub async fn idle(&self, within: Duration) -> bool {
        let mut tasks = self.shared.tasks.subscribe();
        let idle = tasks.wait_for(|tasks| *tasks == 0);
        // The sender lives as long as `self`.
        tokio::time::timeout(within, idle).await.is_ok()
    }

    /// The lock client behind it.
    #[must_use]
    pub fn locks(&self) -> &LockClient {
        &self.shared.locks
    }

    /// Makes this the one that `#[idempotent]` uses where none is named.
    ///
    /// # Errors
    ///
    /// [`AlreadyInstalled`] when there is one; it stays.
    pub fn install_global(self) -> Result<(), AlreadyInstalled> {
        GLOBAL.set(self).map_err(|_| AlreadyInstalled)
    }

    /// The one that [`install_global`](Self::install_global) set.
    #[must_use]
    pub fn global() -> Option<Self> {
        GLOBAL.get().cloned()
    }
}

fn ids(shared: &Service, service: &str, secret: &[u8]) -> Ids {
    Ids::new(service, shared.locks.prefix().map(Key::as_str), secret)
}

impl fmt::Debug for Idempotency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the secret.
        f.debug_struct("Idempotency")
            .field("service", &self.service)
            .field("store", &self.shared.store)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
