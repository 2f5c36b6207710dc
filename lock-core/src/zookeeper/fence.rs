//! The token counters of a server that is a member of a quorum.
//!
//! Alone, a store numbers its claims by its own transactions. Independent servers count theirs
//! each in its own way, so the tokens of a quorum come from counters that can be moved: persistent
//! nodes outside the lock directories, `<root>/{lock-fences}/<slot>`, whose data is
//! `<last token>:<tokens of the last block>:<id of its lock node>`.
//!
//! A counter is moved in one transaction with a check that the lock node of the claim is there,
//! and only from the version that was read. A lock node that was first is first for as long as it
//! is there, and no two have one name: so only who holds a key moves the counter for it, under the
//! very grant that it was told of, and it never goes back.
//!
//! Keys share [`SLOTS`] counters by their hash. A counter that another key has moved is only
//! further on, which tokens may always be; in return nothing has to be tidied away, and no counter
//! is ever lost with its key.

use std::future::Future;
use std::sync::Arc;
use std::time::Instant;

use futures_util::future::OptionFuture;
use zookeeper_client::{CreateMode, Error, MultiWriteError};

use super::claim::ZooKeeperClaim;
use super::enrolled::Ticket;
use super::fault::{self, Failure};
use super::lock_node::{LockNode, Presence};
use super::names;
use super::session::{Answer, REQUEST_WITHIN, Session};
use crate::backend::{ClaimId, Fault, FaultKind};
use crate::engine::clock;
use crate::proto::{FenceRange, reserve};

/// How many counters there are at a server, whatever the number of keys: enough that two keys
/// which are granted in one moment seldom meet.
const SLOTS: u64 = 1_024;

/// The longest data of a counter that is taken for one of ours.
const DATA_BYTES_MAX: usize = 128;

/// Which bits of a claim's id tell its places apart: the quorum uses those below for its own, and
/// those above are common to all.
const PLACE_SHIFT: u32 = 20;
const PLACES_MAX: u32 = 1 << 12;

/// Where the tokens of a quorum's claim come from.
#[derive(Debug)]
pub(super) struct Counting {
    /// Where the next block ends.
    clock: u64,
    /// The node of the counter.
    path: Arc<str>,
    /// The id of the claim's first place in the line, and how many it has left.
    id: ClaimId,
    places: u32,
    /// The tokens of the place in the line that the claim has now.
    block: Option<FenceRange>,
    /// A block that was asked for without an answer, as it would stand in the counter.
    tried: Option<(FenceRange, Vec<u8>)>,
}

/// A counter as it was read.
#[derive(Debug)]
pub(super) struct Counter {
    data: Vec<u8>,
    last: u64,
    /// `None` if it is not there.
    version: Option<i32>,
}

/// What was read for a claim that may turn out to be the first.
#[derive(Debug)]
pub(super) struct Basis {
    pub(super) ticket: Option<Ticket>,
    /// Its counter, if it has to be moved.
    pub(super) counter: Option<Counter>,
}

/// What became of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moved {
    Done,
    /// The lock node is not there any more.
    NotHeld,
    /// The server's enrolment is not that of the ticket.
    NotEnrolled,
    /// Another moved the counter after it was read, or took it away.
    Elsewhere,
    /// There is no directory for it.
    NoDirectory,
}

/// The counter of a key.
fn path(root: &str, key: &str) -> String {
    // FNV-1a: all clients must agree on it for good.
    let hash = key.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    // Its low bits are the best mixed after the others were folded in.
    names::fence(root, (hash ^ (hash >> 32)) % SLOTS)
}

fn data(block: FenceRange, node: ClaimId) -> Vec<u8> {
    format!("{}:{}:{node}", block.last().unwrap_or(0), block.left()).into_bytes()
}

