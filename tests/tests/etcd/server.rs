//! Answers that a server can be made to give.

use lock_core::backend::FaultKind;
use lock_core::error::ConnectError;
use lock_core::{AcquireError, LockClient, LockOptions, Mode};
use tests::etcd::{EtcdOptions, EtcdServer};
use tests::proxy::{Action, Match, Proxy};
use tests::said::everything;
use tests::wait::{eventually, within};

use crate::support::*;

/// The lease of a session is over before its first use, as on a machine that stood still: another one
/// is opened.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_whose_lease_is_over_before_its_first_use_is_opened_anew() {
    let server = EtcdServer::start();
    let proxy = Proxy::etcd(server.addr());
    let first = Match::verb("PUT").containing("{lock-sessions}/");
    let trap = proxy.trap(first, Action::HoldRequest);
    let url = format!("{}/p?session=5s", proxy.url());
    let connecting = tokio::spawn(async move { LockClient::connect(&url).await });
    trap.sprung().await;
    let leases = server.leases();
    assert_eq!(leases.len(), 1);
    server.revoke(leases[0]);
    trap.release();
    let ours = within("a session", connecting).await.expect("no panic").expect("a session");
    ours.lock("k").await.expect("a free key").release().await.expect("a release");
    assert!(!server.leases().contains(&leases[0]));
}

/// F25, V2: what a waiter waits for is older than what the server remembers.
#[tokio::test]
async fn a_compaction_while_one_waits_costs_no_grant() {
    let server = EtcdServer::start();
    let (one, two) = (client_at(&server, "p").await, client_at(&server, "p").await);
    let guard = one.lock("k").await.expect("a free key");
    let next = tokio::spawn(two.lock("k").acquire());
    eventually("it waits", || server.keys("p/k").len() == 2).await;
    server.put("other", "1");
    server.compact();
    guard.release().await.expect("a release");
    let next = within("the next", next).await.expect("no panic").expect("a grant");
    next.release().await.expect("a release");
}

/// F30, V1, V2: a hold goes on while the database is full, is given back, and the next is granted
/// once there is room.
#[tokio::test]
async fn a_full_database_costs_no_hold() {
    let server = EtcdServer::start();
    let (ours, theirs) = (client_at(&server, "p").await, client_at(&server, "p").await);
    let guard = ours.lock("k").await.expect("a free key");
    let next = tokio::spawn(theirs.lock("k").acquire());
    eventually("it waits", || server.keys("p/k").len() == 2).await;
    server.is_full(true);
    let once = LockOptions::new().with_wait(ms(3_000)).with_lease(ms(30_000));
    let error = ours.lock("other").options(once).await.expect_err("nothing can be written");
    assert!(everything(&error).contains("database of etcd is full"), "{error:?}");
    assert!(guard.is_held());
    guard.release().await.expect("a release");
    let next = within("the next", next).await.expect("no panic").expect("a grant");
    next.release().await.expect("a release");
    eventually("it is free", || server.keys("p/k").is_empty()).await;
    server.is_full(false);
    let again = within("a free key", ours.lock("k").acquire()).await.expect("a grant");
    again.release().await.expect("a release");
}

