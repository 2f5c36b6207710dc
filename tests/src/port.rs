//! Ports that stay a server's own.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

/// Ports below the range that the kernel takes for outgoing connections, so that a restart finds
/// its port free.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

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