/// The last token, the tokens of the last block, and the id of the node that it was for.
fn parse(data: &[u8]) -> Option<(u64, u64, &str)> {
    let text = std::str::from_utf8(data).ok().filter(|text| text.len() <= DATA_BYTES_MAX)?;
    let mut parts = text.splitn(3, ':');
    let (last, count) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    Some((last, count, parts.next()?))
}

fn foreign(path: &str) -> Failure {
    let what = format!("what stands at {path} is no token counter; it was left as it is");
    Failure::Unfit(Fault::new(FaultKind::ForeignValue, what))
}

/// The first token of the block that was reserved for the claim that `node` names, if it was the
/// last of its counter.
pub(super) async fn first_token(
    session: &Session,
    root: &str,
    key: &str,
    node: &str,
    until: Instant,
) -> Answer<Option<u64>> {
    let counter = session.counter(&path(root, key), until).await?;
    Ok(parse(&counter.data)
        .filter(|(_, count, id)| *count > 0 && *id == node)
        .map(|(last, count, _)| (last + 1).saturating_sub(count)))
}

/// No counter of this server is beyond this.
pub(super) async fn highest(session: &Session, root: &str, until: Instant) -> Answer<u64> {
    let directory = names::fences(root);
    let slots = match session.list(&directory, until).await {
        Err(failure) if failure.is_no_node() => return Ok(0),
        slots => slots?,
    };
    let paths: Vec<_> = slots.iter().map(|slot| format!("{directory}/{slot}")).collect();
    // All are sent before the first answer is awaited.
    let asked: Vec<_> = paths.iter().map(|path| session.counter(path, until)).collect();
    let mut highest = 0;
    for counter in asked {
        highest = highest.max(counter.await?.last);
    }
    Ok(highest)
}

impl Counting {
    fn new(root: &str, key: &str, id: ClaimId) -> Self {
        let path = path(root, key).into();
        Self { clock: 0, path, id, places: 0, block: None, tried: None }
    }

    /// The id of the claim's next place in the line: it begins as that of the first, so that the
    /// members of a quorum are seen to speak of one claim.
    pub(super) fn next_id(&mut self) -> Option<ClaimId> {
        self.places += 1;
        let end = u128::from(self.places) << PLACE_SHIFT;
        (self.places < PLACES_MAX).then(|| ClaimId::from_bits(self.id.bits() ^ end))
    }

    /// The place in the line was left: the next one has tokens of its own.
    pub(super) fn forget(&mut self) {
        (self.block, self.tried) = (None, None);
    }
}

impl Session {
    /// Reads a counter. Sent when called.
    fn counter<'a>(
        &'a self,
        path: &'a str,
        until: Instant,
    ) -> impl Future<Output = Answer<Counter>> + 'a {
        let request = self.client.get_data(path);
        async move {
            let (data, stat) = match self.ask(until, request).await {
                Ok(read) => read,
                Err(failure) if failure.is_no_node() => {
                    return Ok(Counter { data: Vec::new(), last: 0, version: None });
                }
                Err(failure) => return Err(failure),
            };
            let (last, ..) = parse(&data).ok_or_else(|| foreign(path))?;
            Ok(Counter { data, last, version: Some(stat.version) })
        }
    }

    /// Writes `data` over a counter as it was read, or nothing, if the lock node is there and the
    /// ticket still good.
    async fn move_counter(
        &self,
        node: &str,
        ticket: Option<Ticket>,
        write: Option<(&str, &Counter, &[u8])>,
        until: Instant,
    ) -> Answer<Moved> {
        let sent = clock::now();
        let mut writer = self.client.new_multi_writer();
        let add = |writer: &mut zookeeper_client::MultiWriter<'_>| {
            writer.add_check_version(node, -1)?;
            if let Some(ticket) = &ticket {
                writer.add_check_version(&ticket.path, ticket.version)?;
            }
            match write {
                // At -1 any version would do, once in four billion grants of one counter; the
                // holder of the key is alone with it even then.
                Some((path, Counter { version: Some(version), .. }, data)) => {
                    writer.add_set_data(path, data, Some(*version))
                }
                Some((path, Counter { version: None, .. }, data)) => {
                    let options = CreateMode::Persistent.with_acls(self.acls);
                    writer.add_create(path, data, &options)
                }
                None => Ok(()),
            }
        };
        add(&mut writer).map_err(Failure::of)?;
        let committed = writer.commit();
        let last_check = usize::from(ticket.is_some());
        let sorted = async {
            match committed.await {
                Ok(_) => Ok(Moved::Done),
                Err(MultiWriteError::RequestFailed { source }) => Err(source),
                Err(MultiWriteError::OperationFailed { index, source }) => match source {
                    Error::NoNode if index == 0 => Ok(Moved::NotHeld),
                    Error::NoNode | Error::BadVersion if index <= last_check => {
                        Ok(Moved::NotEnrolled)
                    }
                    Error::NoNode if write.is_some_and(|(_, at, _)| at.version.is_none()) => {
                        Ok(Moved::NoDirectory)
                    }
                    Error::NoNode | Error::BadVersion | Error::NodeExists => Ok(Moved::Elsewhere),
                    source => Err(source),
                },
            }
        };
        let moved = self.ask(until, sorted).await?;
        if moved == Moved::Done {
            self.liveness.proved(sent, clock::now());
        }
        Ok(moved)
    }
}