/// F11, F28, V6: the answer to a claim is lost, and then the database is full. No new epoch can be
/// written then, and what the claim has put into the line is deleted all the same. That costs no hold,
/// also where the epoch had ended before, and once there is room the client goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_in_doubt_is_deleted_from_a_full_database() {
    let server = EtcdServer::start();
    let proxy = Proxy::etcd(server.addr());
    let ours = connect(&format!("{}/p", proxy.url()), ms(30_000)).await;
    let held = ours.lock("held").await.expect("a free key");
    // What becomes of the second is settled in the epoch that the first has ended.
    for key in ["k", "other"] {
        let line = format!("p/{key}/");
        let asks = proxy.trap(Match::verb("PUT").containing(&line), Action::HoldReply);
        let claim = tokio::spawn(ours.lock(key).acquire());
        asks.sprung().await;
        server.is_full(true);
        let looks = proxy.trap(Match::any().but("PUT").containing(&line), Action::HoldReply);
        proxy.cut();
        claim.abort();
        drop(claim.await);
        looks.sprung().await;
        looks.release();
        eventually("the line is empty", || server.keys(&line).is_empty()).await;
    }
    assert!(held.is_held());
    server.is_full(false);
    for mode in [Mode::Permit { of: 2 }, Mode::Shared, Mode::Exclusive] {
        let mut options = LockOptions::new().with_wait(ms(9_000));
        options.mode = mode;
        let again = within("a free key", ours.lock("k").options(options).acquire()).await;
        again.expect("a grant").release().await.expect("a release");
    }
    held.release().await.expect("a release");
}

/// F30, V2: a write that was let in while there was room is carried out, and told that there is none.
/// What a claim has put into a line so does not stay there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_written_as_the_database_became_full_is_left_in_no_line() {
    const FILLERS: usize = 8;
    const CLAIMS: usize = 64;
    // Each write is counted at once, and not with those of the next 100 ms.
    let options = EtcdOptions::new().set("quota-backend-bytes", "8388608");
    let server = EtcdServer::with(options.set("backend-batch-limit", "1"));
    let ours = client_at(&server, "p").await;
    ours.lock("k").await.expect("a free key").release().await.expect("a release");
    let claims = (0..CLAIMS).map(|n| {
        let ours = ours.clone();
        tokio::spawn(async move {
            let once = LockOptions::new().with_wait(ms(3_000)).with_retries(0);
            while let Ok(guard) = ours.lock(format!("k:{n}")).options(once).await {
                // It is told once it is done.
                let _ = guard.release().await;
            }
        })
    });
    let claims: Vec<_> = claims.collect();
    std::thread::scope(|scope| {
        for n in 0..FILLERS {
            let (server, value) = (&server, "x".repeat(256 << 10));
            scope.spawn(move || {
                let mut puts = 0;
                while server.try_put(&format!("filler/{n}/{puts}"), &value).is_ok() {
                    puts += 1;
                }
            });
        }
    });
    for claim in claims {
        within("the end of a claim", claim).await.expect("no panic");
    }
    let left = || server.keys("p/").into_iter().map(|kv| kv.key);
    let is_clean = || left().all(|key| key.starts_with("p/{lock-sessions}"));
    eventually("nothing is left in a line", is_clean).await;
}

/// F31: a wrong password is told at once and nowhere, a right one serves, also with a token that the
/// server has forgotten.
#[tokio::test]
async fn a_login_is_refused_or_renewed() {
    let mut server = EtcdServer::start();
    server.enable_auth();
    let url = |login: &str| format!("etcd://{login}{}/p?session=5s", server.addr());
    for (login, says) in
        [("root:hunter2@", "refuses the user or the password"), ("", "authentication enabled")]
    {
        let error = LockClient::connect(&url(login)).await.expect_err("it is refused");
        let ConnectError::Store(fault) = &error else { panic!("{error:?}") };
        assert_eq!(fault.kind(), FaultKind::Refused);
        let all = everything(&error);
        assert!(all.contains(says) && !all.contains("hunter2"), "{all}");
    }
    let ours = LockClient::connect(&url("root:secret@")).await.expect("it is let in");
    ours.lock("k").await.expect("a grant").release().await.expect("a release");
    // It forgets its tokens with a restart.
    server.restart();
    let again = within("a new token", ours.lock("k").acquire()).await.expect("a grant");
    again.release().await.expect("a release");
}

