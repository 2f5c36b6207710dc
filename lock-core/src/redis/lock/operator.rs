//! Requests of an operator: to see who holds a key and who waits, and to take it away.

use std::collections::BTreeSet;
use std::time::Duration;

use redis::FromRedisValue as _;
use redis::Value;

use super::claim::NAME_ALL;
use super::naming::Word;
use crate::backend::Fault;
use crate::backend::register::{age, ticks};
use crate::ground::{Plus as _, clock, timeout};
use crate::key::Key;
use crate::redis::protocol::modes;
use crate::redis::protocol::names::{self, Names};
use crate::redis::protocol::script::{FORCE_RELEASE, INSPECT, QUORUM_FORCE_RELEASE};
use crate::redis::topology::Topology;
use crate::redis::topology::clients::{LOOK_PAUSE, LOOK_PAUSE_OF_WAITS};
use crate::redis::wire::fault;
use crate::redis::wire::request::{Call, REQUEST_WITHIN};
use crate::token::FencingToken;
use crate::view::{Holder, Inspection, KeyList, Waiter};

/// The longest part of a foreign value that an inspection shows.
const VALUE_SHOWN_MAX: usize = 64;

/// Claims that hold a key together that an inspection lists at most.
const HOLDERS_SHOWN_MAX: usize = 1_000;

/// Waiting claims that an inspection lists at most.
pub(in crate::redis) const WAITERS_SHOWN_MAX: usize = 100;

/// Keys of the whole database that a server looks at in one go: well under a millisecond's worth.
const SCANNED_AT_ONCE: usize = 1_000;

/// The holders and waiters of a key.
pub(in crate::redis) async fn inspect(servers: &Topology, key: &Key) -> Result<Inspection, Fault> {
    look(servers, key, WAITERS_SHOWN_MAX, HOLDERS_SHOWN_MAX, LOOK_PAUSE).await
}

/// A holder of a key, without who waits.
pub(in crate::redis) async fn holder(
    servers: &Topology,
    key: &Key,
) -> Result<Option<Holder>, Fault> {
    Ok(look(servers, key, 0, 1, LOOK_PAUSE_OF_WAITS).await?.holders.pop())
}

async fn look(
    servers: &Topology,
    key: &Key,
    waiters_max: usize,
    holders_max: usize,
    pause: Duration,
) -> Result<Inspection, Fault> {
    let names = Names::new(key);
    // Only a member of a quorum keeps the last token of a key.
    let fence = servers.gate.pass().map(|_| names.fence());
    let mut command = INSPECT.evalsha(4 + fence.iter().count());
    command.arg(names.lock()).arg(names.queue()).arg(names.due()).arg(names.held()).arg(fence);
    command.arg(waiters_max).arg(holders_max);
    let slot = servers.slot(&names);
    let call = Call { script: &INSPECT, command, slot };
    let answer = servers.call(call).await.map_err(|error| error.fault.into_fault())?;
    type Texts = Vec<Vec<u8>>;
    type Sharers = Vec<(Vec<u8>, i64)>;
    type Parts = (Option<Vec<u8>>, i64, Option<String>, Texts, Vec<String>, Sharers, Texts, u64);
    let (value, left_ms, fence, waiters, due, sharers, words, now_ms) =
        Parts::from_redis_value(answer).map_err(|_| fault::strange("an inspection"))?;
    let left = |left_ms| u64::try_from(left_ms).ok().map(Duration::from_millis);
    let owners = value.iter().chain(sharers.iter().map(|(owner, _)| owner)).chain(&waiters);
    servers.look_for(slot, owners.filter_map(|owner| names::session_of(owner)), pause).await;
    let clock = ticks(now_ms.saturating_mul(1_000));
    let holders = match value.as_deref().map(|value| (value, modes::at_lock(value))) {
        None => Vec::new(),
        Some((_, Some(mode))) => {
            let holder = |((owner, left_ms), word): (&(Vec<u8>, i64), &Vec<u8>)| {
                let holder = holder_as(servers, owner, left(*left_ms)).with_mode(mode);
                with_word(holder, word, clock)
            };
            sharers.iter().zip(&words).map(holder).collect()
        }
        Some((owner, None)) => {
            let ours = names::claim_of(owner).is_some();
            let last = fence.and_then(|fence| fence.split_once(':')?.0.parse().ok());
            let token = last.filter(|_| ours).map(FencingToken::new);
            let holder = Holder { token, ..holder_as(servers, owner, left(left_ms)) };
            vec![with_word(holder, words.first().map_or(&[], Vec::as_slice), clock)]
        }
    };
    let waiters = waiters.iter().zip(&due);
    let waiters = waiters
        .map(|(owner, due)| waiter_as(servers, owner).with_mode(modes::of_waiter(due)))
        .collect();
    Ok(Inspection::new(holders, waiters))
}

