//! Reading whole frames off one direction.

use std::time::Instant;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::mpsc;

use super::control::Direction;
use super::protocol::Protocol;

/// One frame and the time that it came.
pub(super) struct Frame {
    pub(super) bytes: Vec<u8>,
    pub(super) at: Instant,
}

/// Reads frames of `protocol` until the peer ends, each into `frames`, and calls `read` with each
/// chunk's size.
///
/// The reader runs ahead of the writer, so that a delay adds to the latency of pipelined frames
/// and not to their spacing; the channel's bound is what a kernel's buffer would be.
pub(super) async fn read_frames<R: AsyncRead + Unpin>(
    protocol: &'static dyn Protocol,
    direction: Direction,
    mut from: R,
    frames: mpsc::Sender<Frame>,
    mut read: impl FnMut(usize),
) {
    let mut buffer = Vec::new();
    loop {
        match from.read_buf(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(length) => read(length),
        }
        let at = Instant::now();
        let mut done = 0;
        while let Some(length) = protocol.frame_len(direction, &buffer[done..]) {
            let bytes = buffer[done..done + length].to_vec();
            done += length;
            if frames.send(Frame { bytes, at }).await.is_err() {
                return;
            }
        }
        buffer.drain(..done);
    }
}
