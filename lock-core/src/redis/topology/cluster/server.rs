//! One node of a cluster: its connections.

use std::sync::Arc;
use std::time::Duration;

use redis::{Client, Cmd, Pipeline, Value};

use super::Cluster;
use super::layout::Addr;
use super::pushes::Pushes;
use crate::backend::Replicas;
use crate::ground::{Plus as _, clock};
use crate::redis::wire::connection::Connection;
use crate::redis::wire::lanes::Lanes;
use crate::redis::wire::renewals::{Renewals, Shape};
use crate::redis::wire::request::{Call, Failure, Unserved};
use crate::redis::wire::route;

/// No request is given less.
pub(super) const REQUEST_LEAST: Duration = Duration::from_millis(50);

/// The connections to one node of a cluster.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) addr: Addr,
    /// All but renewals and what waits for replicas.
    main: Arc<Connection>,
    lanes: Lanes,
    pub(super) renewals: Renewals,
    pub(super) pushes: Pushes,
}

/// Over which connection.
#[derive(Debug, Clone, Copy)]
pub(super) enum Lane {
    Main,
    /// Nothing but renewals, so that nothing holds them up.
    Renewals,
    /// One that waits for replicas: the answer, and how many acknowledged it.
    Waiting(Replicas),
}

impl Server {
    pub(super) fn new(cluster: &Cluster, addr: Addr, client: Client) -> Self {
        let route = route::to(client.clone(), cluster.home.clone());
        let main = Connection::standing(route.clone(), cluster.session.clone());
        let tracking = Connection::tracking(route.clone(), cluster.session.clone());
        let renewals = Renewals::new(tracking, cluster.session.clone(), Shape::BySlot);
        let pushes = Pushes::new(client, addr.clone(), cluster);
        Self { addr, main, lanes: Lanes::new(route), renewals, pushes }
    }

    /// Sends one command.
    pub(super) async fn send(&self, command: &Cmd, within: Duration) -> Result<Value, Unserved> {
        self.main.call(command, within).await
    }

    /// Calls a script. `asking`: although the slot is not this node's yet.
    pub(super) async fn call(
        &self,
        lane: Lane,
        call: &Call,
        asking: bool,
        within: Duration,
    ) -> Result<Value, Unserved> {
        let until = clock::now().plus(within);
        let answer = self.once(lane, &call.command, asking, within).await;
        match call.in_full(&answer) {
            Some(command) => {
                let left = until.saturating_duration_since(clock::now()).max(REQUEST_LEAST);
                self.once(lane, &command, asking, left).await
            }
            None => answer,
        }
    }

    async fn once(
        &self,
        lane: Lane,
        command: &Cmd,
        asking: bool,
        within: Duration,
    ) -> Result<Value, Unserved> {
        let connection = match lane {
            Lane::Main => &self.main,
            Lane::Renewals => self.renewals.connection(),
            Lane::Waiting(replicas) => {
                return self.lanes.call_and_wait(command, replicas).await;
            }
        };
        if !asking {
            return connection.call(command, within).await;
        }
        // `ASKING` holds for the very next command, whoever sends it: both must go together.
        let answers = connection.call_each(|| asked(command), within).await?;
        let refused = |error| Unserved { fault: Failure::Server(error), sent: None };
        let mut last = Value::Nil;
        for answer in answers {
            last = answer.extract_error().map_err(refused)?;
        }
        Ok(last)
    }
}

/// A command for a slot that is on its way to the node.
pub(in crate::redis) fn asked(command: &Cmd) -> Pipeline {
    let mut commands = Pipeline::with_capacity(2);
    commands.cmd("ASKING").add_command(command.clone());
    commands
}
