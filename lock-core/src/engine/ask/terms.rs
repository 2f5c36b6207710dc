//! From the options of an acquire to the terms of a claim.

use std::time::Duration;

use crate::backend::{
    Capabilities, DURATION_MAX, Mode, PERMITS_MAX, REPLICAS_MAX, REPLICAS_TIMEOUT_MAX, Replicas,
    Terms,
};
use crate::key::Key;
use crate::limits::{HOLD_LIMIT_MIN, NAME_BYTES_MAX, RETRIES_MAX};
use crate::options::LockOptions;
use crate::rejection::Rejection;

/// The most tokens worth reserving at once. They cost nothing, so enough for the longest row of
/// hand-offs between two renewals.
const TOKENS_MAX: u32 = 1 << 20;

/// More of a lease than a `min_hold` with the request that it is counted from.
const REST_MARGIN: Duration = Duration::from_millis(2_100);

/// The terms of the claim of one who has this time `left`, of a client of this label.
pub(in crate::engine) fn of(
    options: &LockOptions,
    label: Option<&'static str>,
    queues: bool,
    left: Duration,
) -> Terms {
    let LockOptions { lease, min_hold, mode, replicas, name, .. } = *options;
    let lease = if min_hold.is_zero() { lease } else { lease.max(lease_of(min_hold)) };
    let replicas = replicas.map(|wanted| wanted.within(left));
    Terms { lease, mode, tokens_max: TOKENS_MAX, tokens_likely: 0, queues, name, label, replicas }
}

/// A lease that lasts for a `min_hold` by this process's own clock, less its margin, and is counted
/// from the send of a request that may take its time: the key stays taken though the process dies.
fn lease_of(min_hold: Duration) -> Duration {
    min_hold.saturating_add(min_hold / 64).saturating_add(REST_MARGIN)
}

/// The longest `min_hold` that a lease lasts for.
fn min_hold_max(lease_max: Duration) -> Duration {
    lease_max.saturating_sub(REST_MARGIN) / 65 * 64
}

/// Refuses what no backend could keep, before anything is sent.
pub(crate) fn check(
    options: &LockOptions,
    key: &Key,
    capabilities: &Capabilities,
) -> Result<(), Rejection> {
    capabilities.check_key(key)?;
    let Capabilities { lease_min, lease_max, .. } = *capabilities;
    let refuse = |option, given, min, max| {
        Err(Rejection::OutOfBounds { key: key.clone(), option, given, min, max })
    };
    let unserved = match options.mode {
        Mode::Exclusive => None,
        Mode::Shared => (!capabilities.shared).then_some("shared"),
        Mode::Permit { .. } => (!capabilities.permits).then_some("permits"),
    };
    if let Some(option) = unserved {
        return Err(Rejection::Unsupported { key: key.clone(), option });
    }
    if let Mode::Permit { of: given } = options.mode
        && !(1..=PERMITS_MAX).contains(&given)
    {
        return Err(Rejection::Permits { key: key.clone(), given, max: PERMITS_MAX });
    }
    let lease_max = lease_max.min(DURATION_MAX);
    if options.lease < lease_min || options.lease > lease_max {
        return refuse("lease", options.lease, lease_min, lease_max);
    }
    if options.wait > DURATION_MAX {
        return refuse("wait", options.wait, Duration::ZERO, DURATION_MAX);
    }
    if options.linger > DURATION_MAX {
        return refuse("linger", options.linger, Duration::ZERO, DURATION_MAX);
    }
    if !options.min_hold.is_zero() {
        let (option, most) = match options.mode {
            Mode::Shared => ("min_hold of one that shares it", Duration::ZERO),
            _ => ("min_hold", min_hold_max(lease_max)),
        };
        if options.min_hold > most {
            return refuse(option, options.min_hold, Duration::ZERO, most);
        }
    }
    if let Some(limit) = options.hold_limit
        && !(HOLD_LIMIT_MIN..=DURATION_MAX).contains(&limit)
    {
        return refuse("hold_limit", limit, HOLD_LIMIT_MIN, DURATION_MAX);
    }
    if options.retries > RETRIES_MAX {
        let key = key.clone();
        return Err(Rejection::TooManyRetries { key, given: options.retries, max: RETRIES_MAX });
    }
    if let Some(given) = options.name
        && (given.len() > NAME_BYTES_MAX || given.contains(char::is_control))
    {
        return Err(Rejection::Name { key: key.clone(), given, max: NAME_BYTES_MAX });
    }
    options
        .replicas
        .map_or(Ok(()), |replicas| check_replicas(replicas, key, options.lease, capabilities))
}

/// Refuses to take a key from its holders where that cannot be had.
pub(super) fn check_forced(
    options: &LockOptions,
    key: &Key,
    capabilities: &Capabilities,
) -> Result<(), Rejection> {
    let key = key.clone();
    match options.mode {
        _ if !capabilities.force_acquire => {
            Err(Rejection::Unsupported { key, option: "force_acquire" })
        }
        Mode::Exclusive => Ok(()),
        asked => Err(Rejection::Forced { key, asked }),
    }
}

