//! ZooKeeper's four-letter words: questions that need no session.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::observe::Session;

/// The answer of a server before its start is complete, and outside a quorum.
const NOT_SERVING: &[u8] = b"not currently serving requests\n";

/// Asks the server at `addr` one word, as `mntr`.
///
/// # Errors
///
/// If nobody listens there or nothing comes for as long as `limit`.
pub(super) fn ask(addr: SocketAddr, word: &str, limit: Duration) -> io::Result<String> {
    loop {
        // The signal of a child that ended interrupts a connect, which then is begun anew.
        match ask_once(addr, word, limit) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            answer => return answer,
        }
    }
}

fn ask_once(addr: SocketAddr, word: &str, limit: Duration) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&addr, limit)?;
    stream.set_read_timeout(Some(limit))?;
    stream.set_write_timeout(Some(limit))?;
    stream.write_all(word.as_bytes())?;
    let mut answer = Vec::new();
    let mut chunk = [0; 4096];
    // A server that does not serve yet may leave the connection open behind its answer.
    while !answer.ends_with(NOT_SERVING) {
        match stream.read(&mut chunk) {
            Ok(0) => break,
            Ok(length) => answer.extend_from_slice(&chunk[..length]),
            // The end of a child; a socket with a timeout is not read on by itself.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    String::from_utf8(answer).map_err(io::Error::other)
}

/// The value of a line `<name><separator><value>`.
pub(super) fn field<'a>(answer: &'a str, name: &str, separator: char) -> Option<&'a str> {
    answer
        .lines()
        .filter_map(|line| line.split_once(separator))
        .find(|(field, _)| field.trim() == name)
        .map(|(_, value)| value.trim())
}

/// The sessions in an answer to `dump`, by id.
///
/// Its parts each begin with a line that ends in `dump:`: sessions, ephemeral nodes, connections.
pub(super) fn sessions(dump: &str) -> Vec<Session> {
    let mut sessions: BTreeMap<i64, Session> = BTreeMap::new();
    let mut part = "";
    let mut owner = 0;
    for line in dump.lines() {
        let word = line.trim().split([':', '\t', ' ']).next().unwrap_or_default();
        if line.ends_with("dump:") {
            part = word;
        } else if part == "Connections" {
            let id = line.split_once("sessionId: ").and_then(|(_, id)| parse_id(id.trim()));
            if let Some(session) = id.and_then(|id| sessions.get_mut(&id)) {
                session.connected = true;
            }
        } else if let Some(id) = parse_id(word) {
            owner = id;
            sessions.entry(id).or_insert_with(|| Session { id, ..Session::default() });
        } else if line.starts_with("\t/") {
            let session = sessions.get_mut(&owner).expect("an owner before its nodes");
            session.ephemerals.push(line.trim().to_owned());
            session.ephemerals.sort();
        }
    }
    sessions.into_values().collect()
}

/// Ids are written as unsigned, and kept as signed as everywhere else in ZooKeeper.
fn parse_id(text: &str) -> Option<i64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok().map(u64::cast_signed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_read_with_their_connections_and_ephemeral_nodes() {
        let dump = "SessionTracker dump:\nSession Sets (1)/(2):\n\
                    2 expire at Sat Nov 21 11:17:34 UTC 2026:\n\t0x100001c78dc0000\n\t0xf000000000000001\n\
                    ephemeral nodes dump:\nSessions with Ephemerals (1):\n\
                    0x100001c78dc0000:\n\t/b\n\t/a\n\
                    Connections dump:\nConnections Sets (3)/(2):\n\
                    1 expire at Sat Nov 21 11:17:26 UTC 2026:\n\tip: /127.0.0.1:1 sessionId: 0x0\n\
                    1 expire at Sat Nov 21 11:17:36 UTC 2026:\n\
                    \tip: /127.0.0.1:2 sessionId: 0x100001c78dc0000\n";
        let [gone, live] = &sessions(dump)[..] else { panic!("two sessions") };
        assert_eq!((gone.id, gone.connected), (0xf000_0000_0000_0001_u64.cast_signed(), false));
        assert_eq!((live.id, live.connected), (0x0100_001c_78dc_0000, true));
        assert_eq!(live.ephemerals, ["/a", "/b"]);
    }
}
