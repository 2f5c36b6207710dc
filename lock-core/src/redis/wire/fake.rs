//! A server for tests, which answers as they say.

use std::io::{BufRead, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, OnceLock};
use std::thread::{self, ThreadId};

/// Answers each command with what `says` makes of its words; `None` ends the connection. The port.
/// Its threads end with the test's process, and its connections with those of the test.
pub(in crate::redis) fn start<F>(says: F) -> u16
where
    F: Fn(&[&str]) -> Option<String> + Clone + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, says) = (stream.unwrap(), says.clone());
            thread::spawn(move || serve(&stream, says));
        }
    });
    port
}

/// The same, but one connection leads to a `former` server: the first that asks what that answers.
pub(in crate::redis) fn start_behind<P, F>(former: P, says: F) -> u16
where
    P: Fn(&[&str]) -> Option<String> + Clone + Send + 'static,
    F: Fn(&[&str]) -> Option<String> + Clone + Send + 'static,
{
    // Each connection has a thread.
    let first = Arc::<OnceLock<ThreadId>>::default();
    start(move |words| {
        let here = thread::current().id();
        let former = former(words).filter(|_| *first.get_or_init(|| here) == here);
        former.or_else(|| says(words))
    })
}

/// The words of a replica about a write.
pub(in crate::redis) const READ_ONLY: &str =
    "-READONLY You can't write against a read only replica.\r\n";

/// An answer in words.
pub(in crate::redis) fn text(said: &str) -> String {
    format!("${}\r\n{said}\r\n", said.len())
}

/// The answer to a subscription of this kind, or to its end.
pub(in crate::redis) fn subscribed(kind: &str, channel: &str) -> String {
    let (long, bytes) = (kind.len(), channel.len());
    format!(">3\r\n${long}\r\n{kind}\r\n${bytes}\r\n{channel}\r\n:1\r\n")
}

fn serve(stream: &TcpStream, says: impl Fn(&[&str]) -> Option<String>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let words = command(&mut reader)?;
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let answer = match &words[..] {
            ["HELLO", ..] => "%1\r\n+proto\r\n:3\r\n".to_owned(),
            words => says(words)?,
        };
        (&*stream).write_all(answer.as_bytes()).ok()?;
    }
}

/// The words of a command; `None` where the connection has ended.
pub(in crate::redis) fn command(reader: &mut impl BufRead) -> Option<Vec<String>> {
    let mut words = Vec::new();
    for _ in 0..number(reader)? {
        let mut word = vec![0; usize::try_from(number(reader)?).ok()? + 2];
        reader.read_exact(&mut word).ok()?;
        words.push(String::from_utf8_lossy(&word).trim_end().to_owned());
    }
    Some(words)
}

fn number(reader: &mut impl BufRead) -> Option<u64> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
    line[1..].trim().parse().ok()
}
