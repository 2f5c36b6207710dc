//! Asking sentinels that answer as a test says.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use super::answer::{Address, Master, Report};
use super::{Sentinels, Target};
use crate::backend::FaultKind;
use crate::engine::clock;
use crate::redis::fake;

/// What tells the sentinels from each other.
static NEXT_ID: AtomicUsize = AtomicUsize::new(1);

/// A sentinel that names the master at this port with this epoch, or knows of none, after a time.
struct Fake {
    port: u16,
    hushed: Arc<AtomicBool>,
}

impl Fake {
    fn start(says: Option<(u16, u64)>, after_ms: u64) -> Self {
        let hushed = Arc::new(AtomicBool::new(false));
        let (is_hushed, after) = (hushed.clone(), Duration::from_millis(after_ms));
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let port = fake::start(move |words| {
            let answer = answer(words, says, after, id);
            let is_hushed = is_hushed.load(Ordering::SeqCst);
            Some(if is_hushed { String::new() } else { answer })
        });
        Self { port, hushed }
    }

    fn hush(&self) {
        self.hushed.store(true, Ordering::SeqCst);
    }
}

fn answer(words: &[&str], says: Option<(u16, u64)>, after: Duration, id: usize) -> String {
    match (words, says) {
        (["SENTINEL", "get-master-addr-by-name", _], Some((port, _))) => {
            std::thread::sleep(after / 2);
            format!("*2\r\n+127.0.0.1\r\n+{port}\r\n")
        }
        (["SENTINEL", "get-master-addr-by-name", _], None) => "_\r\n".to_owned(),
        (["SENTINEL", "master", _], Some((_, epoch))) => {
            format!("%1\r\n+config-epoch\r\n+{epoch}\r\n")
        }
        (["SENTINEL", "myid"], _) => format!("+{id}\r\n"),
        (["SENTINEL", "sentinels", _], Some(_)) => "*0\r\n".to_owned(),
        (["SENTINEL", ..], _) => "-ERR No such master with that name\r\n".to_owned(),
        _ => "+OK\r\n".to_owned(),
    }
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

/// The client was connected in a runtime that is gone, and goes on in another.
#[test]
fn a_switch_is_told_of_in_whatever_runtime_the_client_lives() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let fakes = [Fake::start(Some((2, 5)), 0)];
    let (all, told) = (sentinels(&fakes), Arc::new(AtomicUsize::new(0)));
    let first = runtime();
    first.block_on(async {
        assert_eq!(master(&all).await, 2);
        let told = told.clone();
        all.follow(move || {
            told.fetch_add(1, Ordering::SeqCst);
            true
        });
    });
    drop(first);
    let is_told = |times: usize| {
        let told = told.clone();
        let long_enough = async move {
            while told.load(Ordering::SeqCst) < times {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(5), long_enough)
    };
    runtime().block_on(async {
        let before = told.load(Ordering::SeqCst);
        assert_eq!(master(&all).await, 2);
        is_told(before + 1).await.expect("of what it may have missed");
        let at = |port| Address { host: "127.0.0.1".into(), port };
        let report = Report { master: Master { at: at(3), epoch: 6 }, id: None, others: vec![] };
        all.learn(&at(fakes[0].port), report);
        is_told(before + 2).await.expect("of the switch");
    });
}
