//! The verbs of one claim.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use tokio::time::sleep_until;

use super::about::REVOKE;
use super::fault::{self, Failure};
use super::grave;
use super::line;
use super::names;
use super::seat::{Node, Seat};
use super::session::{REQUEST_WITHIN, Session};
use super::sessions::Sessions;
use super::vigil::Vigil;
use crate::backend::{
    Attempt, Claim, ClaimId, Fault, FaultKind, Grant, Mode, Renewal, Terms, Withdrawal,
};
use crate::engine::clock;
use crate::key::Key;
use crate::proto::{FenceRange, children};

/// The bits of a token that count the hand-offs of one claim; the others are the transaction that
/// created its node.
const HANDOFF_BITS: u32 = 12;

/// A hold that is over before this never asks to be told of others, which saves two requests.
const VIGIL_AFTER: Duration = Duration::from_millis(2);

/// See the module.
#[derive(Debug)]
pub struct ZooKeeperClaim {
    pub(super) sessions: Arc<Sessions>,
    /// The directory, or why there can be none.
    pub(super) directory: Result<Arc<str>, Fault>,
    /// The path of the node, up to the number that the server adds.
    pub(super) prefix: String,
    pub(super) id: ClaimId,
    pub(super) terms: Terms,
    pub(super) seat: Option<Arc<Seat>>,
    /// An answer to a creation was lost once.
    pub(super) doubted: bool,
    pub(super) held: Option<Held>,
    /// The node that is waited for.
    pub(super) waits_for: Option<String>,
    pub(super) vigil: Option<Vigil>,
    /// A withdrawal that was not answered, and whether the claim held the key.
    leaving: Option<(JoinHandle<()>, bool)>,
}

/// What a holder knows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Held {
    pub(super) birth: u64,
    pub(super) since: Instant,
    pub(super) wanted: bool,
    pub(super) revoke_requested: bool,
    pub(super) waited: bool,
}

/// The tokens of a claim whose node was created by the transaction `birth`: as many as the claim
/// asked for, and never those of the next transaction.
pub(super) fn tokens(birth: u64, count: u32) -> FenceRange {
    let first = birth << HANDOFF_BITS;
    let most = (1 << HANDOFF_BITS) - 1;
    FenceRange::new(first, first + u64::from(count.saturating_sub(1)).min(most))
}

impl ZooKeeperClaim {
    pub(super) fn new(sessions: Arc<Sessions>, key: &Key, id: ClaimId, terms: Terms) -> Self {
        let directory = line::directory(&sessions, key).map(Arc::<str>::from);
        let prefix = directory
            .as_ref()
            .map(|path| format!("{path}/{}", names::prefix(id)))
            .unwrap_or_default();
        Self {
            sessions,
            directory,
            prefix,
            id,
            terms,
            seat: None,
            doubted: false,
            held: None,
            waits_for: None,
            vigil: None,
            leaving: None,
        }
    }

    pub(super) fn is_patient(&self) -> bool {
        self.terms.patience.is_none_or(|patience| !patience.is_zero())
    }

    /// A waiting claim asks again this often: its own lease must not end meanwhile.
    pub(super) fn recheck(&self, session: &Session) -> Duration {
        (self.terms.lease / 3).min(session.timeout() / 3)
    }

    /// Forgets the place in the line; what is left of it is deleted.
    pub(super) fn stand_outside(&mut self) {
        self.seat = None;
        self.held = None;
        self.waits_for = None;
        self.vigil = None;
    }

    /// The grant of a claim that stands first, as seen by a request that began at `began`.
    pub(super) async fn grant(
        &self,
        seat: &Seat,
        held: Held,
        began: Instant,
        until: Instant,
        fences: FenceRange,
    ) -> Result<Grant, Fault> {
        let life = &seat.session.life;
        if life.clock().is_overdue(clock::now()) && !life.confirmed(until).await {
            return Err(fault::unconfirmed());
        }
        let session_left = life.clock().valid_until().saturating_duration_since(began);
        Ok(Grant {
            fences,
            valid_for: self.terms.lease.min(session_left),
            wanted: held.wanted,
            handed_on: held.waited,
            revoke_requested: held.revoke_requested,
        })
    }

    /// Looks at what a holder is told of by watches; `None` if its node is gone.
    async fn look(&mut self, seat: &Seat, name: &str, until: Instant) -> Result<bool, Failure> {
        let Ok(directory) = &self.directory else { return Ok(false) };
        let Some(held) = &mut self.held else { return Ok(false) };
        let news = self.vigil.as_ref().is_none_or(Vigil::is_over);
        if !news && !held.wanted {
            return Ok(true);
        }
        let path = seat.path(name);
        let session = &seat.session;
        let get = session.get(&path, until);
        let (data, children) = tokio::join!(get, session.list(directory, until));
        let (data, children) = match (data, children) {
            (Err(failure), _) | (_, Err(failure)) if failure.is_no_node() => return Ok(false),
            (data, children) => (data?.0, children?),
        };
        let Some(standing) = children::standing(&children, name) else { return Ok(false) };
        held.revoke_requested |= data == REVOKE;
        if news || held.wanted != standing.followed {
            // Watched for anew when the engine listens again.
            self.vigil = None;
        }
        held.wanted = standing.followed;
        Ok(true)
    }

