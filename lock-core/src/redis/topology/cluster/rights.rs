//! The check that the user may do what only a cluster needs, and no script can try.

use redis::{AsyncConnectionConfig, Pipeline, Value};

use super::Cluster;
use super::layout::Addr;
use super::refresh::NODE_WITHIN;
use crate::backend::{Fault, FaultKind};
use crate::redis::protocol::slots::channel;
use crate::redis::wire::fault;
use crate::redis::wire::refusal;
use crate::redis::wire::request::{self, REQUEST_WITHIN};

/// Addresses in an error at most.
const NODES_SHOWN_MAX: usize = 6;

impl Cluster {
    /// Tries it at a node that answers: a slot of that node, and the commands that the user may
    /// not use there, by name. `pushes`: those that pushes need, too.
    pub(in crate::redis) async fn refused(
        &self,
        pushes: bool,
    ) -> Result<(u16, Vec<&'static str>), Fault> {
        let late = || Err(fault::timed_out(REQUEST_WITHIN));
        let Some(this) = self.this.upgrade() else { return late() };
        let trying = async move { this.refused_somewhere(pushes).await };
        let tried = self.home.run(REQUEST_WITHIN, trying).await.unwrap_or_else(|_| late());
        tried.map_err(|why| if why.is_transient() { self.out_of_reach(why) } else { why })
    }

    /// The nodes of the URL answered, and named others. The text lists those, so that whoever reads
    /// it sees that these are addresses of another network.
    fn out_of_reach(&self, why: Fault) -> Fault {
        let nodes = self.state().table.one_slot_each();
        if nodes.is_empty() {
            return why;
        }
        let shown: Vec<_> =
            nodes.iter().take(NODES_SHOWN_MAX).map(|(_, addr)| format!("{addr:?}")).collect();
        let what = format!(
            "no master of the cluster is reached where its nodes say that it is: {}{}: {why}",
            shown.join(", "),
            if nodes.len() > NODES_SHOWN_MAX { " and others" } else { "" },
        );
        Fault::new(FaultKind::Transient, what).with_source(why)
    }

    async fn refused_somewhere(&self, pushes: bool) -> Result<(u16, Vec<&'static str>), Fault> {
        let nodes = self.state().table.one_slot_each();
        let mut why = Fault::new(FaultKind::Transient, "the cluster serves no slot");
        for (slot, addr) in nodes {
            match self.refused_at(slot, &addr, pushes).await {
                Err(fault) if fault.is_transient() => why = fault,
                answer => return answer.map(|refused| (slot, refused)),
            }
        }
        Err(why)
    }

    async fn refused_at(
        &self,
        slot: u16,
        addr: &Addr,
        pushes: bool,
    ) -> Result<Vec<&'static str>, Fault> {
        let client = self.access.client(&addr.host())?;
        let (channel, mut commands) = (channel(slot, &self.session.id), Pipeline::new());
        commands.cmd("ASKING");
        if pushes {
            commands.cmd("SSUBSCRIBE").arg(&channel).cmd("SUNSUBSCRIBE").arg(&channel);
        }
        let config = AsyncConnectionConfig::new().set_connection_timeout(Some(NODE_WITHIN));
        let mut connection = refusal::connect(&client, &config).await.map_err(fault::fault)?;
        let answers = request::send_each(&mut connection, &commands, NODE_WITHIN).await;
        let answers = answers.map_err(request::Failure::into_fault)?;
        let refused = |answer: &Value| {
            let Err(error) = answer.clone().extract_error() else { return false };
            fault::fault(error).kind() == FaultKind::Refused
        };
        let names = ["asking", "ssubscribe", "sunsubscribe"].into_iter().zip(&answers);
        Ok(names.filter(|(_, answer)| refused(answer)).map(|(name, _)| name).collect())
    }
}

#[cfg(test)]
mod tests {

    use super::super::{Target, layout};
    use super::*;
    use crate::backend::url::Login;

    #[tokio::test]
    async fn an_error_at_connect_names_the_addresses_that_were_learnt() {
        let mut target = Target::at(2);
        target.access.login = Some(Login::new(Some("u".into()), "secret".into()));
        let cluster = Cluster::at_nobody(target);
        let nodes = "a 127.0.0.1:1@1 master - 0 0 1 connected 0-16383";
        cluster.learn(&layout::parse(nodes, &cluster.seeds[0], false).unwrap());
        let error = cluster.refused(true).await.unwrap_err();
        assert!(error.is_transient() && error.to_string().contains("127.0.0.1:1"), "{error}");
        assert!(!format!("{error:?}").contains("secret"));
    }
}
