//! Ports that stay a server's own.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

/// Ports below the range that the kernel takes for outgoing connections, so that a restart finds
/// its port free.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

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

/// A loopback port that was free a moment ago, different for each call in this process.
///
/// # Panics
///
/// If none is free.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let width = PORTS.end - PORTS.start;
    // Not from the seed of the tests: beside this process runs another of the same seed.
    let first = fastrand::Rng::with_seed(u64::from(std::process::id())).u16(1..width);
    let _ = NEXT.compare_exchange(0, first, Ordering::Relaxed, Ordering::Relaxed);
    for _ in 0..width {
        let port = PORTS.start + NEXT.fetch_add(1, Ordering::Relaxed) % width;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("no free port in {PORTS:?}");
}
