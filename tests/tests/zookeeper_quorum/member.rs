//! One server as a member: its token counters, asked by claims directly.

use lock_core::Key;
use lock_core::backend::{
    Attempt, Backend, Claim, ClaimId, MemberClaim, Renewal, Terms, TokenBlock, Withdrawal,
};
use lock_core::zookeeper::ZooKeeper;
use tests::proxy::{Action, Match, Proxy};
use tests::wait::{eventually, within};
use tests::zookeeper::ZooKeeperServer;

use crate::support::*;

const KEY: &str = "k";

/// The number that the counters of this file begin at.
const CLOCK: u64 = 1_000_000;

type ZooKeeperClaim = <ZooKeeper as Backend>::Claim;

/// A claim on [`KEY`] that reserves eight tokens up to `clock`.
fn claim(member: &ZooKeeper, clock: u64) -> ZooKeeperClaim {
    claim_on(KEY, member, clock)
}

fn claim_on(key: &str, member: &ZooKeeper, clock: u64) -> ZooKeeperClaim {
    let terms = Terms { tokens_max: 8, ..Terms::exclusive(ms(60_000)) };
    let id = ClaimId::from_bits(fastrand::u128(..));
    let mut claim = member.claim(&Key::new(key).expect("a good key"), id, terms);
    claim.count_from(clock);
    claim
}

/// Asks once, and is granted.
async fn granted(claim: &mut ZooKeeperClaim) -> TokenBlock {
    match claim.attempt().await.expect("an answer") {
        Attempt::Granted(grant) => grant.tokens,
        blocked => panic!("{blocked:?}"),
    }
}

/// Asks until it is granted, through lost links too.
async fn eventually_granted(claim: &mut ZooKeeperClaim) -> TokenBlock {
    let asking = async {
        loop {
            if let Ok(Attempt::Granted(grant)) = claim.attempt().await {
                return grant.tokens;
            }
            tokio::time::sleep(ms(2)).await;
        }
    };
    within("a grant", asking).await
}

/// The same of a raise.
async fn eventually_raised(claim: &mut ZooKeeperClaim, to: u64) -> bool {
    let asking = async {
        loop {
            if let Ok(raised) = claim.raise(to).await {
                return raised;
            }
            tokio::time::sleep(ms(2)).await;
        }
    };
    within("an answer to a raise", asking).await
}

async fn blocked(claim: &mut ZooKeeperClaim) {
    let answer = claim.attempt().await.expect("an answer");
    assert!(matches!(answer, Attempt::Blocked { .. }), "{answer:?}");
}

/// The last token of the one counter that there is.
fn counter(server: &ZooKeeperServer) -> u64 {
    let counters = server.tree("/{lock-tokens}");
    let [_, counter] = &*counters else { panic!("one counter, not {counters:?}") };
    let text = String::from_utf8(counter.data.clone()).unwrap();
    text.split(':').next().unwrap().parse().unwrap()
}

fn block(tokens: TokenBlock) -> (u64, u64) {
    (tokens.first().unwrap(), tokens.last().unwrap())
}

/// The next move of a counter.
fn a_move() -> Match {
    Match::verb("MULTI").containing("{lock-tokens}")
}

/// V2: a block ends at the clock that the claim was told, above all before it; where the clock is
/// behind the counter there is one token, or where it is far behind, a block ahead of it.
#[tokio::test]
async fn blocks_end_at_the_clock_of_the_quorum_and_never_go_back() {
    let server = one().await;
    let member = server.member();
    let mut given = 0;
    for (clock, expected) in [
        (CLOCK, (CLOCK, CLOCK)),
        (CLOCK + 100, (CLOCK + 93, CLOCK + 100)),
        (CLOCK + 103, (CLOCK + 101, CLOCK + 103)),
        (CLOCK + 50, (CLOCK + 104, CLOCK + 104)),
        (CLOCK * 100, (CLOCK * 100 - 7, CLOCK * 100)),
        (CLOCK, (CLOCK * 100 + 1, CLOCK * 100 + 8)),
    ] {
        let mut claim = claim(&member, clock);
        let tokens = block(granted(&mut claim).await);
        assert_eq!(tokens, expected, "at {clock}");
        assert!(tokens.0 > given && counter(&server) == tokens.1);
        given = tokens.1;
        assert_eq!(block(granted(&mut claim).await), tokens, "asked again");
        assert_eq!(claim.withdraw().await.unwrap(), Withdrawal::Released);
    }
}

