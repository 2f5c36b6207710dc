//! The choices of a service, and their bounds.

use std::time::Duration;

use crate::backend::Capabilities;
use crate::backend::DURATION_MAX;
use crate::key::Key;
use crate::mode::Mode;
use crate::options::LockOptions;
use crate::records::{OnUnknown, RECORD_TTL_MAX, RECORD_TTL_MIN, Scope};
use crate::rejection::Rejection;

/// The longest idempotency key, in bytes.
pub const IDEMPOTENCY_KEY_BYTES_MAX: usize = 1_024;

/// The longest scope, in bytes.
pub const SCOPE_BYTES_MAX: usize = 1_024;

/// The longest name of a service, in bytes.
pub const SERVICE_BYTES_MAX: usize = 128;

/// The shortest secret, in bytes.
pub const SECRET_BYTES_MIN: usize = 16;

/// A record in flight lives at least this many leases.
const LEASES_MIN: u32 = 3;

/// The choice for a duplicate of an execution that has not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Duplicates {
    /// Answer [`Begun::InFlight`](super::Begun::InFlight) at once.
    Reject,
    /// Wait this long at most for it to end, then replay it; up to 24 h. Zero is `Reject`.
    Wait(Duration),
}

impl Default for Duplicates {
    fn default() -> Self {
        Self::Wait(Duration::from_secs(10))
    }
}

impl Duplicates {
    /// How long to wait; `None` for not at all.
    pub(super) fn wait(self) -> Option<Duration> {
        match self {
            Self::Reject => None,
            Self::Wait(wait) => (!wait.is_zero()).then_some(wait),
        }
    }
}

/// The choices of one [`Idempotency`](super::Idempotency).
#[derive(Debug, Clone, Copy)]
pub(super) struct Options {
    pub(super) record_ttl: Duration,
    pub(super) in_flight_ttl: Duration,
    pub(super) lock: LockOptions,
    pub(super) duplicates: Duplicates,
    pub(super) on_unknown: OnUnknown,
    pub(super) service_bytes: usize,
    pub(super) secret_bytes: usize,
    /// The length of the secret that is being replaced.
    pub(super) old_secret_bytes: Option<usize>,
}

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

impl Options {
    pub(super) fn new(lock: LockOptions, service_bytes: usize, secret_bytes: usize) -> Self {
        // How long other locks may be held says nothing of how long a handler runs.
        let lock = LockOptions { hold_limit: None, ..lock };
        Self {
            record_ttl: DAY,
            in_flight_ttl: DAY,
            lock,
            duplicates: Duplicates::default(),
            on_unknown: OnUnknown::default(),
            service_bytes,
            secret_bytes,
            old_secret_bytes: None,
        }
    }

    /// How the lock is asked for by a request that has this much time.
    pub(super) fn lock(&self, wait: Duration) -> LockOptions {
        // A task that holds it already is the one that runs, and must not run inside of itself.
        let mut lock = self.lock.with_wait(wait).with_retries(0).with_reentrant(false);
        // Executions never share their lock, even where other locks of the client do.
        lock.mode = Mode::Exclusive;
        // A waiter here is a duplicate, and is told so rather than that the line is long.
        lock.admission = false;
        // Nobody comes back to a lock whose record is done.
        lock.linger = Duration::ZERO;
        lock.min_hold = Duration::ZERO;
        lock.name = lock.name.or(Some("idempotency"));
        lock
    }

    /// Refuses what cannot be kept, before anything is sent.
    pub(super) fn check(&self, capabilities: &Capabilities) -> Result<(), BeginRejection> {
        if !capabilities.fencing {
            return Err(BeginRejection::NoFencing);
        }
        if !(1..=SERVICE_BYTES_MAX).contains(&self.service_bytes) {
            return Err(BeginRejection::Service { bytes: self.service_bytes });
        }
        let bytes = self.old_secret_bytes.unwrap_or(usize::MAX).min(self.secret_bytes);
        if bytes < SECRET_BYTES_MIN {
            return Err(BeginRejection::Secret { bytes });
        }
        let within = |option, given, min, max| match given {
            given if given < min || given > max => {
                Err(BeginRejection::OutOfBounds { option, given, min, max })
            }
            _ => Ok(()),
        };
        within("record_ttl", self.record_ttl, RECORD_TTL_MIN, RECORD_TTL_MAX)?;
        let key = Key::from_encoded("idem:").map_err(Rejection::from)?;
        crate::engine::check(&self.lock(Duration::ZERO), &key, capabilities)?;
        // A record that went before the lease of a dead holder would hide that there was one, and
        // it is extended at each third of its life.
        let least = self.lock.lease.saturating_mul(LEASES_MIN);
        within("in_flight_ttl", self.in_flight_ttl, least, RECORD_TTL_MAX)?;
        let wait = self.duplicates.wait().unwrap_or_default();
        within("duplicates", wait, Duration::ZERO, DURATION_MAX)
    }
}

/// Refuses a scope or key that names nothing, or too much.
pub(super) fn check_key(scope: &Scope, key: &[u8]) -> Result<(), BeginRejection> {
    if let Scope::Of(scope) = scope
        && !(1..=SCOPE_BYTES_MAX).contains(&scope.len())
    {
        return Err(BeginRejection::Scope { bytes: scope.len() });
    }
    match key.len() {
        1..=IDEMPOTENCY_KEY_BYTES_MAX => Ok(()),
        bytes => Err(BeginRejection::Key { bytes }),
    }
}