impl ZooKeeperClaim {
    /// The next block of tokens ends at `clock`.
    pub(super) fn count(&mut self, clock: u64) {
        let Ok(directory) = &self.directory else { return };
        let root = &self.sessions.target.root;
        let key = directory.get(root.len() + 1..).unwrap_or_default();
        let id = self.id;
        self.counting.get_or_insert_with(|| Counting::new(root, key, id)).clock = clock;
        self.sessions.count();
    }

    /// Reads the counter along with what is asked for anyway; nothing where the claim has its
    /// tokens or numbers them by its node. Sent when called.
    pub(super) fn look_at_counter<'a>(
        session: &'a Session,
        path: Option<&'a Arc<str>>,
        until: Instant,
    ) -> impl Future<Output = Option<Counter>> + 'a {
        let read = OptionFuture::from(path.map(|path| session.counter(path, until)));
        // Without it the counter is read when it is needed.
        async move { read.await.and_then(Result::ok) }
    }

    /// The counter, if it has to be moved before the claim is granted.
    pub(super) fn counter_to_move(&self) -> Option<Arc<str>> {
        let counting = self.counting.as_ref().filter(|counting| counting.block.is_none())?;
        Some(counting.path.clone())
    }

    /// Moves the counter for a claim that stands first, or says again how it did; `None` if its
    /// place is lost, or the server is another than that of the ticket.
    pub(super) async fn reserve(
        &mut self,
        node: &LockNode,
        basis: Basis,
        until: Instant,
    ) -> Result<Option<FenceRange>, Fault> {
        let Basis { ticket, counter: mut read } = basis;
        let Presence::There { name, .. } = node.presence() else { return Ok(None) };
        let Some(counting) = &mut self.counting else { return Ok(None) };
        if let Some(block) = counting.block {
            return Ok(Some(block));
        }
        let (session, at) = (&node.session, node.path(&name));
        let floor = ticket.as_ref().map_or(0, |ticket| ticket.floor);
        loop {
            if clock::now() >= until {
                return Err(fault::timed_out(REQUEST_WITHIN));
            }
            let counter = match read.take() {
                Some(counter) => counter,
                None => match session.counter(&counting.path, until).await {
                    Ok(counter) => counter,
                    Err(Failure::Over) => return Ok(None),
                    Err(failure) => return Err(failure.into_fault()),
                },
            };
            // An earlier move took effect, and only its answer was lost. If another key has moved
            // the counter since, nobody was told of the block, and there are higher ones.
            if let Some((block, _)) = counting.tried.take_if(|(_, data)| *data == counter.data) {
                counting.block = Some(block);
                return Ok(Some(block));
            }
            let last = Some(counter.last.max(floor)).filter(|last| *last > 0);
            let block = reserve(last, counting.clock, self.terms.fences);
            let data = data(block, self.id);
            counting.tried = Some((block, data.clone()));
            let write = Some((&*counting.path, &counter, &*data));
            match session.move_counter(&at, ticket.clone(), write, until).await {
                Ok(Moved::Done) => {
                    (counting.block, counting.tried) = (Some(block), None);
                    return Ok(Some(block));
                }
                Ok(Moved::Elsewhere) => {}
                Ok(Moved::NotHeld) => {
                    node.is_gone();
                    return Ok(None);
                }
                Ok(Moved::NotEnrolled) => {
                    session.forget_enrolment();
                    return Ok(None);
                }
                Ok(Moved::NoDirectory) => {
                    make_fences(session, &self.sessions.target.root, until).await?;
                }
                Err(Failure::Over) => return Ok(None),
                Err(failure) => return Err(failure.into_fault()),
            }
        }
    }

    /// Moves the counter up to `to`, if the lock node of the grant is there.
    pub(super) async fn raise_to(&mut self, to: u64) -> Result<bool, Fault> {
        let until = clock::now() + REQUEST_WITHIN;
        let (Some(node), Some(_)) = (self.node.clone(), self.held) else { return Ok(false) };
        let Presence::There { name, .. } = node.presence() else { return Ok(false) };
        let Some(counting) = &self.counting else { return Ok(false) };
        let (session, at) = (&node.session, node.path(&name));
        let data = data(FenceRange::new(to, to), self.id);
        loop {
            if clock::now() >= until {
                return Err(fault::timed_out(REQUEST_WITHIN));
            }
            let counter = match session.counter(&counting.path, until).await {
                Ok(counter) => counter,
                Err(Failure::Over) => return Ok(false),
                Err(failure) => return Err(failure.into_fault()),
            };
            let write = (counter.last < to).then_some((&*counting.path, &counter, &*data));
            match session.move_counter(&at, None, write, until).await {
                Ok(Moved::Done) => return Ok(true),
                Ok(Moved::NotHeld) => {
                    node.is_gone();
                    return Ok(false);
                }
                Ok(Moved::Elsewhere | Moved::NotEnrolled) => {}
                Ok(Moved::NoDirectory) => {
                    make_fences(session, &self.sessions.target.root, until).await?;
                }
                Err(Failure::Over) => return Ok(false),
                Err(failure) => return Err(failure.into_fault()),
            }
        }
    }
}

async fn make_fences(session: &Session, root: &str, until: Instant) -> Result<(), Fault> {
    match session.make_directory(&names::fences(root), until).await {
        Ok(()) => Ok(()),
        // Seen at the next request.
        Err(Failure::Over) => Ok(()),
        Err(failure) => Err(failure.into_fault()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_counter_holds_is_read_back() {
        let id = ClaimId::from_bits(0xab);
        let data = data(FenceRange::new(5, 9), id);
        assert_eq!(parse(&data), Some((9, 5, &*id.to_string())));
        for foreign in [&b""[..], b"9", b"9:5", b"x:5:y", b"9:-1:y", &[0xff], &[b'1'; 1_000]] {
            assert_eq!(parse(foreign), None);
        }
    }

    #[test]
    fn all_clients_agree_on_the_counter_of_a_key() {
        assert_eq!(path("/locks", ""), path("/locks", ""));
        let paths: std::collections::HashSet<_> =
            (0..20_000).map(|n| path("", &format!("order:{n}"))).collect();
        assert_eq!(paths.len() as u64, SLOTS, "all are used");
        assert!(paths.contains("/{lock-fences}/000") && paths.contains("/{lock-fences}/3ff"));
    }
}
