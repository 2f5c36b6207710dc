//! Servers that are one quorum, and those that are not.

use lock_core::LockClient;
use lock_core::error::ConnectError;
use tests::proxy::Proxy;
use tests::redis::{RedisOptions, RedisServer};
use tests::wait::eventually;

use crate::support::*;

async fn refusal(url: &str) -> String {
    match LockClient::connect(url).await.unwrap_err() {
        ConnectError::Store(fault) => {
            assert!(!fault.is_transient(), "{fault}");
            fault.to_string()
        }
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn a_client_of_another_list_is_refused_and_told_both() {
    let servers = Servers::start(4);
    let list = |places: &[usize], query| {
        url_of(places.iter().map(|&place| servers.all[place].addr()), query)
    };
    let one = list(&[0, 1, 2], "lease_max=2s");
    let locks = LockClient::connect(&one).await.unwrap();
    // In another order it is the same.
    LockClient::connect(&list(&[2, 0, 1], "lease_max=2s")).await.unwrap();
    for other in [
        list(&[2, 3, 1], "lease_max=2s"),
        list(&[0, 1, 2], "lease_max=3s"),
        list(&[0, 1, 2], "lease_max=2s&name=another"),
    ] {
        let text = refusal(&other).await;
        let mut ours: Vec<_> =
            servers.all[..3].iter().map(|server| server.addr().to_string()).collect();
        ours.sort_unstable();
        assert!(text.contains(&ours.join(",")) && text.contains("this client"), "{text}");
    }
    assert_eq!(servers.enrolment(3), None, "nobody makes it a member of two");
    drop(lock(&locks, "k").await);
}

#[tokio::test]
async fn it_connects_with_a_member_away_and_the_member_comes_later() {
    let mut servers = Servers::start(3);
    let founder = servers.ready().await;
    drop(lock(&founder, "k").await);
    servers.all[0].kill();
    let locks = servers.client().await;
    drop(lock(&locks, "k").await);
    let before = servers.enrolment(1).expect("a member");
    servers.all[0].restart();
    servers.repaired(0, &before).await;
    servers.all[2].kill();
    drop(lock(&locks, "k").await);
}

#[tokio::test]
async fn without_a_majority_it_does_not_connect_and_no_error_shows_the_password() {
    let options = RedisOptions::new().requirepass("hush");
    let mut servers = Servers::with(3, &options);
    let url = servers.url().replace("redlock://", "redlock://:hush@");
    let locks = LockClient::connect(&url).await.unwrap();
    assert!(!format!("{locks:?}").contains("hush"));
    let wrong = servers.url().replace("redlock://", "redlock://:hushed@");
    let text = refusal(&wrong).await;
    let name = servers.all[0].addr().to_string();
    assert!(text.contains(&name) && !text.contains("hushed"), "{text}");
    servers.all[0].kill();
    servers.all[1].kill();
    let error = LockClient::connect(&url).await.unwrap_err();
    let text = format!("{error} {error:?}");
    assert!(text.contains(&name) && !text.contains("hush"), "{text}");
    assert!(matches!(error, ConnectError::Store(fault) if fault.is_transient()));
}

#[tokio::test]
async fn a_member_without_the_right_to_info_is_refused_by_name_of_the_right() {
    let user = "user u on >p ~lock:* &lock:push:* +@all -info";
    let servers = Servers::with(3, &RedisOptions::new().acl([user]));
    let text = refusal(&servers.url().replace("redlock://", "redlock://u:p@")).await;
    assert!(text.contains("+info"), "{text}");
}

#[tokio::test]
async fn the_rights_of_the_page_and_info_are_enough_for_a_whole_life_of_a_lock() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/redis-acl.md");
    let page = std::fs::read_to_string(page).expect("the page of the rights");
    let line = page.lines().find(|line| line.starts_with("user locks on")).expect("its line");
    let line = format!("{} +info", line.replace(">CHANGE-ME", ">p"));
    let mut servers = Servers::with(3, &RedisOptions::new().acl([line]));
    let url = servers.url().replace("redlock://", "redlock://locks:p@");
    let locks = LockClient::connect(&url).await.unwrap();
    let guard = lock(&locks, "k").await;
    let other = tokio::spawn(locks.lock("k").options(options()).acquire());
    eventually("a renewal", || locks.stats().renewals > 0).await;
    guard.release().await.unwrap();
    drop(other.await.unwrap().unwrap());
    let before = servers.enrolment(0).expect("a member");
    servers.all[0].restart();
    // The member is asked about a key that no claim is open for any more.
    drop(lock(&locks, "another").await);
    servers.repaired(0, &before).await;
}

/// F06, F07: what is lost on the way to a member is found again, at each.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replies_and_requests_that_members_lose_cost_no_grant_and_leave_nothing() {
    use tests::proxy::{Action, Match};
    let servers = Servers::start(3);
    let proxies: Vec<_> = servers.all.iter().map(|server| Proxy::start(server.addr())).collect();
    let url = url_of(proxies.iter().map(Proxy::addr), "lease_max=1500ms");
    let locks = LockClient::connect(&url).await.unwrap();
    let mut last = lock(&locks, "k").await.token();
    for action in [Action::SwallowReply, Action::DropRequest] {
        for lossy in [&proxies[..1], &proxies[1..], &proxies[..]] {
            let traps: Vec<_> =
                lossy.iter().map(|proxy| proxy.trap(Match::verb("EVALSHA"), action)).collect();
            let guard = lock(&locks, "k").await;
            assert!(guard.token() > last, "a finding of safety: {} after {last}", guard.token());
            last = guard.token();
            drop(traps);
            drop(guard.release().await);
        }
    }
    eventually("nothing is left", || servers.left().is_empty()).await;
    drop(servers.all.iter().map(RedisServer::port));
}
