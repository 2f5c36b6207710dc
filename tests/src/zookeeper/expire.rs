//! Ending a client's session from the server's side, and keeping it there.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::server::ZooKeeperServer;
use crate::wait::PATIENCE;

/// The operation that closes a session.
const CLOSE: i32 = -11;

/// The number that ZooKeeper mixes into a session's id to make its password, the same in every
/// server.
const SECRET: i64 = 0xB341_5C00;

impl ZooKeeperServer {
    /// Ends a client's session at once, as if it had been silent for too long: its ephemeral
    /// nodes are gone, and the client is told that it has expired when it connects again, which
    /// the server makes it do. Blocks until the server has done so.
    ///
    /// The fixture takes the session over for a moment, as a client may that comes back over
    /// another connection, and closes it.
    ///
    /// # Panics
    ///
    /// If the session is still there after [`PATIENCE`].
    pub fn expire_session(&self, id: i64) {
        let deadline = Instant::now() + PATIENCE;
        // The client may take its session back before it is closed.
        while self.sessions().iter().any(|session| session.id == id) {
            let closed = close(self.addr(), id);
            assert!(Instant::now() < deadline, "session {id:#x} does not end: {closed:?}");
            sleep(Duration::from_millis(1));
        }
    }

    /// Keeps a client's session at the server for so long from now on, within the server's bounds,
    /// though its client says nothing: its ephemeral nodes stay. The client's connection is ended
    /// by the server, so keep it from coming back, as by a black hole.
    ///
    /// # Panics
    ///
    /// If the server does not know the session.
    pub fn prolong_session(&self, id: i64, by: Duration) {
        let kept = prolong(self.addr(), id, by);
        assert_eq!(kept.ok(), Some(id), "session {id:#x} is not there to be kept");
    }
}

/// Connects as session `id`, closes it in the same breath, and waits for the server's end.
fn close(addr: SocketAddr, id: i64) -> io::Result<()> {
    let mut stream = open(addr)?;
    let close = [1_i32.to_be_bytes(), CLOSE.to_be_bytes()].concat();
    let both = [framed(&connect(id, Duration::from_secs(4))), framed(&close)].concat();
    stream.write_all(&both)?;
    io::copy(&mut stream, &mut io::sink()).map(drop)
}

/// Connects as session `id` with this timeout, and leaves without a word; the session that the
/// server says it is, 0 if that is over.
fn prolong(addr: SocketAddr, id: i64, timeout: Duration) -> io::Result<i64> {
    let mut stream = open(addr)?;
    stream.write_all(&framed(&connect(id, timeout)))?;
    // Length, version, timeout, session.
    let mut answer = [0; 20];
    stream.read_exact(&mut answer)?;
    let (_, session) = answer.split_last_chunk().expect("a session");
    Ok(i64::from_be_bytes(*session))
}

fn open(addr: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&addr, PATIENCE)?;
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    Ok(stream)
}

/// The request that takes session `id` over.
fn connect(id: i64, timeout: Duration) -> Vec<u8> {
    let timeout_ms = i32::try_from(timeout.as_millis()).expect("a short timeout");
    let mut connect = Vec::new();
    // Version, last change seen, timeout in milliseconds.
    connect.extend([0_i32.to_be_bytes(), [0; 4], [0; 4], timeout_ms.to_be_bytes()].concat());
    connect.extend(id.to_be_bytes());
    connect.extend(16_i32.to_be_bytes());
    connect.extend(password(id));
    // Not for reading only.
    connect.push(0);
    connect
}

fn framed(frame: &[u8]) -> Vec<u8> {
    let length = i32::try_from(frame.len()).expect("a short frame");
    [&length.to_be_bytes(), frame].concat()
}

/// The password that the server made for session `id`: bytes of `java.util.Random`.
fn password(id: i64) -> [u8; 16] {
    const MULTIPLIER: u64 = 0x5_DEEC_E66D;
    const MASK: u64 = (1 << 48) - 1;
    let mut state = ((id ^ SECRET).cast_unsigned() ^ MULTIPLIER) & MASK;
    let mut bytes = [0; 16];
    for word in bytes.chunks_exact_mut(4) {
        state = state.wrapping_mul(MULTIPLIER).wrapping_add(0xB) & MASK;
        let drawn = u32::try_from(state >> 16).expect("32 of 48 bits");
        word.copy_from_slice(&drawn.to_le_bytes());
    }
    bytes
}