fn check_replicas(
    replicas: Replicas,
    key: &Key,
    lease: Duration,
    capabilities: &Capabilities,
) -> Result<(), Rejection> {
    let (key, option) = (key.clone(), "replicas");
    if !capabilities.replicas {
        return Err(Rejection::Unsupported { key, option });
    }
    if replicas.count == 0 || replicas.count > REPLICAS_MAX {
        return Err(Rejection::Replicas { key, given: replicas.count, max: REPLICAS_MAX });
    }
    let (given, min) = (replicas.timeout, Replicas::TIMEOUT_MIN);
    // A grant whose lease is over when it is acknowledged is of no use to anybody.
    let max = REPLICAS_TIMEOUT_MAX.min(lease / 2);
    if given < min || given > max {
        let option = "the timeout of replicas";
        return Err(Rejection::OutOfBounds { key, option, given, min, max });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 129 bytes in 128 characters.
    const LONG: &str = concat!(
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdeé",
    );

    #[test]
    fn every_bound_is_refused_by_name_with_the_key_and_the_limit() {
        let key = Key::new("order:42").unwrap();
        let day = DURATION_MAX + Duration::from_nanos(1);
        let capabilities =
            Capabilities { replicas: true, permits: true, shared: true, ..Capabilities::none() };
        let cases = [
            (LockOptions::new().with_lease(Duration::ZERO), "lease"),
            (LockOptions::new().with_lease(Duration::from_millis(9)), "lease"),
            (LockOptions::new().with_lease(day), "lease"),
            (LockOptions::new().with_wait(day), "wait"),
            (LockOptions::new().with_linger(day), "linger"),
            (LockOptions::new().with_min_hold(day), "min_hold"),
            (
                LockOptions::new().shared().with_min_hold(Duration::from_millis(1)),
                "min_hold of one that shares it",
            ),
            (LockOptions::new().with_hold_limit(Duration::ZERO), "hold_limit"),
            (LockOptions::new().with_hold_limit(Duration::from_nanos(1)), "hold_limit is 1ns"),
            (LockOptions::new().with_hold_limit(Duration::from_micros(999)), "from 1ms"),
            (LockOptions::new().with_hold_limit(day), "hold_limit"),
            (LockOptions::new().with_retries(RETRIES_MAX + 1), "retries"),
            (
                LockOptions::new().with_replicas(REPLICAS_MAX + 1, Duration::from_millis(9)),
                "replicas",
            ),
            (LockOptions::new().permits(0), "0 permits"),
            (LockOptions::new().permits(PERMITS_MAX + 1), "1 to 1024"),
            (LockOptions::new().with_replicas(1, Duration::ZERO), "replicas"),
            (LockOptions::new().with_replicas(1, Duration::from_micros(999)), "replicas"),
            (LockOptions::new().with_replicas(1, Duration::from_millis(1_001)), "replicas"),
            (
                LockOptions::new()
                    .with_lease(Duration::from_millis(500))
                    .with_replicas(1, Duration::from_millis(251)),
                "from 1ms to 250ms",
            ),
            (LockOptions::new().with_name(LONG), "128"),
            (LockOptions::new().with_name("two\nlines"), "name"),
            (LockOptions::new().with_name("\u{9b}31m"), "name"),
        ];
        for (options, name) in cases {
            let error = check(&options, &key, &capabilities).unwrap_err().to_string();
            assert!(error.contains("order:42") && error.contains(name), "{error}");
        }
        let replicas = LockOptions::new().with_replicas(REPLICAS_MAX, REPLICAS_TIMEOUT_MAX);
        let short = LockOptions::new().with_hold_limit(HOLD_LIMIT_MIN);
        let named = LockOptions::new().with_name(&LONG[1..]);
        for options in [LockOptions::new(), named, replicas, short] {
            assert!(check(&options, &key, &capabilities).is_ok(), "{options:?}");
        }
        let capabilities =
            Capabilities { lease_max: Duration::from_secs(5), ..Capabilities::none() };
        let error = check(&LockOptions::new(), &key, &capabilities).unwrap_err().to_string();
        assert!(error.contains("lease is 10s") && error.contains("to 5s"), "{error}");
    }

    #[test]
    fn replicas_are_refused_where_the_store_has_none_and_0_is_none() {
        let key = Key::new("order:42").unwrap();
        let some = LockOptions::new().with_replicas(1, Duration::from_millis(1));
        let error = check(&some, &key, &Capabilities::none()).unwrap_err();
        assert!(matches!(error, Rejection::Unsupported { option: "replicas", .. }), "{error}");
        assert!(error.to_string().contains("order:42"), "{error}");
        let none = some.with_replicas(0, Duration::ZERO);
        assert!(check(&none, &key, &Capabilities::none()).is_ok());
    }
}
