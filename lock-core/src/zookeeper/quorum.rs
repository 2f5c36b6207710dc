//! `zookeeper+quorum://`: one lock at a majority of independent servers.
//!
//! The hosts of the URL are no ensemble: each is a server of its own, and would not know of the
//! others. Its lock directories are Curator's as ever, so a Java client at one of the servers
//! excludes a claim there, and there only.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use super::ZooKeeper;
use super::sessions::Sessions;
use super::url::Target;
use crate::backend::{Fault, FaultKind};
use crate::engine::clock;
use crate::error::ConnectError;
use crate::quorum::Quorum;

/// How long a majority may take to answer.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// Opens sessions at a majority; the others are opened when they are asked for something.
pub(crate) async fn connect(url: &str) -> Result<Quorum<ZooKeeper>, ConnectError> {
    let targets = Target::parse(url)?.each()?;
    let members: Vec<_> = targets.into_iter().map(ZooKeeper::member_at).collect();
    let sessions: Vec<_> = members.iter().map(|member| member.sessions.clone()).collect();
    let quorum = Quorum::new(members);
    let quorum = quorum.map_err(|error| ConnectError::Url { reason: error.to_string() })?;
    majority_answers(&sessions).await.map_err(ConnectError::Store)?;
    Ok(quorum)
}

async fn majority_answers(members: &[Arc<Sessions>]) -> Result<(), Fault> {
    let until = clock::now() + CONNECT_WITHIN;
    let opened = members.iter().map(|member| member.get(until));
    let mut opened: FuturesUnordered<_> = opened.collect();
    let (mut answered, mut faults) = (0, Vec::new());
    while let Some(answer) = opened.next().await {
        match answer {
            Ok(_) => answered += 1,
            Err(fault) => faults.push(fault),
        }
        if answered > members.len() / 2 {
            return Ok(());
        }
    }
    // A refusal says more than silence.
    let why = faults.iter().find(|fault| !fault.is_transient()).or(faults.first());
    let kind = why.map_or(FaultKind::Transient, Fault::kind);
    let why = why.map(|fault| format!(", one says: {fault}")).unwrap_or_default();
    let what = format!("{answered} of the {} members of the quorum answer{why}", members.len());
    Err(Fault::new(kind, what))
}
