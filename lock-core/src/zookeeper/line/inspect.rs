//! The holders of a key and those who wait, with what each says of itself.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use futures_util::future::join_all;
use zookeeper_client::{Error, Stat};

use super::{Found, children, directory, find, find_in};
use crate::backend::{Fault, Mode};
use crate::ground::{Plus as _, clock};
use crate::key::Key;
use crate::token::FencingToken;
use crate::view::{Holder, Inspection, KeyList, Waiter};
use crate::zookeeper::about;
use crate::zookeeper::fault::Failure;
use crate::zookeeper::member::counter;
use crate::zookeeper::names;
use crate::zookeeper::protocol::children::{InLine, Line, Permit, Permits};
use crate::zookeeper::protocol::tokens::tokens;
use crate::zookeeper::session::requests::czxid;
use crate::zookeeper::session::sessions::Sessions;
use crate::zookeeper::session::{REQUEST_WITHIN, Session};

/// The most claims of a line that are asked what they say of themselves.
const ASKED_MAX: usize = 128;

/// The words of the nodes about themselves, and when they were made. Nodes beyond [`ASKED_MAX`],
/// and those that hide it, have none. Those that are gone are left out.
async fn read<'a>(
    session: &Session,
    directory: &str,
    names: impl Iterator<Item = &'a str>,
    until: Instant,
) -> Result<Vec<(&'a str, Option<(Vec<u8>, Stat)>)>, Fault> {
    let names: Vec<_> = names.collect();
    let paths: Vec<_> =
        names.iter().take(ASKED_MAX).map(|name| format!("{directory}/{name}")).collect();
    // All are sent before the first answer is awaited.
    let answers: Vec<_> = paths.iter().map(|path| session.get(path, until)).collect();
    let mut answers = answers.into_iter();
    let mut read = Vec::new();
    for name in names {
        let said = match answers.next() {
            Some(answer) => match answer.await {
                Ok(said) => Some(said),
                Err(Failure::Answer(Error::NoNode)) => continue,
                // The claim can be told, but not what it says.
                Err(Failure::Answer(Error::NoAuth)) => None,
                Err(failure) => return Err(failure.into_fault()),
            },
            None => None,
        };
        read.push((name, said));
    }
    Ok(read)
}

/// The holders of a key and those who wait: those in the line, and behind them those of its
/// permits.
pub(in crate::zookeeper) async fn inspect(
    sessions: &Arc<Sessions>,
    key: &Key,
) -> Result<Inspection, Fault> {
    let directory = directory(sessions, key)?;
    let until = clock::now().plus(REQUEST_WITHIN);
    let (session, found) = find(sessions, &directory, until).await?;
    let (mut holders, mut waiters) = (Vec::new(), Vec::new());
    let line = Line::of(&found.children);
    let places = line.places();
    let said = read(&session, &directory, places.map(InLine::name), until).await?;
    // Others may hold the key for those that are gone.
    let said: BTreeMap<_, _> = said.into_iter().collect();
    let is_gone = |place: &&InLine<'_>| !said.contains_key(place.name());
    let gone: Vec<_> = line.places().filter(is_gone).map(InLine::name).collect();
    let left: Vec<_> =
        found.children.iter().filter(|child| !gone.contains(&child.as_str())).cloned().collect();
    let line = Line::of(&left);
    let places = line.places();
    for (at, place) in places.enumerate() {
        let mode = if place.shares { Mode::Shared } else { Mode::Exclusive };
        let said = said.get(place.name()).and_then(Option::as_ref);
        let about = said.map(|(data, _)| about::shown(data));
        let claim = names::claimant(place.name());
        if at < line.holders().len() {
            let token = token(&session, sessions, key, &claim, said, until).await?;
            holders.push(holder(claim, token, about).with_mode(mode));
        } else {
            waiters.push(waiter(claim, about).with_mode(mode));
        }
    }
    inspect_permits(&session, &directory, &found, until, &mut holders, &mut waiters).await?;
    Ok(Inspection::new(holders, waiters))
}

/// A holder of a key, without who waits.
pub(in crate::zookeeper) async fn first_holder(
    sessions: &Arc<Sessions>,
    key: &Key,
) -> Result<Option<Holder>, Fault> {
    let directory = directory(sessions, key)?;
    let until = clock::now().plus(REQUEST_WITHIN);
    let (session, found) = find(sessions, &directory, until).await?;
    if let Some(place) = Line::of(&found.children).holders().first() {
        let said = read(&session, &directory, [place.name()].into_iter(), until).await?;
        let Some((name, said)) = said.into_iter().next() else { return Ok(None) };
        let claim = names::claimant(name);
        let token = token(&session, sessions, key, &claim, said.as_ref(), until).await?;
        let mode = if place.shares { Mode::Shared } else { Mode::Exclusive };
        let about = said.map(|(data, _)| about::shown(&data));
        return Ok(Some(holder(claim, token, about).with_mode(mode)));
    }
    let leases = Permits::of(&found.leases);
    let first = leases.names().iter().copied().take(1);
    let said = read(&session, &names::leases(&directory), first, until).await?;
    let limit = found.limit();
    Ok(said.into_iter().next().map(|(name, said)| permit(name, said.as_ref(), limit)))
}

