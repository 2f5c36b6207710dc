//! The token counters of a server that is a member of a quorum.
//!
//! Alone, a store numbers its claims by its own transactions. Independent servers count theirs each
//! in its own way, so the tokens of a quorum come from counters that can be moved. A counter is a
//! persistent node outside the lock directories, `<root>/{lock-tokens}/<slot>`. Its data is `<last
//! token>:<tokens of the last block>:<id of its lock node>`.
//!
//! A counter is moved in one transaction with a check that the lock node of the claim is there, and
//! only from the version that was read. A lock node that was first is first for as long as it is
//! there, and no two have one name. So only the holder of a key moves the counter for it, under the
//! very grant that it was told of. The counter never goes back.
//!
//! Keys share [`SLOTS`] counters by their hash. A counter that another key has moved is only
//! further on, which tokens may always be. In return nothing has to be tidied away, and no counter
//! is ever lost with its key.

use std::future::Future;
use std::time::Instant;

use zookeeper_client::{CreateMode, Error, MultiWriteError};

use crate::backend::{ClaimId, Fault, FaultKind};
use crate::ground::clock;
use crate::token::TokenBlock;
use crate::zookeeper::fault::Failure;
use crate::zookeeper::names;
use crate::zookeeper::session::ticket::Ticket;
use crate::zookeeper::session::{Answer, Session};

/// The number of counters at a server, whatever the number of keys. There are enough that two keys
/// which are granted in one moment seldom meet.
const SLOTS: u64 = 1_024;

/// The longest data of a counter that is taken for one of ours.
const DATA_BYTES_MAX: usize = 128;

/// A counter as it was read.
#[derive(Debug)]
pub(in crate::zookeeper) struct Counter {
    pub(in crate::zookeeper) data: Vec<u8>,
    pub(in crate::zookeeper) last: u64,
    /// `None` if it is not there.
    version: Option<i32>,
}

/// The outcome of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::zookeeper) enum Moved {
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

/// The node of the counter of a key.
pub(in crate::zookeeper) fn path(root: &str, key: &str) -> String {
    // FNV-1a: all clients must agree on it for good.
    let hash = key.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    // Its low bits are the best mixed after the others were folded in.
    names::counter(root, (hash ^ (hash >> 32)) % SLOTS)
}

/// The data of a counter after a block for a lock node of this id.
pub(in crate::zookeeper) fn data(block: TokenBlock, node: ClaimId) -> Vec<u8> {
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
pub(in crate::zookeeper) async fn first_token(
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
pub(in crate::zookeeper) async fn highest(
    session: &Session,
    root: &str,
    until: Instant,
) -> Answer<u64> {
    let directory = names::tokens(root);
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

impl Session {
    /// Reads a counter. Sent when called.
    pub(in crate::zookeeper) fn counter<'a>(
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
    pub(in crate::zookeeper) async fn move_counter(
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

/// Makes the directory of the counters.
pub(in crate::zookeeper) async fn make_directory(
    session: &Session,
    root: &str,
    until: Instant,
) -> Result<(), Fault> {
    match session.make_directory(&names::tokens(root), until).await {
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
        let data = data(TokenBlock::new(5, 9), id);
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
        assert!(paths.contains("/{lock-tokens}/000") && paths.contains("/{lock-tokens}/3ff"));
    }
}
