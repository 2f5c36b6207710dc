//! A wall clock that a test can move, for one server.
//!
//! The machine's own clock is everybody's, and moving it needs rights. So the server loads a
//! library that moves what it reads: leases, deadlines and tokens jump as they would.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCE: &str = include_str!("movable_clock.c");

/// The clock of the server in a folder.
#[derive(Debug)]
pub(crate) struct MovableClock {
    library: PathBuf,
    moved: PathBuf,
}

impl MovableClock {
    /// Makes it, or finds it as it was before a restart.
    pub(crate) fn new(folder: &Path) -> Self {
        let (library, moved) = (folder.join("clock.so"), folder.join("clock"));
        if !library.exists() {
            let source = folder.join("clock.c");
            fs::write(&source, SOURCE).expect("a writable folder");
            fs::write(&moved, 0_i64.to_ne_bytes()).expect("a writable folder");
            let mut compiler = Command::new("cc");
            compiler.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(&source);
            assert!(compiler.status().expect("the linker of Rust").success(), "the clock");
        }
        Self { library, moved }
    }

    /// Has the server of `command` read its clock through this.
    pub(crate) fn load(&self, command: &mut Command) {
        command.env("LD_PRELOAD", &self.library).env("MOVED_CLOCK", &self.moved);
    }

    /// Moves it by so many milliseconds from where it is now.
    pub(crate) fn move_by(&self, by_ms: i64) {
        let file = fs::File::options().read(true).write(true).open(&self.moved);
        let file = file.expect("a movable clock");
        let mut moved = [0; 8];
        file.read_exact_at(&mut moved, 0).expect("the file of the clock");
        let to_us = i64::from_ne_bytes(moved) + by_ms * 1_000;
        file.write_all_at(&to_us.to_ne_bytes(), 0).expect("the file of the clock");
    }
}
