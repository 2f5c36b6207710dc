//! The proxy's thread: accepting, serving, ending.

use std::future::{Future, pending};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;

use super::control::{Control, Direction, Shared};
use super::frames::read_frames;
use super::link::{End, Link};
use super::protocol::Protocol;

/// Frames on their way in one direction.
const IN_FLIGHT_MAX: usize = 4096;

/// Serves until the control says stop.
pub(super) fn run(
    listener: std::net::TcpListener,
    target: SocketAddr,
    protocol: &'static dyn Protocol,
    shared: &Arc<Shared>,
) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        listener.set_nonblocking(true).expect("a socket that can poll");
        let listener = TcpListener::from_std(listener).expect("a runtime with I/O");
        let mut control = shared.control.subscribe();
        tokio::select! {
            () = accept(&listener, target, protocol, shared) => {}
            _ = control.wait_for(|control| control.stopped) => {}
        }
        // Dropping the runtime drops every connection's task.
    });
}

async fn accept(
    listener: &TcpListener,
    target: SocketAddr,
    protocol: &'static dyn Protocol,
    shared: &Arc<Shared>,
) {
    loop {
        let Ok((client, _)) = listener.accept().await else { continue };
        if shared.control.borrow().refusing {
            let _ = client.set_zero_linger();
            continue;
        }
        // Read before the connection is counted, so that a cut right after the count is seen.
        let before = *shared.control.borrow();
        shared.count(|counters| {
            counters.connections += 1;
            counters.open += 1;
        });
        let shared = Arc::clone(shared);
        tokio::spawn(async move {
            serve(client, target, Link::new(protocol, &shared, &before), before).await;
            shared.count(|counters| counters.open -= 1);
        });
    }
}

/// One client's connection from its start to its end.
async fn serve(mut client: TcpStream, target: SocketAddr, link: Link<'_>, before: Control) {
    let Ok(mut server) = reach(target, link.protocol.connect_patience()).await else {
        let _ = client.set_zero_linger();
        return;
    };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (protocol, shared) = (link.protocol, link.shared);
    let end = {
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        let (up, requests) = mpsc::channel(IN_FLIGHT_MAX);
        let (down, replies) = mpsc::channel(IN_FLIGHT_MAX);
        let read_up = |n: usize| shared.count(|c| c.bytes_to_server += n as u64);
        let read_down = |n: usize| shared.count(|c| c.bytes_to_client += n as u64);
        tokio::select! {
            end = ended(before, shared.control.subscribe()) => end,
            end = link.pass_requests(requests, to_server) => end,
            end = link.pass_replies(replies, to_client) => end,
            never = forever(read_frames(protocol, Direction::ToServer, from_client, up, read_up)) => never,
            never = forever(read_frames(protocol, Direction::ToClient, from_server, down, read_down)) => never,
        }
    };
    match end {
        End::Reset => {
            let _ = (client.set_zero_linger(), server.set_zero_linger());
        }
        End::Closed => {
            let _ = (client.shutdown().await, server.shutdown().await);
        }
        End::Orphan(request, slot) => {
            let _ = client.shutdown().await;
            drop(client);
            slot.wait_for_release().await;
            // The first bytes of its answer are those of what was done.
            let _ = (server.write_all(&request).await, server.read(&mut [0]).await);
            slot.arrive();
        }
    }
}

/// Connects to `target`, again and again for as long as `patience` while nobody listens there.
async fn reach(target: SocketAddr, patience: Duration) -> io::Result<TcpStream> {
    let deadline = Instant::now() + patience;
    loop {
        match TcpStream::connect(target).await {
            Err(_) if Instant::now() < deadline => sleep(Duration::from_millis(5)).await,
            outcome => return outcome,
        }
    }
}

/// A reader's end shows at its writer, once that has passed on what came before.
async fn forever(reader: impl Future<Output = ()>) -> End {
    reader.await;
    pending().await
}

/// Resolves when the test cuts or resets, counted from when the connection was accepted.
async fn ended(before: Control, mut control: watch::Receiver<Control>) -> End {
    let (cuts, resets) = (before.cuts, before.resets);
    match control.wait_for(|now| now.cuts > cuts || now.resets > resets).await {
        Ok(now) if now.resets > resets => End::Reset,
        _ => End::Closed,
    }
}
