//! Curator's `LeaderLatch` and our elections: one leader, in one line, whom both languages know.

use lock_core::LockClient;
use lock_core::futures::Observe;
use lock_core::view::Leader;
use tests::clock::now_ns;
use tests::curator::Recipe::Latch;
use tests::proxy::Proxy;
use tests::wait::{PATIENCE, eventually, within};

use crate::support::*;

impl Both {
    async fn candidates(&self, count: usize) {
        let what = format!("{count} candidates");
        eventually(&what, || self.server.children(PATH).len() == count).await;
    }
}

/// The first item that names this leader; those before it may be of the past.
async fn led_by(leaders: &mut Observe, value: Option<&str>) -> Option<Leader> {
    let named = async {
        loop {
            let leader = leaders.next().await.expect("it goes on").expect("an answer");
            if leader.as_ref().map(|leader| &*leader.value) == value {
                return leader;
            }
        }
    };
    within("the leader", named).await
}

#[tokio::test]
async fn java_and_rust_lead_in_their_order_and_know_each_other() {
    let both = both().await;
    let election = both.rust.election(KEY);
    let mut leaders = election.observe();
    led_by(&mut leaders, None).await;
    both.java.acquire_as(Latch("java-1"), "j", PATH, PATIENCE).await.unwrap().expect("the lead");
    let theirs = led_by(&mut leaders, Some("java-1")).await.expect("a leader");
    assert!(election.try_run_for("late").await.unwrap().is_none());
    let ours = tokio::spawn(election.run_for("rust-1"));
    both.candidates(2).await;
    let next = both.java.acquire_as(Latch("java-2"), "next", PATH, PATIENCE);
    both.candidates(3).await;
    assert_eq!(both.java.leader(PATH).await.unwrap().as_deref(), Some("java-1"));
    both.java.release("j").await.unwrap();
    let term = within("our turn", ours).await.unwrap().unwrap();
    let leader = led_by(&mut leaders, Some("rust-1")).await.expect("a leader");
    assert_eq!(leader.token, Some(term.token()));
    assert!(leader.token > theirs.token);
    assert_eq!(both.java.leader(PATH).await.unwrap().as_deref(), Some("rust-1"));
    assert!(!both.java.is_held("next").await.unwrap());
    let resigned_ns = now_ns();
    term.resign().await.unwrap();
    let led = within("Java's turn", next).await.unwrap().expect("the lead");
    assert!(led.t_ns > resigned_ns);
    led_by(&mut leaders, Some("java-2")).await;
    both.java.release("next").await.unwrap();
    led_by(&mut leaders, None).await;
    drop(leaders);
    both.nobody_is_left().await;
}

#[tokio::test]
async fn a_leader_in_java_that_is_killed_is_followed_by_one_of_ours() {
    let mut both = both().await;
    let mut leaders = both.rust.election(KEY).observe();
    both.java.acquire_as(Latch("java"), "j", PATH, PATIENCE).await.unwrap().expect("the lead");
    let theirs = led_by(&mut leaders, Some("java")).await.expect("a leader");
    let ours = tokio::spawn(both.rust.election(KEY).run_for("rust"));
    both.candidates(2).await;
    both.java.kill().await;
    let term = within("our turn", ours).await.unwrap().unwrap();
    assert!(Some(term.token()) > theirs.token);
    led_by(&mut leaders, Some("rust")).await;
    term.resign().await.unwrap();
    drop(leaders);
    both.nobody_is_left().await;
}

/// It hears nothing, so it is told by its clock, before Java can lead.
#[tokio::test]
async fn a_leader_of_ours_that_is_cut_off_steps_down_before_java_leads() {
    let both = both().await;
    let proxy = Proxy::zookeeper(both.server.addr());
    let cut = LockClient::connect(&(proxy.url() + "/locks?session=4s")).await.unwrap();
    let term = cut.election(KEY).run_for("rust").await.unwrap();
    let next = both.java.acquire_as(Latch("java"), "j", PATH, PATIENCE);
    both.candidates(2).await;
    proxy.black_hole();
    within("the word", term.lost()).await;
    let told_ns = now_ns();
    assert!(!term.is_leader());
    let led = within("Java's turn", next).await.unwrap().expect("the lead");
    assert!(told_ns < led.t_ns, "Java led {} ns before", told_ns - led.t_ns);
    proxy.reset();
    proxy.resume();
    // It is back, and its term is not.
    let again = tokio::spawn(cut.election(KEY).run_for("rust again"));
    both.candidates(2).await;
    assert!(!term.is_leader() && !again.is_finished());
    assert_eq!(both.java.leader(PATH).await.unwrap().as_deref(), Some("java"));
    both.java.release("j").await.unwrap();
    let again = within("its turn", again).await.unwrap().unwrap();
    assert!(again.token() > term.token());
    drop((term, again));
    both.nobody_is_left().await;
}
