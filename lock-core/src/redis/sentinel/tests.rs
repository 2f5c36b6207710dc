//! Asking sentinels that answer as a test says.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::{Sentinels, Target};
use crate::backend::FaultKind;
use crate::engine::clock;

/// A sentinel that names the master at this port with this epoch, or knows of none, after a time.
/// Its threads end with the test's process, and its connections with those of the test.
struct Fake {
    port: u16,
    hushed: Arc<AtomicBool>,
}

impl Fake {
    fn start(says: Option<(u16, u64)>, after_ms: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let hushed = Arc::new(AtomicBool::new(false));
        let is_hushed = hushed.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, is_hushed) = (stream.unwrap(), is_hushed.clone());
                let after = Duration::from_millis(after_ms);
                std::thread::spawn(move || serve(&stream, says, after, &is_hushed));
            }
        });
        Self { port, hushed }
    }

    fn hush(&self) {
        self.hushed.store(true, Ordering::SeqCst);
    }
}

/// Answers commands until there are no more.
fn serve(
    stream: &TcpStream,
    says: Option<(u16, u64)>,
    after: Duration,
    hushed: &AtomicBool,
) -> Option<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let words = command(&mut reader)?;
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let answer = match (&words[..], says) {
            (["HELLO", ..], _) => "%1\r\n+proto\r\n:3\r\n".to_owned(),
            (["SENTINEL", "get-master-addr-by-name", _], Some((port, _))) => {
                std::thread::sleep(after / 2);
                format!("*2\r\n+127.0.0.1\r\n+{port}\r\n")
            }
            (["SENTINEL", "get-master-addr-by-name", _], None) => "_\r\n".to_owned(),
            (["SENTINEL", "master", _], Some((_, epoch))) => {
                format!("%1\r\n+config-epoch\r\n+{epoch}\r\n")
            }
            (["SENTINEL", "myid"], _) => format!("+{}\r\n", stream.local_addr().ok()?.port()),
            (["SENTINEL", "sentinels", _], Some(_)) => "*0\r\n".to_owned(),
            (["SENTINEL", ..], _) => "-ERR No such master with that name\r\n".to_owned(),
            _ => "+OK\r\n".to_owned(),
        };
        if !hushed.load(Ordering::SeqCst) {
            (&*stream).write_all(answer.as_bytes()).ok()?;
        }
    }
}

fn command(reader: &mut impl BufRead) -> Option<Vec<String>> {
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

fn sentinels(fakes: &[Fake]) -> Arc<Sentinels> {
    let hosts: Vec<_> = fakes.iter().map(|fake| format!("127.0.0.1:{}", fake.port)).collect();
    let url = format!("redis+sentinel://{}/m", hosts.join(","));
    Sentinels::new(Target::parse(&url).unwrap())
}

async fn master(sentinels: &Arc<Sentinels>) -> u16 {
    let term = sentinels.term().await.unwrap();
    let client = sentinels.client(&term).unwrap();
    let addr = client.get_connection_info().addr().to_string();
    addr.rsplit_once(':').unwrap().1.parse().unwrap()
}

#[tokio::test]
async fn a_new_client_waits_for_a_majority_and_not_for_the_nearest_alone() {
    let far = || Fake::start(Some((2, 5)), 300);
    assert_eq!(master(&sentinels(&[Fake::start(Some((1, 4)), 0), far(), far()])).await, 2);
}

#[tokio::test]
async fn sentinels_that_know_of_no_master_are_no_majority() {
    let new = || Fake::start(None, 0);
    let all = sentinels(&[new(), new(), Fake::start(Some((2, 5)), 300)]);
    assert_eq!(master(&all).await, 2);
}

#[tokio::test]
async fn that_there_is_no_such_master_is_final_only_once_all_have_said_so() {
    for silent in [false, true] {
        let fakes = [Fake::start(None, 0), Fake::start(None, 0)];
        if silent {
            fakes[1].hush();
        }
        let fault = sentinels(&fakes).term().await.unwrap_err();
        assert_eq!(fault.kind() == FaultKind::Refused, !silent, "{fault}");
        assert!(fault.to_string().contains("no master named `m`"), "{fault}");
    }
}

#[tokio::test]
async fn sentinels_that_are_silent_hold_the_known_master_up_once_for_a_second() {
    let fakes = [0; 3].map(|_| Fake::start(Some((2, 5)), 0));
    let all = sentinels(&fakes);
    assert_eq!(master(&all).await, 2);
    fakes.iter().for_each(Fake::hush);
    // As after a while.
    all.known().heard = None;
    let start = clock::now();
    let others = [master(&all), master(&all), master(&all)];
    assert_eq!(futures_util::future::join_all(others).await, [2; 3]);
    let took = clock::now().duration_since(start);
    assert!(took < Duration::from_millis(1_500), "{took:?}");
}
