//! The server's own log of changes, for what it tells no client.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::Path;

/// Codes of changes, as in ZooKeeper's `ZooDefs.OpCode`.
const MULTI: i32 = 14;
const CREATE_CONTAINER: i32 = 19;

/// Magic, version and database id.
const FILE_HEADER_LEN: usize = 16;

/// A node by the change that created it and its path; several nodes may share a change.
pub(super) type Birth = (i64, String);

/// Every container that was ever created, by the logs in the data folder `data`.
///
/// A change is in the log before the server answers it. What a member of an ensemble was sent as
/// a snapshot is not.
pub(super) fn containers(data: &Path) -> HashSet<Birth> {
    let mut births = HashSet::new();
    let files = fs::read_dir(data.join("version-2")).into_iter().flatten().flatten();
    for file in files.filter(|file| file.file_name().to_string_lossy().starts_with("log.")) {
        if let Ok(log) = File::open(file.path()) {
            // The last entry may be half written; what comes before it counts.
            let _ = read_log(BufReader::new(log), &mut births);
        }
    }
    births
}

/// Reads entries until the zeros that the file was prepared with.
fn read_log(mut log: impl Read, births: &mut HashSet<Birth>) -> io::Result<()> {
    log.read_exact(&mut [0; FILE_HEADER_LEN])?;
    loop {
        let (mut checksum, mut length, mut end) = ([0; 8], [0; 4], [0; 1]);
        log.read_exact(&mut checksum)?;
        log.read_exact(&mut length)?;
        let length = usize::try_from(i32::from_be_bytes(length)).unwrap_or(0);
        if length == 0 {
            return Ok(());
        }
        let mut entry = vec![0; length];
        log.read_exact(&mut entry)?;
        log.read_exact(&mut end)?;
        births.extend(births_in(&entry).into_iter().flatten());
    }
}

/// The containers that one entry creates: client, request, zxid, time and kind, then the change.
fn births_in(entry: &[u8]) -> Option<Vec<Birth>> {
    let mut fields = Fields(entry);
    fields.skip(8 + 4)?;
    let zxid = fields.long()?;
    fields.skip(8)?;
    match fields.int()? {
        CREATE_CONTAINER => Some(vec![(zxid, fields.text()?)]),
        MULTI => {
            let mut births = Vec::new();
            for _ in 0..fields.int()? {
                let (kind, change) = (fields.int()?, fields.buffer()?);
                if kind == CREATE_CONTAINER {
                    births.push((zxid, Fields(change).text()?));
                }
            }
            Some(births)
        }
        _ => None,
    }
}

/// Fields of a record, in order.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn skip(&mut self, length: usize) -> Option<()> {
        self.take(length).map(drop)
    }

    fn int(&mut self) -> Option<i32> {
        self.take(4)?.try_into().ok().map(i32::from_be_bytes)
    }

    fn long(&mut self) -> Option<i64> {
        self.take(8)?.try_into().ok().map(i64::from_be_bytes)
    }

    fn buffer(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.int()?).ok()?;
        self.take(length)
    }

    fn text(&mut self) -> Option<String> {
        self.buffer().map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }
}
