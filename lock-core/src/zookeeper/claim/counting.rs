//! The tokens of a claim in a quorum.

use std::future::Future;
use std::sync::Arc;
use std::time::Instant;

use futures_util::future::OptionFuture;

use super::ZooKeeperClaim;
use super::join::Basis;
use crate::backend::register::reserve;
use crate::backend::{ClaimId, Fault};
use crate::ground::{Plus as _, clock};
use crate::token::TokenBlock;
use crate::zookeeper::fault::{self, Failure};
use crate::zookeeper::member::counter::{self, Counter, Moved};
use crate::zookeeper::node::lock_node::{LockNode, Presence};
use crate::zookeeper::session::{REQUEST_WITHIN, Session};

/// The bits of a claim's id that tell its places apart. The quorum uses those below for its own,
/// and those above are common to all.
const PLACE_SHIFT: u32 = 20;
const PLACES_MAX: u32 = 1 << 12;

/// The source of the tokens of a quorum's claim.
#[derive(Debug)]
pub(in crate::zookeeper) struct Counting {
    /// The end of the next block.
    clock: u64,
    /// The node of the counter.
    path: Arc<str>,
    /// The id of the claim's first place in the line, and how many it has left.
    id: ClaimId,
    places: u32,
    /// The tokens of the place in the line that the claim has now.
    block: Option<TokenBlock>,
    /// A block that was asked for without an answer, as it would stand in the counter.
    tried: Option<(TokenBlock, Vec<u8>)>,
}

impl Counting {
    fn new(root: &str, key: &str, id: ClaimId) -> Self {
        let path = counter::path(root, key).into();
        Self { clock: 0, path, id, places: 0, block: None, tried: None }
    }

    /// The id of the claim's next place in the line. It begins as the id of the first place does,
    /// so that the members of a quorum are seen to speak of one claim.
    pub(in crate::zookeeper) fn next_id(&mut self) -> Option<ClaimId> {
        self.places += 1;
        let end = u128::from(self.places) << PLACE_SHIFT;
        (self.places < PLACES_MAX).then(|| ClaimId::from_bits(self.id.bits() ^ end))
    }

    /// The place in the line was left: the next one has tokens of its own.
    pub(in crate::zookeeper) fn forget(&mut self) {
        (self.block, self.tried) = (None, None);
    }
}

impl ZooKeeperClaim {
    /// The next block of tokens ends at `clock`.
    pub(in crate::zookeeper) fn count(&mut self, clock: u64) {
        let Ok(directory) = &self.directory else { return };
        let root = &self.sessions.target.root;
        let key = directory.get(root.len() + 1..).unwrap_or_default();
        let id = self.id;
        self.counting.get_or_insert_with(|| Counting::new(root, key, id)).clock = clock;
        self.sessions.count();
    }

    /// Reads the counter along with what is asked for anyway; nothing where the claim has its
    /// tokens or numbers them by its node. Sent when called.
    pub(in crate::zookeeper) fn look_at_counter<'a>(
        session: &'a Session,
        path: Option<&'a Arc<str>>,
        until: Instant,
    ) -> impl Future<Output = Option<Counter>> + 'a {
        let read = OptionFuture::from(path.map(|path| session.counter(path, until)));
        // Without it the counter is read when it is needed.
        async move { read.await.and_then(Result::ok) }
    }

    /// The counter, if it has to be moved before the claim is granted.
    pub(in crate::zookeeper) fn counter_to_move(&self) -> Option<Arc<str>> {
        let counting = self.counting.as_ref().filter(|counting| counting.block.is_none())?;
        Some(counting.path.clone())
    }

    /// Moves the counter for a claim that stands first, or says again how it did. `None` if the
    /// place of the claim is lost, or if the server is another than that of the ticket.
    pub(in crate::zookeeper) async fn reserve(
        &mut self,
        node: &LockNode,
        basis: Basis,
        until: Instant,
    ) -> Result<Option<TokenBlock>, Fault> {
        let Basis { ticket, counter: mut read, .. } = basis;
        let Presence::There { name, .. } = node.presence() else { return Ok(None) };
        let Some(counting) = &mut self.counting else { return Ok(None) };
        if let Some(block) = counting.block {
            return Ok(Some(block));
        }
        let (session, at) = (&node.session, node.path(&name));
        let token_min = ticket.as_ref().map_or(0, |ticket| ticket.token_min);
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
            let last = Some(counter.last.max(token_min)).filter(|last| *last > 0);
            let block = reserve(last, counting.clock, self.terms.tokens_max);
            let data = counter::data(block, self.id);
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
                    counter::make_directory(session, &self.sessions.target.root, until).await?;
                }
                Err(Failure::Over) => return Ok(None),
                Err(failure) => return Err(failure.into_fault()),
            }
        }
    }

    /// Moves the counter up to `to`, if the lock node of the grant is there.
    pub(in crate::zookeeper) async fn raise_to(&mut self, to: u64) -> Result<bool, Fault> {
        let until = clock::now().plus(REQUEST_WITHIN);
        let (Some(node), Some(_)) = (self.node.clone(), self.held()) else { return Ok(false) };
        let Presence::There { name, .. } = node.presence() else { return Ok(false) };
        let Some(counting) = &self.counting else { return Ok(false) };
        let (session, at) = (&node.session, node.path(&name));
        // An operator who looks at the key is told where the claim's own block begins.
        let first = counting.block.and_then(|block| block.first()).unwrap_or(to).min(to);
        let data = counter::data(TokenBlock::new(first, to), self.id);
        loop {
            if clock::now() >= until {
                return Err(fault::timed_out(REQUEST_WITHIN));
            }
            let ticket = match self.sessions.admit(session, until).await {
                Ok(ticket) => ticket,
                Err(Failure::Over) => return Ok(false),
                Err(failure) => return Err(failure.into_fault()),
            };
            let counter = match session.counter(&counting.path, until).await {
                Ok(counter) => counter,
                Err(Failure::Over) => return Ok(false),
                Err(failure) => return Err(failure.into_fault()),
            };
            let write = (counter.last < to).then_some((&*counting.path, &counter, &*data));
            match session.move_counter(&at, ticket, write, until).await {
                Ok(Moved::Done) => return Ok(true),
                Ok(Moved::NotHeld) => {
                    node.is_gone();
                    return Ok(false);
                }
                Ok(Moved::Elsewhere) => {}
                Ok(Moved::NotEnrolled) => session.forget_enrolment(),
                Ok(Moved::NoDirectory) => {
                    counter::make_directory(session, &self.sessions.target.root, until).await?;
                }
                Err(Failure::Over) => return Ok(false),
                Err(failure) => return Err(failure.into_fault()),
            }
        }
    }
}
