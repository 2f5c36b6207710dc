//! Inspecting the line of a key, asking its holders to leave, and making them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use super::about::About;
use super::claim::{prefix, tokens};
use super::fault::{self, Failure};
use super::join::rewrite;
use super::line::{InLine, Line};
use super::links::{REQUEST_WITHIN, Repeat};
use super::lock_key::delete;
use super::session::Session;
use super::sessions::Sessions;
use super::wire::{Compare, Range};
use crate::backend::Fault;
use crate::ground::{Plus as _, clock};
use crate::key::Key;
use crate::token::FencingToken;
use crate::view::{Holder, Inspection, KeyList, Waiter};

/// The names of claims in one page of a list.
const LISTED_AT_ONCE: i64 = 1_000;

async fn line(sessions: &Sessions, key: &Key, until: Instant) -> Result<Line, Fault> {
    let prefix = prefix(sessions, key);
    let read = sessions.links.read(Range::prefix(&prefix).read(0), until).await;
    Ok(Line::of(&prefix, &read.map_err(Failure::into_fault)?.kvs))
}

pub(super) async fn inspect(sessions: &Sessions, key: &Key) -> Result<Inspection, Fault> {
    let line = line(sessions, key, clock::now().plus(REQUEST_WITHIN)).await?;
    let holders = line.holders().iter().map(|place| {
        let token = tokens(place.created, u32::MAX).last().map(FencingToken::new);
        let holder = Holder::new(place.claim.clone(), token, None).with_mode(place.kind.mode());
        holder.with_about(place.about.shown())
    });
    let waiters = line.waiters().iter().map(|place| {
        let waiter = Waiter::new(place.claim.clone()).with_mode(place.kind.mode());
        waiter.with_about(place.about.shown())
    });
    Ok(Inspection::new(holders.collect::<Vec<_>>(), waiters.collect()))
}

/// The keys with a line, by their names below the path: a page of claims at a time, and behind the
/// last of them all that stand in its line are passed over.
pub(super) async fn list(
    sessions: &Sessions,
    within: Option<&Key>,
    max: usize,
) -> Result<KeyList, Fault> {
    let (root, until) = (&sessions.links.target.root, clock::now().plus(REQUEST_WITHIN));
    let path = within.map_or_else(|| root.clone(), |within| format!("{root}{within}:"));
    let mut range = Range::prefix(path.as_bytes());
    if path.is_empty() {
        // All that there is, from the first byte on.
        range = Range { begin: vec![0], end: vec![0] };
    }
    let mut found = BTreeSet::new();
    while found.len() <= max {
        let page = sessions.links.read(range.names(LISTED_AT_ONCE), until).await;
        let names = page.map_err(Failure::into_fault)?.kvs;
        let keys = || names.iter().map(|name| key_of(root, &name.key));
        found.extend(keys().flatten());
        match keys().next_back() {
            Some(Some(last)) if names.len() as i64 == LISTED_AT_ONCE => {
                range.begin = format!("{root}{last}0").into_bytes();
            }
            // A name of others in which no key can be read.
            Some(None) if names.len() as i64 == LISTED_AT_ONCE => {
                range.begin = [names[names.len() - 1].key.as_slice(), &[0]].concat();
            }
            _ => return Ok(KeyList::new(found, max, true)),
        }
    }
    Ok(KeyList::new(found, max, false))
}

/// The key in whose line this name is; `None` if it is in none.
fn key_of(root: &str, name: &[u8]) -> Option<Key> {
    let below = std::str::from_utf8(name).ok()?.strip_prefix(root)?;
    Key::from_encoded(below.split_once('/')?.0).ok()
}

/// An operator's wish for a holder.
#[derive(Debug, Clone, Copy)]
enum Wish {
    /// It is asked to give the key up.
    Revoke,
    /// Its key is deleted.
    Release,
}

/// Asks all holders to give the key up. Those of other clients know no such wish, and are told
/// nothing. Where all were gone when they were to be asked, others may hold it by now.
pub(super) async fn request_revoke(sessions: &Arc<Sessions>, key: &Key) -> Result<bool, Fault> {
    each_holder(sessions, key, Wish::Revoke).await
}

/// Deletes the keys of all holders, so that the next in line are first. One that was gone when it
/// was to be deleted was given up meanwhile.
pub(super) async fn force_release(sessions: &Arc<Sessions>, key: &Key) -> Result<bool, Fault> {
    each_holder(sessions, key, Wish::Release).await
}

/// Whether there were any: where all were gone meanwhile, those who came after them are next.
async fn each_holder(sessions: &Arc<Sessions>, key: &Key, wish: Wish) -> Result<bool, Fault> {
    let until = clock::now().plus(REQUEST_WITHIN);
    while clock::now() < until {
        let session = sessions.get(until).await?;
        let line = line(sessions, key, until).await?;
        if line.holders().is_empty() {
            return Ok(false);
        }
        let mut any = false;
        for holder in line.holders() {
            any |= match wish {
                Wish::Revoke => !holder.is_ours || ask(&session, holder, until).await?,
                Wish::Release => {
                    let deleted = delete(&session, &holder.key, holder.created, until).await;
                    deleted.map_err(Failure::into_fault)?
                }
            };
        }
        if any {
            return Ok(true);
        }
    }
    Err(fault::timed_out(REQUEST_WITHIN))
}

/// `false` if it is gone, or says something else by now.
async fn ask(session: &Session, holder: &InLine, until: Instant) -> Result<bool, Fault> {
    if holder.about.is_revoked {
        return Ok(true);
    }
    let about = About { is_revoked: true, ..holder.about.clone() };
    let compare = vec![Compare::written(&holder.key, holder.written)];
    let put = vec![rewrite(&holder.key, &about)];
    let asked = session.transact(compare, put, vec![], Repeat::Yes, until).await;
    Ok(asked.map_err(Failure::into_fault)?.succeeded)
}