/// V2: only who holds the key moves its counter, under the grant that it was told of.
#[tokio::test]
async fn a_raise_is_refused_to_a_claim_that_does_not_hold_the_key() {
    let server = one().await;
    let member = server.member();
    let (mut holder, mut waiter) = (claim(&member, CLOCK), claim(&member, CLOCK));
    assert!(!holder.raise(CLOCK + 1).await.unwrap(), "it has not asked");
    granted(&mut holder).await;
    blocked(&mut waiter).await;
    assert!(!waiter.raise(CLOCK + 1).await.unwrap(), "it waits");
    assert_eq!(counter(&server), CLOCK);
    // Taken away by an operator: the claim has not heard of it.
    assert!(member.force_release(&Key::new(KEY).unwrap()).await.unwrap());
    assert!(!holder.raise(CLOCK + 1).await.unwrap(), "it was taken away");
    assert_eq!(counter(&server), CLOCK);
    eventually_granted(&mut waiter).await;
    let last = counter(&server);
    assert!(!holder.raise(last + 9).await.unwrap(), "another holds it");
    assert_eq!(holder.renew().await.unwrap(), Renewal::Lost);
    assert_eq!(waiter.withdraw().await.unwrap(), Withdrawal::Released);
    assert!(!waiter.raise(last + 9).await.unwrap(), "it has withdrawn");
    assert_eq!(counter(&server), last);
}

/// V2: a counter is moved up and never down, by its holder.
#[tokio::test]
async fn a_raise_moves_the_counter_up_and_the_next_grant_is_above_it() {
    let server = one().await;
    let member = server.member();
    let mut holder = claim(&member, CLOCK);
    let tokens = granted(&mut holder).await;
    assert!(holder.raise(CLOCK + 500).await.unwrap());
    assert_eq!(counter(&server), CLOCK + 500);
    for lower in [CLOCK + 500, CLOCK + 499, 1] {
        assert!(holder.raise(lower).await.unwrap(), "it is there already");
        assert_eq!(counter(&server), CLOCK + 500);
    }
    assert_eq!(granted(&mut holder).await, tokens, "the tokens stay those of the grant");
    holder.withdraw().await.unwrap();
    let mut next = claim(&member, CLOCK + 1);
    assert_eq!(block(granted(&mut next).await), (CLOCK + 501, CLOCK + 501));
    next.withdraw().await.unwrap();
}

/// F11 (V2): the counter was moved and nobody was told: the claim finds its own block in it.
#[tokio::test]
async fn a_move_whose_reply_was_lost_gives_the_same_tokens_when_asked_again() {
    let server = one().await;
    let proxy = Proxy::zookeeper(server.addr());
    let member = member_at(&proxy.url(), LONG);
    // The first makes the directory.
    let mut first = claim(&member, CLOCK);
    granted(&mut first).await;
    first.withdraw().await.unwrap();
    let mut clock = CLOCK;
    for action in [Action::SwallowReply, Action::DropRequest] {
        clock += 1_000;
        let trap = proxy.trap(a_move(), action);
        let mut unlucky = claim(&member, clock);
        let lost = unlucky.attempt().await.unwrap_err();
        assert!(trap.has_sprung() && lost.is_transient(), "{lost}");
        let moved = counter(&server);
        assert_eq!(moved == clock, action == Action::SwallowReply);
        unlucky.count_from(clock + 100);
        let tokens = eventually_granted(&mut unlucky).await;
        let last = if action == Action::SwallowReply { clock } else { clock + 100 };
        assert_eq!(block(tokens), (last - 7, last));
        assert_eq!(counter(&server), last);
        // The same of a raise: asked again it is done once.
        let trap = proxy.trap(a_move(), action);
        assert!(unlucky.raise(last + 300).await.is_err() && trap.has_sprung());
        assert!(eventually_raised(&mut unlucky, last + 300).await);
        assert_eq!(counter(&server), last + 300);
        assert_eq!(unlucky.withdraw().await.unwrap(), Withdrawal::Released);
    }
}

/// V2: what an unlucky claim reserved and was never told is given to nobody.
#[tokio::test]
async fn a_block_that_was_lost_is_not_given_to_another() {
    let server = one().await;
    let proxy = Proxy::zookeeper(server.addr());
    let (behind, member) = (member_at(&proxy.url(), LONG), server.member());
    let mut first = claim(&member, CLOCK);
    granted(&mut first).await;
    first.withdraw().await.unwrap();
    let trap = proxy.trap(a_move(), Action::SwallowReply);
    let mut unlucky = claim(&behind, CLOCK + 100);
    assert!(unlucky.attempt().await.is_err() && trap.has_sprung());
    unlucky.withdraw().await.unwrap();
    let mut next = claim(&member, CLOCK + 100);
    assert_eq!(block(granted(&mut next).await), (CLOCK + 101, CLOCK + 101));
    next.withdraw().await.unwrap();
}

/// V6: three thousand keys, and no more counters than were promised.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_more_counters_than_promised_are_left_of_many_keys() {
    let server = one().await;
    let member = server.member();
    let mut claims = Vec::new();
    for number in 0..3_000 {
        let mut claim = claim_on(&format!("k{number}"), &member, CLOCK);
        claims.push(tokio::spawn(async move {
            eventually_granted(&mut claim).await;
            while claim.withdraw().await.is_err() {}
        }));
        if number % 50 == 49 {
            for claim in claims.drain(..) {
                claim.await.unwrap();
            }
        }
    }
    drop(member);
    eventually("only counters are left", || server.children("/").len() == 2).await;
    let counters = server.children("/{lock-tokens}").len();
    assert!((500..=1_024).contains(&counters), "{counters}");
}
