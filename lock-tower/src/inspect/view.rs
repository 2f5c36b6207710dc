//! The answers as JSON.

use std::time::Duration;

use lock_core::Key;
use lock_core::view::{BusyKey, Holder, Inspection, MemberHealth, MemberState, Quantiles, Waiter};
use serde_json::{Value, json};

use super::desk::Desk;

/// The busy keys of this process, those with the most waiters first, and what it has counted.
pub(super) fn snapshot<V>(desk: &Desk<V>) -> Value {
    let (stats, capabilities) = (desk.locks.stats(), desk.locks.capabilities());
    let mut keys = desk.locks.busy_keys();
    let rows = desk.rows_max.min(keys.len());
    let rank = |a: &BusyKey, b: &BusyKey| b.waiters.cmp(&a.waiters).then(a.key.cmp(&b.key));
    if rows < keys.len() {
        keys.select_nth_unstable_by(rows, rank);
    }
    let omitted = keys.len() - rows;
    keys.truncate(rows);
    keys.sort_unstable_by(rank);
    json!({
        "keys": keys.iter().map(row).collect::<Vec<_>>(),
        "prefix": desk.locks.prefix().map(Key::as_str),
        "keys_omitted": omitted,
        "listing": capabilities.listing,
        "force_release": desk.guard.is_some() && capabilities.force_release,
        "refresh_ms": ms(desk.refresh),
        "stats": {
            "acquired": stats.acquired,
            "handoffs_local": stats.handoffs_local,
            "handoffs_remote": stats.handoffs_remote,
            "timeouts": stats.timeouts,
            "refused": stats.refused,
            "lost": stats.lost,
            "renewals": stats.renewals,
            "store_requests": stats.store_requests,
            "keys": stats.keys,
            "waiters": stats.waiters,
            "held": stats.held,
        },
    })
}

fn row(busy: &BusyKey) -> Value {
    let hold = busy.guards.first().map(|hold| {
        json!({
            "token": hold.token.to_string(),
            "held_ms": ms(hold.held_for),
            "lease_left_ms": ms(hold.lease_left),
        })
    });
    json!({
        "key": busy.key.as_str(),
        "hold": hold,
        "waiters": busy.waiters,
        "refused": busy.refused,
        "holds": busy.holds.map(quantiles),
        "waits": busy.waits.map(quantiles),
    })
}

fn quantiles(seen: Quantiles) -> Value {
    json!({ "p50_ms": ms(seen.p50), "p90_ms": ms(seen.p90), "p99_ms": ms(seen.p99) })
}

/// The store's view of one key.
pub(super) fn inspection(key: &Key, seen: &Inspection) -> Value {
    let holder = |holder: &Holder| {
        json!({
            "mode": holder.mode.to_string(),
            "claim": holder.claim,
            "token": holder.token.map(|token| token.to_string()),
            "held_ms": holder.held_for.map(ms),
            "lease_left_ms": holder.lease_left.map(ms),
            "about": holder.about,
        })
    };
    let waiter = |waiter: &Waiter| json!({ "mode": waiter.mode.to_string(), "claim": waiter.claim, "about": waiter.about });
    let holders: Vec<_> = seen.holders.iter().map(holder).collect();
    let waiters: Vec<_> = seen.waiters.iter().map(waiter).collect();
    let members: Vec<_> = seen.members.iter().map(member).collect();
    json!({ "key": key.as_str(), "holders": holders, "waiters": waiters, "members": members })
}

/// One member of a quorum.
fn member(health: &MemberHealth) -> Value {
    let quarantine_left = match health.state {
        MemberState::Quarantined { left } => Some(ms(left)),
        _ => None,
    };
    json!({
        "name": health.name,
        "state": health.state.name(),
        "quarantine_left_ms": quarantine_left,
        "holds": health.holds,
        "lease_left_ms": health.lease_left.map(ms),
        "answered_ago_ms": health.answered_ago.map(ms),
    })
}

/// Milliseconds, to the microsecond.
pub(super) fn ms(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}