/// The keys with somebody in their line, or that of their permits. Directories stay for a while, so
/// each is looked into.
pub(in crate::zookeeper) async fn list(
    sessions: &Arc<Sessions>,
    within: Option<&Key>,
    max: usize,
) -> Result<KeyList, Fault> {
    let (root, until) = (&sessions.target.root, clock::now().plus(REQUEST_WITHIN));
    let session = sessions.get(until).await?;
    let top = if root.is_empty() { "/" } else { root };
    let keys = children(&session, top, until).await.map_err(Failure::into_fault)?;
    let is_sought = |key: &Key| {
        !names::is_reserved(root, key) && within.is_none_or(|within| key.within(within).is_some())
    };
    let keys: Vec<_> =
        keys.iter().filter_map(|key| Key::from_encoded(key).ok()).filter(is_sought).collect();
    let mut busy = Vec::new();
    for some in keys.chunks(ASKED_MAX) {
        let directories: Vec<_> = some.iter().map(|key| names::directory(root, key)).collect();
        let each = directories.iter().map(|directory| find_in(&session, directory, until));
        for (key, found) in some.iter().zip(join_all(each).await) {
            if !found.map_err(Failure::into_fault)?.is_idle() {
                busy.push(key.clone());
            }
        }
        if busy.len() > max {
            break;
        }
    }
    Ok(KeyList::new(busy, max, true))
}

/// A client of Curator's that has the mutex may have one node more among the permits: it waits.
async fn inspect_permits(
    session: &Session,
    directory: &str,
    found: &Found,
    until: Instant,
    holders: &mut Vec<Holder>,
    waiters: &mut Vec<Waiter>,
) -> Result<(), Fault> {
    let leases = Permits::of(&found.leases);
    let leases = leases.names().iter().copied();
    let leases = read(session, &names::leases(directory), leases, until).await?;
    let wishes = Line::of(&found.wishes);
    let names = wishes.places().map(InLine::name);
    let wishes = read(session, &names::locks(directory), names, until).await?;
    let of = found.limit();
    let first = holders.len();
    let leases = leases.into_iter().take(of as usize);
    holders.extend(leases.map(|(name, said)| permit(name, said.as_ref(), of)));
    for (name, said) in wishes {
        let claim = names::claimant(name);
        // It has its permit, and lets go of the mutex.
        if holders[first..].iter().any(|holder| holder.claim == claim) {
            continue;
        }
        let of = Permit::of(name).map_or(of, |permit| permit.of);
        let about = said.as_ref().map(|(data, _)| about::shown(data));
        waiters.push(waiter(claim, about).with_mode(Mode::Permit { of }));
    }
    Ok(())
}

/// A permit of so many, unless its own name says how many there are.
fn permit(name: &str, said: Option<&(Vec<u8>, Stat)>, of: u32) -> Holder {
    let of = Permit::of(name).map_or(of, |permit| permit.of);
    let token = said.and_then(|(_, stat)| tokens(czxid(stat), u32::MAX).last());
    let about = said.map(|(data, _)| about::shown(data));
    holder(names::claimant(name), token, about).with_mode(Mode::Permit { of })
}

fn holder(claim: String, token: Option<u64>, about: Option<String>) -> Holder {
    let found = Holder::new(claim, token.map(FencingToken::new), None);
    about.into_iter().fold(found, Holder::with_about)
}

fn waiter(claim: String, about: Option<String>) -> Waiter {
    about.into_iter().fold(Waiter::new(claim), Waiter::with_about)
}

/// The last token of a holder.
async fn token(
    session: &Session,
    sessions: &Sessions,
    key: &Key,
    claim: &str,
    said: Option<&(Vec<u8>, Stat)>,
    until: Instant,
) -> Result<Option<u64>, Fault> {
    if !sessions.counts() {
        return Ok(said.and_then(|(_, stat)| tokens(czxid(stat), u32::MAX).last()));
    }
    let root = &sessions.target.root;
    match counter::first_token(session, root, key.as_str(), claim, until).await {
        Ok(token) => Ok(token),
        // The claim can be told all the same.
        Err(Failure::Answer(_) | Failure::Unfit(_)) => Ok(None),
        Err(failure) => Err(failure.into_fault()),
    }
}