/// Input that no execution can be begun with. Nothing was sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BeginRejection {
    /// The idempotency key is empty or too long.
    #[error("the idempotency key has {bytes} bytes, it must have 1 to {IDEMPOTENCY_KEY_BYTES_MAX}")]
    Key {
        /// Its length.
        bytes: usize,
    },
    /// The scope is empty or too long.
    #[error(
        "the scope has {bytes} bytes, it must have 1 to {SCOPE_BYTES_MAX}; for keys that all \
         share, say `Scope::Global`"
    )]
    Scope {
        /// Its length.
        bytes: usize,
    },
    /// The name of the service is empty or too long.
    #[error(
        "the name of the service has {bytes} bytes, it must have 1 to {SERVICE_BYTES_MAX}: it keeps \
         the records of services and stages on one store apart"
    )]
    Service {
        /// Its length.
        bytes: usize,
    },
    /// A secret is too short to keep anybody from guessing.
    #[error("the secret has {bytes} bytes, it must have at least {SECRET_BYTES_MIN}")]
    Secret {
        /// Its length.
        bytes: usize,
    },
    /// A duration is outside its bounds.
    #[error("{option} is {given:?}, it must be from {min:?} to {max:?}")]
    OutOfBounds {
        /// The name of the option.
        option: &'static str,
        /// The value that was given.
        given: Duration,
        /// The least that is allowed.
        min: Duration,
        /// The most that is allowed.
        max: Duration,
    },
    /// The lock store gives no fencing tokens, so a late completion could not be told from a good
    /// one.
    #[error("the lock store does not promise `fencing`, which idempotency needs")]
    NoFencing,
    /// The options of the lock are out of bounds.
    #[error(transparent)]
    Lock(#[from] Rejection),
    /// No engine was named and none is installed.
    #[error(
        "no idempotency client: name one with `client = …` or call `Idempotency::install_global`"
    )]
    NoClient,
    /// The transaction of the call is that of an execution around it, or of an earlier call, and
    /// would not end with this one.
    #[error(
        "the transaction of this call ends with another execution: give the call one of its own, as \
         with `Tx::of`, or complete the outer execution alone"
    )]
    Transaction,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bound_is_refused_by_name_with_the_limit() {
        let good = Options::new(LockOptions::new(), 1, 16);
        let capabilities = Capabilities { fencing: true, ..Capabilities::none() };
        assert!(good.check(&capabilities).is_ok());
        let (ms, lock) = (Duration::from_millis, LockOptions::new());
        let cases = [
            (Options { record_ttl: ms(999), ..good }, "record_ttl is 999ms"),
            (Options { record_ttl: RECORD_TTL_MAX + ms(1), ..good }, "record_ttl"),
            (Options { in_flight_ttl: ms(29_999), ..good }, "from 30s"),
            (Options { in_flight_ttl: RECORD_TTL_MAX + ms(1), ..good }, "in_flight_ttl"),
            (Options { duplicates: Duplicates::Wait(DAY + ms(1)), ..good }, "duplicates"),
            (Options { secret_bytes: 15, ..good }, "at least 16"),
            (Options { old_secret_bytes: Some(15), ..good }, "at least 16"),
            (Options { service_bytes: 0, ..good }, "the service has 0 bytes"),
            (Options { service_bytes: 129, ..good }, "1 to 128"),
            (Options { lock: lock.with_lease(Duration::ZERO), ..good }, "lease"),
            (Options { lock: lock.with_hold_limit(Duration::ZERO), ..good }, "hold_limit"),
            (Options { lock: lock.with_name("two\nlines"), ..good }, "name"),
        ];
        for (options, text) in cases {
            let error = options.check(&capabilities).unwrap_err().to_string();
            assert!(error.contains(text), "{error}");
        }
        assert_eq!(good.check(&Capabilities::none()), Err(BeginRejection::NoFencing));
    }

    #[test]
    fn the_lock_clients_mode_hold_limit_linger_and_admission_are_not_those_of_executions() {
        let minute = Duration::from_secs(60);
        let client = LockOptions::new().with_linger(minute).with_admission(true);
        let client = client.with_min_hold(minute);
        let client = client.with_hold_limit(minute);
        for client in [client, client.shared(), client.permits(5)] {
            let lock = Options::new(client, 1, 16).lock(minute);
            assert_eq!(
                lock,
                LockOptions::new().with_wait(minute).with_reentrant(false).with_name("idempotency")
            );
        }
        let chosen = Options { lock: client, ..Options::new(client, 1, 16) }.lock(minute);
        assert_eq!(chosen.hold_limit, Some(minute));
    }

    #[test]
    fn scope_and_key_name_something_and_not_too_much() {
        let long = "k".repeat(1_025);
        assert!(check_key(&Scope::Global, b"k").is_ok());
        assert!(check_key(&Scope::of("t"), &long.as_bytes()[1..]).is_ok());
        for (scope, key) in [("", "k"), (&*long, "k"), ("t", ""), ("t", &*long)] {
            assert!(check_key(&Scope::of(scope.to_owned()), key.as_bytes()).is_err());
        }
    }

    #[test]
    fn a_wait_of_nothing_is_no_wait() {
        assert_eq!(Duplicates::Wait(Duration::ZERO).wait(), None);
        assert_eq!(Duplicates::default().wait(), Some(Duration::from_secs(10)));
    }
}
