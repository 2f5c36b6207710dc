//! The words over a new connection before anything is asked.

use redis::aio::MultiplexedConnection;
use redis::{Cmd, ErrorKind, RedisError, ServerErrorKind, Value};

use super::fault;
use crate::backend::{Fault, FaultKind};

/// Checks that a server that sentinels name is the master. It may not be yet, or not any more.
pub(super) async fn master(connection: &mut MultiplexedConnection) -> Result<(), Fault> {
    let mut role = Cmd::new();
    role.arg("ROLE");
    match connection.send_packed_command(&role).await.and_then(Value::extract_error) {
        Ok(Value::Array(parts)) if parts.first() == Some(&Value::BulkString("master".into())) => {
            Ok(())
        }
        Ok(_) => {
            let what = "the server that the sentinels name is no master now";
            Err(Fault::new(FaultKind::Transient, what))
        }
        Err(error) => {
            let fault = fault::fault(error);
            if fault.kind() != FaultKind::Refused {
                return Err(fault);
            }
            // It refuses to write if it is none.
            tracing::debug!("no right to ROLE: not checked whether it is the master");
            Ok(())
        }
    }
}

/// Checks that a server which is back serves what claims ask it for. One that was started anew may
/// read its data first. It listens and subscribes meanwhile, and refuses all else.
///
/// The key is read and not looked at: that is within the rights that a lock needs.
pub(in crate::redis) async fn serves(
    connection: &mut MultiplexedConnection,
    key: &str,
) -> Result<(), Fault> {
    let mut read = Cmd::new();
    read.arg("GET").arg(key);
    match connection.send_packed_command(&read).await.and_then(Value::extract_error) {
        Err(error) if error.is_unrecoverable_error() || is_early(&error) => {
            Err(fault::fault(error))
        }
        // What else is wrong is told to whoever asks for something.
        _ => Ok(()),
    }
}

/// Whether the server has not read its data yet, or not those of its master. A node of a cluster says
/// meanwhile that the cluster is down, as it has heard of no other node.
fn is_early(error: &RedisError) -> bool {
    use ServerErrorKind::{BusyLoading, ClusterDown, MasterDown};
    matches!(error.kind(), ErrorKind::Server(BusyLoading | ClusterDown | MasterDown))
}

/// Asks the server to tell over this connection which keys were written by others, of those that
/// are read over it with a wish to be told. Returns whether it agreed. Without this a holder finds
/// at its next renewal that its key is gone.
pub(super) async fn track(connection: &mut MultiplexedConnection) -> Result<bool, Fault> {
    let mut track = Cmd::new();
    track.arg("CLIENT").arg("TRACKING").arg("ON").arg("OPTIN").arg("NOLOOP");
    let otherwise = "no CLIENT TRACKING: a deletion by hand shows at a renewal";
    agreed(connection, &track, otherwise).await
}

/// Gives the connection a name in the server's list of clients.
pub(super) async fn name(connection: &mut MultiplexedConnection, name: &str) -> Result<(), Fault> {
    let mut command = Cmd::new();
    command.arg("CLIENT").arg("SETNAME").arg(name);
    let otherwise = "no CLIENT SETNAME: an inspection does not show who this client is";
    agreed(connection, &command, otherwise).await.map(drop)
}

/// Whether the server did what nothing but a convenience hangs on.
async fn agreed(
    connection: &mut MultiplexedConnection,
    command: &Cmd,
    otherwise: &str,
) -> Result<bool, Fault> {
    match connection.send_packed_command(command).await.and_then(Value::extract_error) {
        Err(error) if error.is_unrecoverable_error() => Err(fault::fault(error)),
        Err(error) => {
            tracing::debug!(%error, "{otherwise}");
            Ok(false)
        }
        Ok(_) => Ok(true),
    }
}
