//! In one line with `etcdctl lock`, `etcdctl elect`, and Go's `clientv3/concurrency`.

use lock_core::error::LossReason;
use tests::etcd::Rival;
use tests::wait::{eventually, within};

use crate::support::*;

/// `etcdctl lock` waits for ours, and ours for it; who was there first is granted first.
#[tokio::test]
async fn etcdctl_stands_in_one_line_with_ours() {
    let path = path();
    let (ours, line) = (client(&path).await, format!("{path}/k"));
    let guard = ours.lock("k").await.expect("a free key");
    let mut theirs = Rival::etcdctl(&SERVER, &["lock", &line]);
    eventually("it waits", || SERVER.keys(&line).len() == 2).await;
    let rival = client(&path).await;
    let next = tokio::spawn(rival.lock("k").acquire());
    eventually("all wait", || SERVER.keys(&line).len() == 3).await;
    assert!(theirs.is_silent(ms(50)), "two hold the key");
    let first = guard.token();
    guard.release().await.expect("a release");
    let held = theirs.says();
    assert!(held.starts_with(&line), "{held}");
    assert!(!next.is_finished(), "two hold the key");
    let seen = ours.inspect("k").await.expect("an inspection");
    assert_eq!(seen.holders.len(), 1);
    theirs.lets_go();
    let next = within("our turn", next).await.expect("no panic").expect("a grant");
    assert!(next.token() > first);
    next.release().await.expect("a release");
    assert_eq!(SERVER.keys(&line), []);
}

/// The key of a killed `etcdctl` is free when its lease ends.
#[tokio::test]
async fn a_killed_etcdctl_is_followed() {
    let path = path();
    let (ours, line) = (client(&path).await, format!("{path}/k"));
    let mut theirs = Rival::etcdctl(&SERVER, &["lock", "--ttl=2", &line]);
    assert!(theirs.says().starts_with(&line));
    let next = tokio::spawn(ours.lock("k").acquire());
    eventually("ours waits", || SERVER.keys(&line).len() == 2).await;
    theirs.kill();
    let next = within("our turn", next).await.expect("no panic").expect("a grant");
    next.release().await.expect("a release");
}

/// `etcdctl elect` leads in our eyes, and is shown who of ours leads.
#[tokio::test]
async fn etcdctl_and_ours_stand_for_one_election() {
    let path = path();
    let (ours, line) = (client(&path).await, format!("{path}/e"));
    let mut theirs = Rival::etcdctl(&SERVER, &["elect", &line, "their value"]);
    assert!(theirs.says().starts_with(&line));
    let election = ours.election("e");
    let mut leaders = election.observe();
    let seen = within("their leader", leaders.next()).await.expect("a client");
    let seen = seen.expect("an answer").expect("a leader");
    assert_eq!(&*seen.value, "their value");
    theirs.lets_go();
    let term = within("our turn", election.run_for("our value")).await.expect("a term");
    let listens = Rival::etcdctl(&SERVER, &["elect", "--listen", &line]);
    assert!(listens.says().starts_with(&line));
    assert_eq!(listens.says(), "our value");
    term.resign().await.expect("a resignation");
}

/// An operator ends our session: the holder is told, and the next is granted.
#[tokio::test]
async fn a_lease_that_is_revoked_by_hand_is_told() {
    let path = path();
    let (ours, rival) = (client(&path).await, client(&path).await);
    let guard = ours.lock("k").await.expect("a free key");
    let lease = SERVER.keys(&format!("{path}/k"))[0].lease;
    let next = tokio::spawn(rival.lock("k").acquire());
    eventually("it waits", || SERVER.keys(&format!("{path}/k")).len() == 2).await;
    let revoked = Rival::etcdctl(&SERVER, &["lease", "revoke", &format!("{lease:x}")]);
    assert!(revoked.says().contains("revoked"));
    let next = within("the next", next).await.expect("no panic").expect("a grant");
    let lost = within("the loss", guard.lost()).await;
    assert_eq!(lost.reason(), LossReason::Taken);
    assert!(next.token() > guard.token());
    next.release().await.expect("a release");
    // In a new session.
    let again = within("a new session", ours.lock("k").acquire()).await.expect("a free key");
    again.release().await.expect("a release");
}

