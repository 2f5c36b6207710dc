//! A server whose wall clock a test can move.
//!
//! The machine's own clock is everybody's, and moving it needs rights. So the server loads a
//! library that moves what it reads: leases, deadlines and tokens jump as they would.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use super::server::RedisServer;

const SOURCE: &str = include_str!("clock.c");

/// Has the server of `command` read its clock through the file in `folder`, which a restart finds
/// as it was.
pub(super) fn load(command: &mut Command, folder: &Path) {
    let (library, moved) = (folder.join("clock.so"), folder.join("clock"));
    if !library.exists() {
        let source = folder.join("clock.c");
        fs::write(&source, SOURCE).expect("a writable folder");
        fs::write(&moved, 0_i64.to_ne_bytes()).expect("a writable folder");
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(&source);
        assert!(compiler.status().expect("the linker of Rust").success(), "clock.c");
    }
    command.env("LD_PRELOAD", library).env("MOVED_CLOCK", moved);
}

/// For a server with [`RedisOptions::movable_clock`](super::RedisOptions::movable_clock).
impl RedisServer {
    /// Moves the server's clock by so many milliseconds from where it is now.
    ///
    /// # Panics
    ///
    /// If its clock is not movable, or the server does not read it.
    pub fn move_clock(&self, by_ms: i64) {
        let path = self.folder().join("clock");
        let file = fs::File::options().read(true).write(true).open(path).expect("a movable clock");
        let mut moved = [0; 8];
        file.read_exact_at(&mut moved, 0).expect("the file of the clock");
        let to_us = i64::from_ne_bytes(moved) + by_ms * 1_000;
        let before_us = self.time_us();
        file.write_all_at(&to_us.to_ne_bytes(), 0).expect("the file of the clock");
        let went_us = self.time_us() - before_us;
        // What a busy machine adds between the two readings.
        let reads_it = (by_ms * 1_000..by_ms * 1_000 + 5_000_000).contains(&went_us);
        assert!(reads_it, "the clock was to be moved by {by_ms} ms, and went {went_us} us");
    }

    /// What the server's clock reads, in microseconds since 1970.
    ///
    /// # Panics
    ///
    /// If the server does not answer.
    #[must_use]
    pub fn time_us(&self) -> i64 {
        let (seconds, micros): (i64, i64) = self.command(&["TIME"]);
        seconds * 1_000_000 + micros
    }
}
