//! A server that is a member of a quorum, and knows it.
//!
//! The enrolment is a persistent node, `<root>/{lock-quorum}`. A claim reads it once a session, and
//! each grant is made in one transaction with a check that it is as it was read. A server that lost
//! its data has ended all sessions, so it grants nothing before somebody has probed it anew.
//! Neither does one that was enrolled anew while a claim stood in line. For the same reason a
//! server is enrolled in the session in which it was probed, or not at all.
//!
//! A server syncs each write to disk before it answers, so unlike a store in memory it is the same
//! after a restart: its [`incarnation`](Probe::incarnation) never changes. For that, leave
//! `forceSync` on, and set no data directory back to a backup: such a server would count as one
//! that has missed nothing. A backup that is put in place without the node of the enrolment is a
//! member that lost its data.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use zookeeper_client::{CreateMode, Error};

use super::counter;
use crate::backend::{Enrolment, Fault, FaultKind, Member, Probe, SEEN_WITHIN};
use crate::ground::{Plus as _, clock};
use crate::zookeeper::ZooKeeper;
use crate::zookeeper::fault::Failure;
use crate::zookeeper::names;
use crate::zookeeper::session::sessions::Sessions;
use crate::zookeeper::session::ticket::{Rule, Ticket};
use crate::zookeeper::session::{Answer, REQUEST_WITHIN, Session};

/// The longest data of a node that is taken for an enrolment.
const ENROLMENT_BYTES_MAX: usize = 8 * 1_024;

fn unready(what: &str) -> Failure {
    Failure::Unfit(Fault::new(FaultKind::Unready, what))
}

/// The enrolment and the version of its node.
async fn read(session: &Session, root: &str, until: Instant) -> Answer<Option<(Enrolment, i32)>> {
    let path = names::enrolment(root);
    match session.ask(until, session.client.get_data(&path)).await {
        Ok((data, stat)) => match parse(&data) {
            Some(enrolment) => Ok(Some((enrolment, stat.version))),
            None => {
                let what = format!("what stands at {path} is no enrolment; it was left as it is");
                Err(Failure::Unfit(Fault::new(FaultKind::ForeignValue, what)))
            }
        },
        Err(failure) if failure.is_no_node() => Ok(None),
        Err(failure) => Err(failure),
    }
}

fn parse(data: &[u8]) -> Option<Enrolment> {
    if data.len() > ENROLMENT_BYTES_MAX {
        return None;
    }
    std::str::from_utf8(data).ok()?.parse().ok()
}

impl Sessions {
    /// Lets an attempt pass that may be served now.
    pub(in crate::zookeeper) async fn admit(
        &self,
        session: &Session,
        until: Instant,
    ) -> Answer<Option<Ticket>> {
        let (enrolment, rule) = match self.rule() {
            Rule::Always => return Ok(None),
            Rule::Never => return Err(unready("this member of the quorum was not probed yet")),
            Rule::Under(enrolment, rule) => (enrolment, rule),
        };
        if let Some(ticket) = session.ticket().filter(|ticket| ticket.rule == rule) {
            return Ok(Some(ticket));
        }
        let ticket = match read(session, &self.target.root, until).await? {
            Some((found, version)) if found == *enrolment => Ticket {
                path: names::enrolment(&self.target.root).into(),
                version,
                token_min: enrolment.token_min.unwrap_or(0),
                rule,
            },
            _ => {
                return Err(unready(
                    "this member of the quorum was enrolled anew, or has lost its data",
                ));
            }
        };
        session.keep_ticket(Some(ticket.clone()));
        Ok(Some(ticket))
    }