/// The keys that somebody holds. One that is waited for alone is about to be held.
pub(in crate::redis) async fn list(
    servers: &Topology,
    within: Option<&Key>,
    max: usize,
) -> Result<KeyList, Fault> {
    let (pattern, until) = (names::pattern(within), clock::now().plus(REQUEST_WITHIN));
    // A node tells a key more than once while its table grows.
    let (mut found, mut is_whole, mut has_answered) = (BTreeSet::new(), true, false);
    for slot in servers.one_slot_each() {
        let mut cursor = String::from("0");
        loop {
            if found.len() > max || clock::now() >= until {
                is_whole = false;
                break;
            }
            let mut scan = redis::cmd("SCAN");
            scan.arg(&cursor).arg("MATCH").arg(&pattern).arg("COUNT").arg(SCANNED_AT_ONCE);
            let answer = match timeout::by(until, servers.send_to(slot, &scan)).await {
                Ok(answer) => answer.map_err(|unserved| unserved.fault.into_fault())?,
                Err(_) if has_answered => continue,
                Err(_) => return Err(fault::timed_out(REQUEST_WITHIN)),
            };
            has_answered = true;
            let (next, names) = <(String, Vec<Vec<u8>>)>::from_redis_value(answer)
                .map_err(|_| fault::strange("a list of keys"))?;
            found.extend(names.iter().filter_map(|name| names::key_of(name)));
            if next == "0" {
                break;
            }
            cursor = next;
        }
    }
    Ok(KeyList::new(found, max, is_whole))
}

/// Takes a key away from all who hold it, a client of another library too; `false` if nobody holds
/// it.
pub(in crate::redis) async fn force_release(servers: &Topology, key: &Key) -> Result<bool, Fault> {
    let names = Names::new(key);
    let until = servers.until(servers.slot(&names)).await?;
    let call = |together| {
        let mut call = match servers.gate.pass() {
            None => servers.call_for(&FORCE_RELEASE, &names, together),
            // It hands the key to nobody: those in line ask again soon.
            Some(_) => {
                let mut command = QUORUM_FORCE_RELEASE.evalsha(2);
                command.arg(names.lock()).arg(names.queue());
                Call { script: &QUORUM_FORCE_RELEASE, command, slot: 0 }
            }
        };
        call.command.arg(until);
        call
    };
    let mut answer = servers.call(call(false)).await;
    if matches!(answer, Ok(NAME_ALL)) {
        answer = servers.call(call(true)).await;
    }
    match answer {
        Ok(Value::Int(1 | 2)) => Ok(true),
        Ok(Value::Int(0)) => Ok(false),
        Ok(_) => Err(fault::strange("a forced release")),
        Err(unserved) => Err(unserved.fault.into_fault()),
    }
}

/// A holder, with what its client says of itself.
pub(in crate::redis) fn holder_as(
    servers: &Topology,
    owner: &[u8],
    left: Option<Duration>,
) -> Holder {
    Holder { about: about(servers, owner), ..Holder::new(shown(owner), None, left) }
}

/// The same, with the word of its claim: what it holds the key for, and since when.
fn with_word(holder: Holder, word: &[u8], clock: u64) -> Holder {
    let Some(Word { first, name }) = Word::read(word) else { return holder };
    let held_for = (first > 0).then(|| age(first, clock));
    let name = (!name.is_empty()).then(|| format!("name={}", name.escape_debug()));
    let said: Vec<_> = holder.about.into_iter().chain(name).collect();
    let about = (!said.is_empty()).then(|| said.join(" "));
    Holder { held_for, about, ..holder }
}

/// A waiter, with what its client says of itself.
pub(in crate::redis) fn waiter_as(servers: &Topology, owner: &[u8]) -> Waiter {
    about(servers, owner).into_iter().fold(Waiter::new(shown(owner)), Waiter::with_about)
}

fn about(servers: &Topology, owner: &[u8]) -> Option<String> {
    servers.label_of(names::session_of(owner)?)
}

/// The name of an owner, for people.
fn shown(owner: &[u8]) -> String {
    match names::claim_of(owner) {
        Some(claim) => claim.to_string(),
        None => owner.escape_ascii().map(char::from).take(VALUE_SHOWN_MAX).collect(),
    }
}
