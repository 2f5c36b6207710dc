//! `replicas`: a grant that waits for them.

use tests::stalls::Stopwatch;

use lock_core::{AcquireError, LockClient};

use crate::support::*;

/// F08 (V8): without replicas in step a grant is given back, and the error names key, number and
/// time; with them it is made.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_that_no_replica_acknowledges_is_given_back_and_told_as_such() {
    let (_turn, set) = a_set_with(to_cut()).await;
    let master = set.master();
    let locks = connect(&set.url(), ms(30_000)).await;
    let guard = locks.lock("k").replicas(2, ms(1_000)).retries(20).await.unwrap();
    assert!(guard.is_held());
    guard.release().await.unwrap();
    // A replica of a busy machine may be late.
    let told = async {
        loop {
            let error = locks.lock("k").replicas(3, ms(200)).await.unwrap_err();
            let AcquireError::NotReplicated(why) = &error else { panic!("{error:?}") };
            assert_eq!((why.wanted(), why.timeout()), (3, ms(200)));
            if why.acknowledged() == 2 {
                return;
            }
        }
    };
    within("both acknowledge", told).await;
    cut(&set, master).await;
    let start = Stopwatch::start();
    let error = locks.lock("k").replicas(1, ms(200)).await.unwrap_err();
    assert!(start.elapsed() >= ms(200) && start.own() < ms(200) + LATE);
    let AcquireError::NotReplicated(why) = &error else { panic!("{error:?}") };
    assert_eq!((why.wanted(), why.acknowledged()), (1, 0));
    assert!(error.is_retryable() && !error.is_unavailable());
    let text = error.to_string();
    assert!(text.contains("`k`") && text.contains("0 of 1") && text.contains("200ms"), "{text}");
    eventually("it is given back", || set.server(master).key("lock:{k}").is_none()).await;
    // The same key, for one who does not ask for them.
    locks.lock("k").await.unwrap().release().await.unwrap();
    // A try that failed so is tried again.
    let retrying = locks.lock("k").replicas(2, ms(50)).retries(100);
    let retrying = tokio::spawn(retrying.acquire());
    heal(&set, &set.others(master));
    set.in_step(master, 2).await;
    within("a grant", retrying).await.unwrap().unwrap().release().await.unwrap();
    nothing_left(&set, &[master], [locks]).await;
}

/// A grant that both replicas have acknowledged outlives the master: nobody else is granted the
/// key, and its holder goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acknowledged_grant_outlives_the_master() {
    let (_turn, mut set) = a_hasty_set().await;
    let old = set.master();
    let (locks, rival) =
        (connect(&set.url(), ms(20_000)).await, connect(&set.url(), ms(20_000)).await);
    let guard = locks.lock("k").replicas(2, ms(1_000)).retries(20).await.unwrap();
    set.server_mut(old).kill();
    let new = set.switched(old).await;
    let renewals = locks.stats().renewals;
    assert!(tests::wait::answered(&rival, "k").await.is_none());
    eventually("the new master renews", || locks.stats().renewals > renewals).await;
    assert!(guard.is_held() && set.server(new).key("lock:{k}").is_some());
    guard.release().await.unwrap();
    rival.lock("k").await.unwrap().release().await.unwrap();
    nothing_left(&set, &[new], [locks, rival]).await;
}

/// The same of several who hold the key together: one that was granted it at once, and one that was
/// let in behind a writer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_grants_of_several_outlive_the_master() {
    let (_turn, mut set) = a_hasty_set().await;
    let old = set.master();
    let url = set.url();
    let [one, two, rival] = [(); 3].map(|()| connect(&url, ms(20_000)));
    let (one, two, rival) = (one.await, two.await, rival.await);
    let writer = one.lock("k").await.unwrap();
    let reader =
        |locks: &LockClient| locks.lock("k").shared().replicas(2, ms(1_000)).retries(20).acquire();
    let waiting = tokio::spawn(reader(&two));
    let line = || set.server(old).command::<u64>(&["LLEN", "lock:{k}:queue"]);
    eventually("it waits", || line() == 1).await;
    writer.release().await.unwrap();
    let guards =
        [within("the reader", waiting).await.unwrap().unwrap(), reader(&one).await.unwrap()];
    set.server_mut(old).kill();
    let new = set.switched(old).await;
    let renewals = [&one, &two].map(|locks| locks.stats().renewals);
    assert!(tests::wait::answered(&rival, "k").await.is_none());
    eventually("the new master renews", || {
        [&one, &two].iter().zip(renewals).all(|(locks, before)| locks.stats().renewals > before)
    })
    .await;
    assert!(guards.iter().all(|guard| guard.is_held()));
    assert_eq!(rival.inspect("k").await.unwrap().holders.len(), 2);
    for guard in guards {
        guard.release().await.unwrap();
    }
    rival.lock("k").await.unwrap().release().await.unwrap();
    nothing_left(&set, &[new], [one, two, rival]).await;
}