/// Go's own `Mutex`, `TryLock` and `Election`.
#[tokio::test]
async fn go_stands_in_one_line_with_ours() {
    let path = path();
    let (ours, line) = (client(&path).await, format!("{path}/k"));
    let Some(mut theirs) = Rival::go(&SERVER, "mutex", &line, &["2"]) else {
        println!("the client in Go was not built");
        return;
    };
    assert_eq!(theirs.says(), "held");
    let next = tokio::spawn(ours.lock("k").acquire());
    eventually("ours waits", || SERVER.keys(&line).len() == 2).await;
    let mut behind = Rival::go(&SERVER, "mutex", &line, &["2"]).expect("it was built");
    eventually("all wait", || SERVER.keys(&line).len() == 3).await;
    let tries = Rival::go(&SERVER, "try", &line, &["2"]).expect("it was built");
    assert_eq!(tries.says(), "busy");
    theirs.is_told();
    assert_eq!(theirs.says(), "free");
    let next = within("our turn", next).await.expect("no panic").expect("a grant");
    assert!(behind.is_silent(ms(50)), "two hold the key");
    next.release().await.expect("a release");
    assert_eq!(behind.says(), "held");
    let last = tokio::spawn(ours.lock("k").acquire());
    eventually("ours waits", || SERVER.keys(&line).len() == 2).await;
    behind.kill();
    let last = within("our turn", last).await.expect("no panic").expect("a grant");
    last.release().await.expect("a release");

    let elects = format!("{path}/e");
    let election = ours.election("e");
    let term = within("a term", election.run_for("ours")).await.expect("a term");
    let sees = Rival::go(&SERVER, "observe", &elects, &["2"]).expect("it was built");
    assert_eq!(sees.says(), "leader ours");
    let mut stands = Rival::go(&SERVER, "elect", &elects, &["2", "theirs"]).expect("it was built");
    eventually("it stands", || SERVER.keys(&elects).len() == 2).await;
    assert!(stands.is_silent(ms(50)), "two lead");
    term.resign().await.expect("a resignation");
    assert_eq!(stands.says(), "leads");
    assert_eq!(sees.says(), "leader theirs");
    stands.is_told();
    assert_eq!(stands.says(), "resigned");
}

/// The `RWMutex` of Go's recipes, as far as it is right: ours wait for its readers and writers, and its
/// writers for ours. Its readers wait for nobody of ours, which is why docs advise against it.
#[tokio::test]
async fn ours_wait_for_the_readers_and_writers_of_gos_recipe() {
    let path = path();
    let (ours, line) = (client(&path).await, format!("{path}/k"));
    let Some(mut reads) = Rival::go(&SERVER, "rlock", &line, &["2"]) else {
        println!("the client in Go was not built");
        return;
    };
    assert_eq!(reads.says(), "held");
    let beside = within("a reader", ours.lock("k").shared().acquire()).await.expect("a grant");
    beside.release().await.expect("a release");
    assert!(ours.lock("k").try_acquire().await.expect("an answer").is_none(), "it is read");
    let next = tokio::spawn(ours.lock("k").acquire());
    eventually("ours waits", || SERVER.keys(&line).len() == 2).await;
    let mut writes = Rival::go(&SERVER, "wlock", &line, &["2"]).expect("it was built");
    eventually("all wait", || SERVER.keys(&line).len() == 3).await;
    reads.is_told();
    assert_eq!(reads.says(), "free");
    let next = within("our turn", next).await.expect("no panic").expect("a grant");
    assert!(writes.is_silent(ms(50)), "two hold the key");
    next.release().await.expect("a release");
    assert_eq!(writes.says(), "held");
    let last = tokio::spawn(ours.lock("k").shared().acquire());
    eventually("ours waits", || SERVER.keys(&line).len() == 2).await;
    writes.is_told();
    assert_eq!(writes.says(), "free");
    let last = within("our turn", last).await.expect("no panic").expect("a grant");
    last.release().await.expect("a release");
}
