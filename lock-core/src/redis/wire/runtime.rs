//! The runtime that serves the connections of a store: their home, or that of the caller.

use std::future::Future;
use std::net::{Ipv4Addr, UdpSocket};
use std::panic::catch_unwind;
use std::time::Duration;

use tracing::Instrument as _;
use tracing::instrument::WithSubscriber as _;

use super::fault;
use crate::backend::io::Home;
use crate::backend::{ConnectError, Fault};
use crate::ground::clock;

/// The time that all requests at connect may take together.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// Connects by a task of the connections' home, so the caller may be polled by any executor.
pub(in crate::redis) async fn at_home<T: Send + 'static>(
    connecting: impl Future<Output = Result<T, Fault>> + Send + 'static,
) -> Result<T, ConnectError> {
    let home = Home::shared().map_err(ConnectError::Store)?;
    // It warns of what it finds, where the caller listens.
    let connecting = connecting.in_current_span().with_current_subscriber();
    let connected = home.run(CONNECT_WITHIN, connecting).await;
    connected.unwrap_or_else(|_| Err(fault::timed_out(CONNECT_WITHIN))).map_err(ConnectError::Store)
}

/// The connects of a quorum and of records are bounded by timers of the caller's runtime.
pub(in crate::redis) fn needs_runtime() -> Result<(), ConnectError> {
    clock::runtime().map(drop).ok_or(ConnectError::NoRuntime)
}

/// The connections of a pool are served by the runtime in which it is asked, by its timers and its
/// I/O.
pub(in crate::redis) fn needs_runtime_of_pools() -> Result<(), ConnectError> {
    needs_runtime()?;
    if has_io() { Ok(()) } else { Err(ConnectError::NoRuntime) }
}

/// There is no other way to learn it than the panic of a socket, which is printed. Without a socket
/// to try, the pool will tell.
fn has_io() -> bool {
    let Ok(socket) = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)) else { return true };
    let tried = catch_unwind(|| {
        socket.set_nonblocking(true).and_then(|()| tokio::net::UdpSocket::from_std(socket))
    });
    tried.is_ok()
}
