//! Asking one sentinel.

use std::time::Duration;

use redis::AsyncConnectionConfig;
use redis::aio::{ConnectionLike, MultiplexedConnection};

use super::answer::Report;
use super::target::Target;
use crate::backend::url::Host;
use crate::backend::{Fault, FaultKind};
use crate::ground::timeout;
use crate::redis::wire::fault;
use crate::redis::wire::refusal;

/// Connects to a sentinel.
pub(super) async fn connect(
    target: &Target,
    at: &Host,
    config: AsyncConnectionConfig,
) -> Result<MultiplexedConnection, Fault> {
    let client = target.sentinel.client(at)?;
    let config = config.set_connection_timeout(Some(target.within)).set_response_timeout(None);
    let connecting = refusal::connect(&client, &config);
    match timeout::within(target.within, connecting).await {
        Ok(connection) => connection.map_err(of_sentinel),
        Err(_) => Err(silent(target.within)),
    }
}

/// Asks for the master and the other sentinels; `None` if it has nothing to say.
pub(super) async fn ask(
    connection: &mut MultiplexedConnection,
    target: &Target,
) -> Result<Option<Report>, Fault> {
    let mut pipeline = redis::pipe();
    for question in ["get-master-addr-by-name", "master", "get-master-addr-by-name", "sentinels"] {
        pipeline.cmd("SENTINEL").arg(question).arg(&target.master);
    }
    pipeline.cmd("SENTINEL").arg("myid");
    let asking = connection.req_packed_commands(&pipeline, 0, 5);
    let answers = match timeout::within(target.within, asking).await {
        Ok(answers) => answers.map_err(of_sentinel)?,
        Err(_) => return Err(silent(target.within)),
    };
    if let Some(redis::Value::ServerError(error)) = answers.first() {
        return Err(of_sentinel(error.clone().into()));
    }
    Ok(Report::read(&answers))
}

/// Connects to a sentinel, and asks it.
pub(super) async fn once(target: &Target, at: &Host) -> Result<Option<Report>, Fault> {
    let mut connection = connect(target, at, AsyncConnectionConfig::new()).await?;
    ask(&mut connection, target).await
}

/// An error of a sentinel, which is not that of the server.
fn of_sentinel(error: redis::RedisError) -> Fault {
    let fault = fault::fault(error);
    Fault::new(fault.kind(), format!("a sentinel: {fault}")).with_source(fault)
}

pub(super) fn silent(within: Duration) -> Fault {
    let what = format!("a sentinel did not answer within {within:?}");
    Fault::new(FaultKind::Transient, what)
}