/// F31, V2: logins end while one waits. The next watch has a new one, so that its end is told at
/// once: who waits looks again after 200 s only, and asks little meanwhile.
#[tokio::test]
async fn a_watch_has_the_login_of_now() {
    let server = EtcdServer::start();
    server.enable_auth();
    let url = format!("etcd://root:secret@{}/p?session=600s", server.addr());
    let (one, two) = (connect(&url, ms(600_000)).await, connect(&url, ms(600_000)).await);
    for is_ended in [false, true] {
        let guard = one.lock("k").await.expect("a free key");
        if is_ended {
            // The stream of watches is that of the first round, and so is its login.
            server.end_logins();
        }
        let wait = LockOptions::new().with_wait(ms(600_000)).with_lease(ms(600_000));
        let next = tokio::spawn(two.lock("k").options(wait).acquire());
        while one.inspect("k").await.expect("an inspection").waiters.is_empty() {
            tokio::time::sleep(ms(5)).await;
        }
        guard.release().await.expect("a release");
        let next = within("the next", next).await.expect("no panic").expect("a grant");
        next.release().await.expect("a release");
    }
    let requests = two.stats().store_requests;
    assert!(requests < 60, "{requests} requests of one who waits");
}

/// F31: logins are asked for while a client runs. One that has a password uses it from then on, and
/// one that has none is told.
#[tokio::test]
async fn a_login_that_becomes_needed_is_used_or_missed() {
    let server = EtcdServer::start();
    let url = |login: &str| format!("etcd://{login}{}/p?session=5s", server.addr());
    let with = connect(&url("root:secret@"), ms(30_000)).await;
    let without = connect(&url(""), ms(30_000)).await;
    let guard = with.lock("k").await.expect("a grant");
    server.enable_auth();
    guard.release().await.expect("a release");
    let again = within("a grant", with.lock("k").acquire()).await.expect("a grant");
    let error = within("an answer", without.lock("k").acquire()).await.expect_err("it is refused");
    assert!(everything(&error).contains("authentication enabled"), "{error:?}");
    again.release().await.expect("a release");
}

/// F29, V4: a backup is restored, so revisions go back. Who saw the higher ones is told that its lock
/// is lost, and is granted nothing until they are passed: no token of it is given to another.
#[tokio::test]
async fn a_restored_backup_is_told_and_no_token_is_granted_again() {
    let mut server = EtcdServer::start();
    let ours = client_at(&server, "p").await;
    ours.lock("k").await.expect("a free key").release().await.expect("a release");
    let backup = server.save();
    for _ in 0..20 {
        ours.lock("k").await.expect("a free key").release().await.expect("a release");
    }
    let held = ours.lock("k").await.expect("a free key");
    server.restore(&backup);
    within("the loss", held.lost()).await;
    let error = within("an answer", ours.lock("k").acquire()).await.expect_err("it is refused");
    assert!(everything(&error).contains("restored from a backup"), "{error:?}");
    // One that has seen nothing cannot know.
    let stranger = client_at(&server, "p").await;
    let low = within("a free key", stranger.lock("k").acquire()).await.expect("a grant");
    assert!(low.token() < held.token());
    low.release().await.expect("a release");
    for n in 0..100 {
        server.put("other", &n.to_string());
    }
    let next = within("a free key", ours.lock("k").acquire()).await.expect("a grant");
    assert!(next.token() > held.token());
    next.release().await.expect("a release");
    eventually("nothing is left", || server.keys("p/k").is_empty()).await;
}