    /// The answer to a deletion that goes on in the background.
    async fn left(&mut self, until: Instant) -> Result<Withdrawal, Fault> {
        let Some((task, held)) = &mut self.leaving else { return Ok(Withdrawal::NotHeld) };
        let held = *held;
        match tokio::time::timeout_at(until.into(), task).await {
            Err(_) => Err(fault::timed_out(REQUEST_WITHIN)),
            Ok(ended) => {
                self.leaving = None;
                // Without its runtime the session ends by itself.
                ended.map_err(|_| fault::session_over())?;
                Ok(if held { Withdrawal::Released } else { Withdrawal::NotHeld })
            }
        }
    }
}

impl Claim for ZooKeeperClaim {
    async fn attempt(&mut self) -> Result<Attempt, Fault> {
        if self.terms.mode != Mode::Exclusive {
            return Err(Fault::new(FaultKind::Refused, "`zookeeper:` serves exclusive locks only"));
        }
        let began = clock::now();
        let until = began + REQUEST_WITHIN;
        loop {
            if let Some(attempt) = self.advance(began, until).await? {
                return Ok(attempt);
            }
            if clock::now() >= until {
                return Err(fault::timed_out(REQUEST_WITHIN));
            }
        }
    }

    async fn changed(&mut self) {
        if let (Some(held), None) = (&self.held, &self.vigil) {
            sleep_until((held.since + VIGIL_AFTER).into()).await;
            if let (Some(seat), Ok(directory)) = (&self.seat, &self.directory)
                && let Node::Known { name, .. } = seat.node()
            {
                let session = seat.session.clone();
                let (behind, asked) = (!held.wanted, held.revoke_requested);
                let vigil = Vigil::of_holder(session, directory.clone(), name, behind, asked);
                self.vigil = Some(vigil);
            }
        }
        match &mut self.vigil {
            Some(vigil) => vigil.over().await,
            None => std::future::pending().await,
        }
    }

    async fn renew(&mut self) -> Result<Renewal, Fault> {
        let began = clock::now();
        let until = began + REQUEST_WITHIN;
        let (Some(seat), Some(_)) = (self.seat.clone(), self.held) else {
            return Ok(Renewal::Lost);
        };
        if !seat.extend(began + self.terms.lease) {
            self.stand_outside();
            return Ok(Renewal::Lost);
        }
        let Node::Known { name, .. } = seat.node() else { return Ok(Renewal::Lost) };
        match self.look(&seat, &name, until).await {
            Ok(true) => {}
            Ok(false) => {
                seat.is_gone();
                self.stand_outside();
                return Ok(Renewal::Lost);
            }
            Err(Failure::Over) => {
                self.stand_outside();
                return Ok(Renewal::Lost);
            }
            Err(failure) => return Err(failure.into_fault()),
        }
        let Some(held) = self.held else { return Ok(Renewal::Lost) };
        let grant = self.grant(&seat, held, began, until, FenceRange::empty()).await;
        if seat.is_lost() {
            self.stand_outside();
            return Ok(Renewal::Lost);
        }
        grant.map(Renewal::Held)
    }

    async fn withdraw(&mut self) -> Result<Withdrawal, Fault> {
        let until = clock::now() + REQUEST_WITHIN;
        if self.leaving.is_some() {
            return self.left(until).await;
        }
        let held = self.held.take().is_some();
        self.waits_for = None;
        // Kept until the end: it falls silent by itself with the node.
        let _vigil = self.vigil.take();
        let Some(seat) = self.seat.take() else { return Ok(Withdrawal::NotHeld) };
        if let (Node::Known { name, .. }, false) = (seat.node(), seat.was_doubted()) {
            match seat.session.delete(&seat.path(&name), until).await {
                Ok(()) => {
                    seat.is_gone();
                    return Ok(if held { Withdrawal::Released } else { Withdrawal::NotHeld });
                }
                Err(Failure::Over) => return Ok(Withdrawal::NotHeld),
                Err(failure) if failure.is_no_node() => {
                    seat.is_gone();
                    return Ok(Withdrawal::NotHeld);
                }
                // Tried again below, for as long as it takes.
                Err(Failure::Unknown(_)) => {}
                Err(failure) => {
                    drop(seat);
                    return Err(failure.into_fault());
                }
            }
        }
        let lost = seat.is_lost();
        if let Some(grave) = seat.give_up() {
            let task = grave::dig(&seat.session, grave);
            self.leaving = Some((task, held && !lost));
        }
        self.left(until).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tokens_of_one_claim_are_below_those_of_the_next() {
        let (mut one, two) = (tokens(0x1_0000_0007, u32::MAX), tokens(0x1_0000_0008, 1));
        assert_eq!(one.left(), 4_096);
        assert_eq!(one.first(), Some(0x1_0000_0007 << 12));
        assert!(one.last() < two.first());
        assert_eq!(two.left(), 1);
        assert_eq!(one.take(), Some(0x1_0000_0007 << 12));
        assert_eq!(one.left(), 4_095, "hand-offs after the grant itself");
    }
}