/// V8: a hand-off that is pushed counts only once the replicas have it, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pushed_grant_must_be_acknowledged_as_well() {
    let (_turn, set) = a_set_with(to_cut()).await;
    let master = set.master();
    let (first, second) =
        (connect(&set.url(), ms(30_000)).await, connect(&set.url(), ms(30_000)).await);
    let guard = first.lock("k").await.unwrap();
    let waiting = tokio::spawn({
        let second = second.clone();
        async move { second.lock("k").replicas(1, ms(200)).await }
    });
    eventually("it waits", || set.server(master).command::<u64>(&["LLEN", "lock:{k}:queue"]) == 1)
        .await;
    cut(&set, master).await;
    guard.release().await.unwrap();
    let error = within("an answer", waiting).await.unwrap().unwrap_err();
    assert!(error.is_not_replicated(), "{error}");
    eventually("it is given back", || set.server(master).key("lock:{k}").is_none()).await;
    nothing_left(&set, &[master], [first, second]).await;
}

/// One that waits for replicas holds up neither the others nor itself: renewals, releases and
/// other keys are served meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_for_replicas_holds_up_nothing_else() {
    let (_turn, set) = a_set_with(to_cut()).await;
    let master = set.master();
    let locks = connect(&set.url(), ms(9_000)).await;
    let held = locks.lock("held").await.unwrap();
    cut(&set, master).await;
    let all_wait = || {
        let clients = set.server(master).clients();
        clients.iter().filter(|one| one.field("cmd") == Some("wait")).count() == 8
    };
    // One whose connections are there, and that finds the time for the others' locks, is enough.
    let a_round = async || {
        let start = Stopwatch::start();
        let slow = |n| locks.lock(format!("slow:{n}")).lease(ms(9_000)).replicas(1, ms(1_000));
        let waiting: Vec<_> = (0..8).map(|n| tokio::spawn(slow(n).acquire())).collect();
        let ended = || waiting.iter().any(|one| one.is_finished());
        let mut together = false;
        eventually("eight wait, or one has ended", || {
            together = all_wait();
            together || ended()
        })
        .await;
        for _ in 0..5 {
            locks.lock("quick").await.unwrap().release().await.unwrap();
        }
        let in_time = together && !ended();
        for one in waiting {
            assert!(one.await.unwrap().unwrap_err().is_not_replicated());
        }
        // Side by side, each with a connection to itself. In a row it would be 8 s.
        assert!(start.own() < ms(4_000), "{:?}", start.elapsed());
        in_time
    };
    within("a round in time", async { while !a_round().await {} }).await;
    assert!(held.is_held());
    held.release().await.unwrap();
    nothing_left(&set, &[master], [locks]).await;
}

/// A blocked claim has nothing to be replicated. It waits for no replica, and keeps no connection
/// from those whose grant does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_is_blocked_does_not_wait_for_replicas() {
    const BLOCKED: usize = 48;
    let server = RedisServer::start();
    let (holder, locks) =
        (connect(&server.url(), ms(30_000)).await, connect(&server.url(), ms(30_000)).await);
    let mut held = Vec::new();
    for n in 0..BLOCKED {
        held.push(holder.lock(format!("held:{n}")).await.unwrap());
    }
    let blocked: Vec<_> = (0..BLOCKED)
        .map(|n| {
            let acquire = locks.lock(format!("held:{n}")).wait(ms(5_000));
            tokio::spawn(acquire.replicas(1, ms(1_000)).acquire())
        })
        .collect();
    eventually("all are in line", || {
        let queues: Vec<String> = server.command(&["KEYS", "lock:*:queue"]);
        queues.len() == BLOCKED
    })
    .await;
    for _ in 0..5 {
        let start = Stopwatch::start();
        let error = locks.lock("free").replicas(1, ms(200)).await.unwrap_err();
        assert!(error.is_not_replicated(), "{error}");
        assert!(start.own() < ms(200) + SLACK, "{:?}", start.elapsed());
    }
    assert_eq!(server.command_stats().calls("wait"), 5);
    for (held, blocked) in held.into_iter().zip(blocked) {
        blocked.abort();
        held.release().await.unwrap();
    }
}

/// V4, V8: a wait that ends before the time of the replicas does is told what was found of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_that_is_shorter_than_the_time_of_the_replicas_is_told_of_them() {
    let server = RedisServer::start();
    let locks = connect(&server.url(), ms(30_000)).await;
    let told = async {
        loop {
            let start = Stopwatch::start();
            let error = locks.lock("k").wait(ms(1_300)).replicas(1, ms(1_000)).await.unwrap_err();
            assert!(start.own() < ms(1_300) + SLACK, "{:?}", start.elapsed());
            // Less where the attempt was slow, and nothing where it took all of the wait.
            match &error {
                AcquireError::NotReplicated(why) if why.timeout() > ms(500) => return error,
                AcquireError::NotReplicated(_) => {}
                _ => assert!(error.is_unavailable(), "{error:?}"),
            }
        }
    };
    let error = within("a quick attempt", told).await;
    let AcquireError::NotReplicated(why) = &error else { panic!("{error:?}") };
    assert!(why.timeout() <= ms(975), "{error}");
}

/// A store without replicas refuses the option before anything is sent.
#[tokio::test]
async fn a_store_without_replicas_refuses_the_option() {
    let locks = LockClient::memory();
    let error = locks.lock("k").replicas(1, ms(100)).await.unwrap_err();
    assert!(error.is_rejected() && error.to_string().contains("replicas"), "{error}");
    locks.lock("k").replicas(0, ms(100)).await.unwrap().release().await.unwrap();
}