/// F33, V1: the key `b` under the path `a`, and all keys under the path `a/b`, have nothing to do with
/// each other, whether those are held, waited for, tried or led.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_below_another_path_is_another_lock() {
    let path = path();
    let (above, below) = (client(&path).await, client(&format!("{path}/b")).await);
    let held = below.lock("k").await.expect("a free key");
    let term = within("a term", below.election("e").run_for("below")).await.expect("a term");
    let alone = above.lock("b").try_acquire().await.expect("an answer").expect("a free key");
    let rival = client(&path).await;
    let waits = tokio::spawn(rival.lock("b").acquire());
    eventually("it waits", || {
        let line = SERVER.keys(&format!("{path}/b/"));
        line.iter().filter(|found| found.key.matches('/').count() == 4).count() == 2
    })
    .await;
    assert!(below.lock("k").try_acquire().await.expect("an answer").is_none());
    alone.release().await.expect("a release");
    let next = within("the next", waits).await.expect("no panic").expect("a grant");
    next.release().await.expect("a release");
    for mode in [Mode::Shared, Mode::Permit { of: 2 }] {
        let mut options = LockOptions::new().with_wait(ms(9_000)).with_lease(ms(30_000));
        options.mode = mode;
        let tried = above.lock("b").options(options).try_acquire().await.expect("an answer");
        tried.expect("a free key").release().await.expect("a release");
        let waited = within("a free key", above.lock("b").options(options).acquire()).await;
        waited.expect("a grant").release().await.expect("a release");
    }
    let mut leaders = above.election("b").observe();
    let seen = within("an answer", leaders.next()).await.expect("a client");
    assert!(seen.expect("an answer").is_none(), "one who leads below leads nothing here");
    assert!(!above.force_release("b").await.expect("an answer"));
    assert!(held.is_held());
    term.resign().await.expect("a resignation");
    held.release().await.expect("a release");
}

/// F32: over TLS with a certificate of its own; never in the clear, nor to a stranger.
#[tokio::test]
async fn tls_serves_locks_and_refuses_a_server_that_nobody_vouches_for() {
    let server = EtcdServer::with(EtcdOptions::new().tls());
    let file = |name: &str| server.file(name).display().to_string();
    let who = format!("&cert={}&key={}", file("server.pem"), file("server.key"));
    let url = format!("etcd+tls://{}/p?ca={}", server.addr(), file("ca.pem"));
    let ours = LockClient::connect(&(url.clone() + &who)).await.expect("both are vouched for");
    ours.lock("k").await.expect("a grant").release().await.expect("a release");
    let stranger = EtcdServer::unstarted_with_certificates();
    let foreign = format!("etcd+tls://{}/p?ca={}", server.addr(), stranger.ca().display());
    for refused in [url, foreign + &who, format!("etcd://{}/p", server.addr())] {
        LockClient::connect(&refused).await.expect_err("no TLS, or not with these");
    }
    drop(stranger);
}

/// F34: something foreign in the line is a claim on the key alone, and is left as it is.
#[tokio::test]
async fn a_foreign_key_in_the_line_is_a_holder() {
    let path = path();
    let ours = client(&path).await;
    SERVER.put(&format!("{path}/k/theirs"), "a value");
    let once = LockOptions::new().with_wait(ms(3_000)).with_lease(ms(30_000));
    let error = ours.lock("k").options(once).await.expect_err("it is held");
    assert!(matches!(error, AcquireError::Timeout(_)), "{error:?}");
    let seen = ours.inspect("k").await.expect("an inspection");
    assert_eq!(seen.holder().map(|holder| &*holder.claim), Some("theirs"));
    assert_eq!(SERVER.keys(&format!("{path}/k/"))[0].value, "a value");
    assert!(ours.force_release("k").await.expect("an answer"));
    ours.lock("k").await.expect("a grant").release().await.expect("a release");
}

/// V5: somebody writes the session's own key, as a request of ours does that arrives late. Tries and
/// permits go on, too, which stand in no line.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_key_that_was_written_costs_no_try_and_no_permit() {
    let path = path();
    let ours = client(&path).await;
    ours.lock("k").await.expect("a grant").release().await.expect("a release");
    let sessions = SERVER.keys(&format!("{path}/{{lock-sessions}}/"));
    let [session] = &sessions[..] else { panic!("{} sessions", sessions.len()) };
    for n in 0..2 {
        SERVER.put(&session.key, "theirs");
        let guard = match n {
            0 => ours.lock("k").try_acquire().await,
            _ => ours.lock("k").permits(3).try_acquire().await,
        };
        guard.expect("an answer").expect("a free key").release().await.expect("a release");
    }
}
