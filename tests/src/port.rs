//! Ports that stay a server's own.

use std::net::TcpListener;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// Ports below the range that the kernel takes for outgoing connections, so that a restart finds
/// its port free.
const PORTS: Range<u16> = 20_000..32_000;

/// A process takes so many at a time.
const BLOCK: u16 = 200;

/// Has a server launched on a free port. The error of a launch is the server's log.
///
/// # Panics
///
/// Where it does not start, with its log.
pub(crate) fn on_a_free_port(server: &str, mut launch: impl FnMut(u16) -> Result<(), String>) {
    // Between the choice of a port and the server's bind another process may take it.
    for _ in 0..20 {
        match launch(free_port()) {
            Ok(()) => return,
            Err(log) if is_port_taken(&log) => {}
            Err(log) => panic!("{server} did not start:\n{log}"),
        }
    }
    panic!("{server} found no free port in 20 tries");
}

/// Whether a server says so of its port in its log.
pub(crate) fn is_port_taken(log: &str) -> bool {
    log.to_ascii_lowercase().contains("address already in use")
}

/// A loopback port that was free a moment ago, and that no other call is given, in this process or in
/// one beside it: a server that was killed finds its port again, and a client there nobody else.
///
/// # Panics
///
/// If none is free.
#[must_use]
pub fn free_port() -> u16 {
    static PORTS: Mutex<Blocks> = Mutex::new(Blocks { own: Vec::new(), left: 0..0 });
    let mut ports = PORTS.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        match ports.left.next() {
            Some(port) if bind(port).is_some() => return port,
            Some(_) => {}
            None => ports.claim(),
        }
    }
}

/// The ports of this process.
struct Blocks {
    /// Blocks are claimed by their first port, which is kept for as long as the process lives.
    own: Vec<TcpListener>,
    left: Range<u16>,
}

impl Blocks {
    fn claim(&mut self) {
        let blocks = (PORTS.end - PORTS.start) / BLOCK;
        let first = fastrand::u16(..blocks);
        let mut starts = (0..blocks).map(|nth| PORTS.start + (first + nth) % blocks * BLOCK);
        let (start, claim) = starts
            .find_map(|start| Some((start, bind(start)?)))
            .unwrap_or_else(|| panic!("no block of ports is free in {PORTS:?}"));
        self.own.push(claim);
        self.left = start + 1..start + BLOCK;
    }
}

fn bind(port: u16) -> Option<TcpListener> {
    TcpListener::bind(("127.0.0.1", port)).ok()
}
