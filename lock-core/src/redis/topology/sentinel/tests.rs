//! Asking sentinels that answer as a test says.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::sentinels::Term;
use super::{Sentinels, Target};
use crate::backend::io::Home;
use crate::backend::url::Host;
use crate::backend::{Fault, FaultKind};
use crate::ground::clock;
use crate::redis::wire::access::Access;
use crate::redis::wire::fake;

/// The next id of a sentinel, which tells it from the others.
static NEXT_ID: AtomicUsize = AtomicUsize::new(1);

/// A sentinel that names the master at this port with this epoch, or knows of none, after a time.
struct Fake {
    port: u16,
    says: Arc<Mutex<Option<(u16, u64)>>>,
    hushed: Arc<AtomicBool>,
}

impl Fake {
    fn start(says: Option<(u16, u64)>, after_ms: u64) -> Self {
        let (says, hushed) = (Arc::new(Mutex::new(says)), Arc::new(AtomicBool::new(false)));
        let (says_now, is_hushed) = (says.clone(), hushed.clone());
        let after = Duration::from_millis(after_ms);
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let port = fake::start(move |words| {
            let says = *says_now.lock().unwrap();
            let answer = answer(words, says, after, id);
            let is_hushed = is_hushed.load(Ordering::SeqCst);
            Some(if is_hushed { String::new() } else { answer })
        });
        Self { port, says, hushed }
    }

    fn switch(&self, to: u16, epoch: u64) {
        *self.says.lock().unwrap() = Some((to, epoch));
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
        // It is asked all the same.
        (["SUBSCRIBE", ..], _) => "-ERR unknown command\r\n".to_owned(),
        _ => "+OK\r\n".to_owned(),
    }
}

/// A busy machine decides nothing.
fn sentinels(fakes: &[Fake]) -> Arc<Sentinels> {
    sentinels_within(Duration::from_secs(60), fakes)
}

/// Sentinels that have so long to answer.
fn sentinels_within(within: Duration, fakes: &[Fake]) -> Arc<Sentinels> {
    let hosts = fakes.iter().map(|fake| Host::new("127.0.0.1", fake.port));
    let (sentinel, server) = (Access::default(), Access::default());
    let target =
        Target { sentinels: hosts.collect(), master: "m".into(), sentinel, server, within };
    Sentinels::new(target, Home::shared().unwrap())
}

/// Asked at home, as it has to be: elsewhere a sentinel's own task may have elected a master whose
/// term has not begun yet.
async fn term(sentinels: &Arc<Sentinels>) -> Result<Term, Fault> {
    let this = sentinels.clone();
    sentinels.home.spawn(async move { this.term().await }).await.unwrap()
}

async fn master(sentinels: &Arc<Sentinels>) -> u16 {
    let term = term(sentinels).await.unwrap();
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
        let within = Duration::from_secs(if silent { 3 } else { 60 });
        let fault = term(&sentinels_within(within, &fakes)).await.unwrap_err();
        assert_eq!(fault.kind() == FaultKind::Refused, !silent, "{fault}");
        assert!(fault.to_string().contains("no master named `m`"), "{fault}");
    }
}

#[tokio::test]
async fn sentinels_that_are_silent_hold_the_known_master_up_once() {
    let fakes = [0; 3].map(|_| Fake::start(Some((2, 5)), 0));
    let within = Duration::from_secs(2);
    let all = sentinels_within(within, &fakes);
    assert_eq!(master(&all).await, 2);
    fakes.iter().for_each(Fake::hush);
    // The answers are as old as after a while.
    all.known().heard = None;
    let start = clock::now();
    let others = [master(&all), master(&all), master(&all)];
    assert_eq!(futures_util::future::join_all(others).await, [2; 3]);
    let took = clock::now().duration_since(start);
    assert!(took < 2 * within, "{took:?}");
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// Counts what is told of.
fn count(all: &Arc<Sentinels>) -> Arc<AtomicUsize> {
    let told = Arc::new(AtomicUsize::new(0));
    let counted = told.clone();
    all.follow(move || {
        counted.fetch_add(1, Ordering::SeqCst);
        true
    });
    told
}

async fn is_told(told: &AtomicUsize, times: usize) {
    let long_enough = async {
        while told.load(Ordering::SeqCst) < times {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let is_told = tokio::time::timeout(Duration::from_secs(60), long_enough).await;
    assert!(is_told.is_ok() && told.load(Ordering::SeqCst) == times, "{told:?}, not {times}");
}

/// A runtime that nobody drives stands for one that is blocked.
#[test]
fn a_switch_is_told_of_while_the_runtime_that_connected_is_blocked_and_when_it_is_gone() {
    let fakes = [Fake::start(Some((2, 5)), 0)];
    let all = sentinels(&fakes);
    let application = runtime();
    let told = application.block_on(async {
        assert_eq!(master(&all).await, 2);
        let told = count(&all);
        is_told(&told, 1).await;
        told
    });
    let switch = |to, epoch| {
        fakes[0].switch(to, epoch);
        all.look();
    };
    let other = runtime();
    other.block_on(async {
        switch(3, 6);
        is_told(&told, 2).await;
        assert_eq!(master(&all).await, 3);
    });
    drop(application);
    other.block_on(async {
        switch(4, 7);
        is_told(&told, 3).await;
    });
}
