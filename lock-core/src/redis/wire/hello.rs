//! The words over a new connection before anything is asked.

use redis::aio::MultiplexedConnection;
use redis::{Cmd, Value};

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

/// Asks the server to tell over this connection which keys were written by others, of those that
/// are read over it with a wish to be told. Returns whether it agreed. Without this a holder finds
/// at its next renewal that its key is gone.
pub(super) async fn track(connection: &mut MultiplexedConnection) -> Result<bool, Fault> {
    let mut track = Cmd::new();
    track.arg("CLIENT").arg("TRACKING").arg("ON").arg("OPTIN").arg("NOLOOP");
    match connection.send_packed_command(&track).await.and_then(Value::extract_error) {
        Err(error) if error.is_unrecoverable_error() => Err(fault::fault(error)),
        Err(error) => {
            tracing::debug!(%error, "no CLIENT TRACKING: a deletion by hand shows at a renewal");
            Ok(false)
        }
        Ok(_) => Ok(true),
    }
}
