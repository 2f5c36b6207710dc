//! Every verb is served, at every kind of server.

use std::time::Duration;

use deadpool_redis::{Config, Runtime};
use lock_core::Key;
use lock_core::backend::{Attempt, Backend, Claim as _, Renewal, Withdrawal};
use lock_core::options::Replicas;
use lock_core::redis::Redis;
use tests::redis::{RedisCluster, RedisServer, SentinelSet};
use tests::wait::{eventually, within};

use crate::application::{Application, Claim, alone, claim, conduct};

const KEYS: [&str; 5] = ["a", "b", "c", "d", "e"];

/// The claims that an application made before it was blocked.
struct Begun {
    backend: Redis,
    held: Vec<Claim>,
    dropped: Vec<Claim>,
}

/// It holds keys, and is to be blocked.
async fn begin(backend: Redis) -> Begun {
    let (mut held, mut dropped) = (Vec::new(), Vec::new());
    for key in KEYS {
        held.push(granted(&backend, &format!("held:{key}")).await);
        dropped.push(granted(&backend, &format!("dropped:{key}")).await);
    }
    Begun { backend, held, dropped }
}

async fn granted(backend: &Redis, key: &str) -> Claim {
    let mut claim = claim(backend, key, None);
    let answer = claim.attempt().await;
    assert!(matches!(answer, Ok(Attempt::Granted(_))), "{key}: {answer:?}");
    claim
}

/// A key is granted at two replicas as well. On a busy machine they may have no turn for a second.
async fn replicated(backend: &Redis) {
    let replicas = Replicas { count: 2, timeout: Duration::from_secs(1) };
    loop {
        let mut claim = claim(backend, "replicated", Some(replicas));
        match claim.attempt().await {
            Err(fault) if fault.found_of_replicas().is_some() => drop(claim.withdraw().await),
            answer => {
                return assert!(matches!(answer, Ok(Attempt::Granted(_))), "{answer:?}");
            }
        }
    }
}

async fn renewed(claims: &mut [Claim]) {
    for claim in claims {
        let answer = claim.renew().await;
        assert!(matches!(answer, Ok(Renewal::Held(_))), "{answer:?}");
    }
}

/// All that a conductor may ask for.
async fn asks(begun: &mut Begun) {
    let Begun { backend, held, dropped } = begun;
    renewed(held).await;
    for claim in dropped {
        assert_eq!(claim.withdraw().await.expect("an answer"), Withdrawal::Released);
    }
    for key in KEYS {
        let name = format!("held:{key}");
        let mut waiting = claim(backend, &name, None);
        let answer = waiting.attempt().await;
        assert!(matches!(answer, Ok(Attempt::Blocked { .. })), "{answer:?}");
        assert_eq!(waiting.withdraw().await.expect("an answer"), Withdrawal::NotHeld);
        let seen = backend.inspect(&Key::new(&name).expect("a key")).await.expect("an answer");
        assert!(seen.holder().is_some() && seen.waiters.is_empty(), "{seen:?}");
        granted(backend, &format!("dropped:{key}")).await.withdraw().await.expect("one");
    }
}

/// The conductor is served, one that takes its place too, and then the application again.
fn all_is_served(begun: Begun, application: &Application) {
    let mut begun = begun;
    conduct(asks(&mut begun));
    conduct(renewed(&mut begun.held));
    application.let_go();
    alone().block_on(async {
        for claim in &mut begun.held {
            assert_eq!(claim.withdraw().await.expect("an answer"), Withdrawal::Released);
        }
    });
}

/// V3, V5: at one server.
#[test]
fn one_server_serves_the_conductor_of_an_application_that_is_blocked() {
    let server = RedisServer::start();
    let url = server.url();
    let (begun, application) = Application::blocked_after(async move || {
        begin(Redis::connect(&url, None).await.expect("a server")).await
    });
    all_is_served(begun, &application);
}

/// V3, V5: beside an application's pool, of which the application has the only connection.
#[test]
fn the_conductor_needs_no_connection_of_the_pool() {
    let server = RedisServer::start();
    let url = server.url();
    let ((begun, its), application) = Application::blocked_after(async move || {
        let pool = Config::from_url(&*url).builder().expect("a URL").max_size(1);
        let pool = pool.runtime(Runtime::Tokio1).build().expect("a pool");
        let backend = Redis::connect(&url, Some(pool.clone().into())).await.expect("a server");
        (begin(backend).await, pool.get().await.expect("a connection"))
    });
    let mut begun = begun;
    conduct(asks(&mut begun));
    drop((its, application));
}

/// V3, V5: at the nodes of a cluster.
#[test]
fn a_cluster_serves_the_conductor_of_an_application_that_is_blocked() {
    let cluster = alone().block_on(RedisCluster::start());
    let url = cluster.url();
    let (begun, application) = Application::blocked_after(async move || {
        begin(Redis::connect(&url, None).await.expect("a cluster")).await
    });
    let owners: std::collections::HashSet<_> =
        KEYS.iter().map(|key| cluster.owner(&format!("held:{key}"))).collect();
    assert!(owners.len() > 1, "at several nodes");
    all_is_served(begun, &application);
}

/// V3, V5: the slot of a key moves, and its master dies: the conductor finds both by itself.
#[test]
fn the_conductor_finds_the_node_of_a_slot_that_has_moved_and_of_one_that_is_succeeded() {
    let mut cluster = alone().block_on(RedisCluster::hasty());
    let url = cluster.url_of_all(None);
    let (begun, application) = Application::blocked_after(async move || {
        begin(Redis::connect(&url, None).await.expect("a cluster")).await
    });
    let mut begun = begun;
    let name = format!("held:{}", KEYS[0]);
    let from = cluster.owner(&name);
    let to = (from + 1) % 3;
    cluster.move_slot(cluster.slot(&name), from, to);
    conduct(renewed(&mut begun.held));
    alone().block_on(eventually("its replica has all of it", || {
        let info: String = cluster.node(to).command(&["INFO", "replication"]);
        let offset = |field: &str| {
            let at = info.find(field)? + field.len();
            info[at..].split(|end: char| !end.is_ascii_digit()).next()?.parse::<u64>().ok()
        };
        let offsets = (offset("master_repl_offset:"), offset(",offset="));
        offsets.0.is_some() && offsets.0 == offsets.1
    }));
    cluster.kill(to);
    alone().block_on(cluster.succeeded(to, &name));
    conduct(async {
        while begun.held[0].renew().await.is_err() {
            tokio::task::yield_now().await;
        }
        renewed(&mut begun.held).await;
    });
    drop(application);
}

/// V3, V5: at the master that sentinels name, with and without its replicas, and at the next one,
/// which the conductor finds by itself.
#[test]
fn the_conductor_follows_the_master_while_the_application_is_blocked() {
    let set = alone().block_on(SentinelSet::start());
    let url = set.url();
    let (begun, application) = Application::blocked_after(async move || {
        begin(Redis::connect(&url, None).await.expect("a master")).await
    });
    let mut begun = begun;
    conduct(async {
        asks(&mut begun).await;
        within("its replicas", replicated(&begun.backend)).await;
        let new = set.failover().await;
        while begun.held[0].renew().await.is_err() {
            tokio::task::yield_now().await;
        }
        renewed(&mut begun.held).await;
        let key = set.server(new).key("lock:{held:a}").expect("the lock");
        assert!(key.ttl_ms.is_some_and(|left| left > 50_000), "{key:?}");
    });
    drop(application);
}
