//! A follower that is cut off from its leader goes on to answer pings and reads, and does not know
//! that the others have counted its sessions out.

use std::time::{Duration, Instant};

use lock_core::LockClient;
use lock_core::error::LossReason;
use tests::wait::eventually;
use tests::zookeeper::ZooKeeperEnsemble;

use crate::connect;

/// In a row, for each session timeout.
const ROUNDS: usize = 5;

/// When the holder was told, and when the rival was granted.
struct Round {
    told: Instant,
    granted: Instant,
}

/// One holder at the server that will be cut, one rival at another.
struct Pair {
    holder: LockClient,
    rival: LockClient,
    key: String,
}

impl Pair {
    async fn connect(ensemble: &ZooKeeperEnsemble, cut: usize, whole: usize, seconds: u64) -> Self {
        let session = format!("?session={seconds}s");
        Self {
            holder: connect(&(ensemble.url_of(cut) + &session)).await,
            rival: connect(&(ensemble.url_of(whole) + &session)).await,
            key: format!("cut:{seconds}"),
        }
    }

    /// Holds the key from before the cut on; the rival waits for it all the while.
    async fn round(&self, cut: impl AsyncFnOnce()) -> Round {
        let held = self.holder.lock(&self.key).await.expect("a free key");
        let waiting = tokio::spawn({
            let acquire = self.rival.lock(&self.key).acquire();
            async move { (acquire.await, Instant::now()) }
        });
        eventually("the rival is in line", || self.rival.stats().waiters == 1).await;
        eventually("the holder has renewed", || self.holder.stats().renewals > 0).await;
        cut().await;
        let lost = held.lost().await;
        let told = Instant::now();
        assert_eq!(lost.reason(), LossReason::Expired, "by the clock, without any word");
        assert!(!held.is_held());
        let (next, granted) = waiting.await.expect("a task");
        let next = next.expect("the rival is granted");
        assert!(next.token() > held.token());
        next.release().await.expect("a release");
        Round { told, granted }
    }
}

/// F10, with a follower in between (V2, V3): five times in a row for sessions of 4 s and of 6 s,
/// two and three ticks.
#[tokio::test(flavor = "multi_thread")]
async fn a_holder_at_a_follower_that_is_cut_off_is_told_before_the_rival_is_granted() {
    let ensemble = ZooKeeperEnsemble::start(3);
    for round in 0..ROUNDS {
        let followers = ensemble.followers();
        let (cut, whole) = (followers[round % 2], followers[(round + 1) % 2]);
        let four = Pair::connect(&ensemble, cut, whole, 4).await;
        let six = Pair::connect(&ensemble, cut, whole, 6).await;
        let both = tokio::sync::Barrier::new(2);
        let cutting = async || {
            if both.wait().await.is_leader() {
                ensemble.cut_from_leader(cut);
            }
        };
        let (short, long) = tokio::join!(four.round(cutting), six.round(cutting));
        for (seconds, Round { told, granted }) in [(4, short), (6, long)] {
            assert!(told < granted, "round {round}, {seconds} s: told after the rival was granted");
            let ahead = granted - told;
            println!("round {round}: a session of {seconds} s: told {ahead:?} before the rival");
        }
        ensemble.heal();
        eventually("the follower is back", || {
            ensemble.server(cut).mode().is_some_and(|mode| mode == "follower")
        })
        .await;
    }
}

/// (V4, V5): a waiter there is not granted what it cannot know to hold, and is granted once the
/// link is whole again, within its budget.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_at_a_follower_that_is_cut_off_is_granted_after_the_cut() {
    let ensemble = ZooKeeperEnsemble::start(3);
    let followers = ensemble.followers();
    let holder = connect(&ensemble.url_of(followers[1])).await;
    let waiter = connect(&(ensemble.url_of(followers[0]) + "?session=4s")).await;
    let held = holder.lock("k").await.unwrap();
    let waiting = tokio::spawn(waiter.lock("k").acquire());
    eventually("it waits", || waiter.stats().waiters == 1).await;
    let line = async || holder.inspect("k").await.unwrap().waiters.len();
    while line().await == 0 {
        tokio::task::yield_now().await;
    }
    ensemble.cut_from_leader(followers[0]);
    let token = held.token();
    held.release().await.unwrap();
    // Its session ends there, and with that its place in the line.
    while line().await + usize::from(holder.inspect("k").await.unwrap().holder().is_some()) > 0 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(!waiting.is_finished(), "granted without a majority");
    ensemble.heal();
    let guard = waiting.await.unwrap().unwrap();
    assert!(guard.token() > token && guard.is_held());
    guard.release().await.unwrap();
}

/// The same for a leader. Who follows at the server that was cut off hears of the next one once that is
/// back.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_at_a_follower_that_is_cut_off_steps_down_before_the_next_one_leads() {
    let ensemble = ZooKeeperEnsemble::start(3);
    let followers = ensemble.followers();
    let old = connect(&(ensemble.url_of(followers[0]) + "?session=4s")).await;
    let new = connect(&(ensemble.url_of(followers[1]) + "?session=4s")).await;
    let term = old.election("jobs").run_for("old").await.expect("a free election");
    let next = tokio::spawn({
        let next = new.election("jobs").run_for("new");
        async move { (next.await.expect("it leads"), Instant::now()) }
    });
    eventually("the next waits", || new.stats().waiters == 1).await;
    eventually("the leader has renewed", || old.stats().renewals > 0).await;
    let mut leaders = new.election("jobs").observe();
    let leader = leaders.next().await.expect("it goes on").expect("an answer");
    assert_eq!(leader.map(|leader| leader.value).as_deref(), Some("old"));
    ensemble.cut_from_leader(followers[0]);
    let lost = term.lost().await;
    let told = Instant::now();
    assert_eq!(lost.reason(), LossReason::Expired, "by the clock, without any word");
    assert!(!term.is_leader());
    let (next, led) = next.await.expect("a task");
    assert!(told < led, "told {:?} after the next one led", told - led);
    assert!(next.token() > term.token());
    while leaders
        .next()
        .await
        .expect("it goes on")
        .expect("an answer")
        .map(|it| it.value)
        .as_deref()
        != Some("new")
    {}
    ensemble.heal();
    let mut leaders = old.election("jobs").observe();
    let back = async {
        loop {
            if let Some(Ok(Some(leader))) = leaders.next().await
                && &*leader.value == "new"
            {
                return leader;
            }
        }
    };
    let leader = tests::wait::within("the one that was cut off hears of it", back).await;
    assert_eq!(leader.token, Some(next.token()));
    next.resign().await.expect("a resignation");
}
