//! Whether the user may do what only a cluster needs, and no script can try.

use redis::{AsyncConnectionConfig, Pipeline, Value};

use super::{Cluster, channel, slot_of};
use crate::backend::{Fault, FaultKind};
use crate::redis::fault;
use crate::redis::link::{self, REQUEST_WITHIN};

impl Cluster {
    /// The commands that the user may not use, by name, tried at the node that serves `key`.
    pub(in crate::redis) async fn refused(&self, key: &str) -> Result<Vec<&'static str>, Fault> {
        let slot = slot_of(key.as_bytes());
        let owner = self.state().table.owner(slot).cloned();
        let Some(addr) = owner else {
            let what = "the cluster does not serve all slots";
            return Err(Fault::new(FaultKind::Transient, what));
        };
        let client = self.login.client(&addr)?;
        let (channel, mut commands) = (channel(slot, self.session()), Pipeline::new());
        commands.cmd("ASKING").cmd("SSUBSCRIBE").arg(&channel).cmd("SUNSUBSCRIBE").arg(&channel);
        let config = AsyncConnectionConfig::new().set_connection_timeout(Some(REQUEST_WITHIN));
        let connecting = client.get_multiplexed_async_connection_with_config(&config);
        let mut connection = connecting.await.map_err(fault::fault)?;
        let answers = link::send_all(&mut connection, &commands, REQUEST_WITHIN).await;
        let answers = answers.map_err(link::Failure::into_fault)?;
        let names = ["asking", "ssubscribe", "sunsubscribe"];
        let refused = |answer: &Value| {
            let Err(error) = answer.clone().extract_error() else { return false };
            fault::fault(error).kind() == FaultKind::Refused
        };
        let refused = names.into_iter().zip(&answers).filter(|(_, answer)| refused(answer));
        Ok(refused.map(|(name, _)| name).collect())
    }
}