    fn rule(&self) -> Rule {
        self.rule.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Session {
    /// The enrolment is read again before the next grant.
    pub(in crate::zookeeper) fn forget_enrolment(&self) {
        self.keep_ticket(None);
    }

    /// The server's clock, by a write of ours.
    async fn server_clock(&self, until: Instant) -> Answer<Duration> {
        self.prove(until).await?;
        let stat = self.ask(until, self.client.check_stat(&self.node)).await?;
        Ok(stat.map_or(Duration::ZERO, |stat| since_epoch(stat.mtime)))
    }

    /// The time when the path of all locks was made, or the directory of the sessions where there
    /// is none.
    async fn born(&self, root: &str, until: Instant) -> Answer<Option<Duration>> {
        let sessions = names::sessions(root);
        let oldest = if root.is_empty() { &sessions } else { root };
        let stat = self.ask(until, self.client.check_stat(oldest)).await?;
        Ok(stat.map(|stat| since_epoch(stat.ctime)))
    }
}

fn since_epoch(ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}

async fn probe(session: &Session, root: &str, until: Instant) -> Answer<Probe> {
    let now = session.server_clock(until).await?;
    // Its data was not lost since.
    let born = session.born(root, until).await?;
    let probe = Probe {
        enrolment: read(session, root, until).await?.map(|(enrolment, _)| enrolment),
        incarnation: String::new(),
        now,
        up_for: born.map_or(Duration::ZERO, |born| now.saturating_sub(born)),
        highest: counter::highest(session, root, until).await?,
    };
    session.looked(now);
    Ok(probe)
}

async fn enrol(
    session: &Session,
    root: &str,
    seen: &Probe,
    enrolment: &Enrolment,
    until: Instant,
) -> Answer<bool> {
    // In the session of the probe nothing was lost since, and an enrolment that was written since
    // is met by the version.
    if !session.has_looked(seen.now) || session.server_clock(until).await? > seen.now + SEEN_WITHIN
    {
        return Ok(false);
    }
    let found = read(session, root, until).await?;
    if found.as_ref().map(|(found, _)| found) != seen.enrolment.as_ref() {
        return Ok(false);
    }
    let (path, text) = (names::enrolment(root), enrolment.to_string());
    let written = match found {
        Some((_, version)) => {
            let request = session.client.set_data(&path, text.as_bytes(), Some(version));
            session.ask(until, request).await.map(drop)
        }
        None => {
            let options = CreateMode::Persistent.with_acls(session.acls);
            let request = session.client.create(&path, text.as_bytes(), &options);
            session.ask(until, request).await.map(drop)
        }
    };
    match written {
        Ok(()) => Ok(true),
        Err(Failure::Answer(Error::BadVersion | Error::NodeExists | Error::NoNode)) => Ok(false),
        Err(failure) => Err(failure),
    }
}

impl Member for ZooKeeper {
    async fn probe(&self) -> Result<Probe, Fault> {
        let until = clock::now().plus(REQUEST_WITHIN);
        loop {
            let session = self.sessions.get(until).await?;
            match probe(&session, &self.sessions.target.root, until).await {
                Err(Failure::Over) if clock::now() < until => {}
                answer => return answer.map_err(Failure::into_fault),
            }
        }
    }

    async fn enrol(&self, seen: &Probe, enrolment: &Enrolment) -> Result<bool, Fault> {
        let until = clock::now().plus(REQUEST_WITHIN);
        let session = self.sessions.get(until).await?;
        let root = &self.sessions.target.root;
        enrol(&session, root, seen, enrolment, until).await.map_err(Failure::into_fault)
    }

    fn serve_under(&self, enrolment: Option<&Enrolment>) {
        let mut rule = self.sessions.rule.write().unwrap_or_else(PoisonError::into_inner);
        match (&*rule, enrolment) {
            (_, None) => *rule = Rule::Never,
            (Rule::Under(known, _), Some(enrolment)) if **known == *enrolment => {}
            (_, Some(enrolment)) => {
                *rule = Rule::Under(Arc::new(enrolment.clone()), self.sessions.next_rule());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_enrolment_is_not_taken_for_one() {
        for data in [&b""[..], b"quorum=a", &[0xff; 8], &[b'a'; 100_000]] {
            assert_eq!(parse(data), None);
        }
    }
}
