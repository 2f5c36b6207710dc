//! Every request of a lock's life, lost in every way.

use lock_core::LockClient;
use tests::proxy::{Action, Match, Proxy, Trap};
use tests::stalls::Stopwatch;
use tests::wait::eventually;
use tokio::task::JoinSet;

use crate::support::*;

/// How a request is lost.
#[derive(Clone, Copy, Debug)]
enum Loss {
    /// The connection ends in order, before the server has it or after.
    Fin,
    /// The connection ends at once.
    Rst,
    /// Nothing more comes over the connection, and it stays open.
    Silence,
}

/// Whether the server carries it out.
#[derive(Clone, Copy, Debug)]
enum Side {
    Request,
    Reply,
}

/// Sets the trap; [`lose`] has the rest.
fn trap(proxy: &Proxy, which: Match, loss: Loss, side: Side) -> Trap {
    let action = match (loss, side) {
        (Loss::Fin, Side::Request) => Action::DropRequest,
        (Loss::Fin, Side::Reply) => Action::SwallowReply,
        (_, Side::Request) => Action::HoldRequest,
        (_, Side::Reply) => Action::HoldReply,
    };
    proxy.trap(which, action)
}

/// Waits until the request is caught, and loses it. A connection that is silent from then on is
/// given up by the client after a while; the trap keeps the silence until it is dropped.
async fn lose(proxy: &Proxy, trap: &Trap, loss: Loss) {
    trap.sprung().await;
    if matches!(loss, Loss::Rst) {
        proxy.reset();
    }
}

/// `FIRST-CREATE` finds no directory; `DOUBT` is the look for a node whose creation was not
/// answered.
const VERBS: [&str; 8] =
    ["FIRST-CREATE", "MULTI", "CREATE", "GETCHILDREN", "GETDATA", "DELETE", "DOUBT", "SETDATA"];

/// One request of the life of a lock on `key` is lost; what must come of it all the same.
async fn case(server: &Zoo, key: &str, verb: &str, loss: Loss, side: Side) {
    let (proxy, locks) = behind_proxy(server, ms(6_000)).await;
    let before = match verb {
        // There is somebody to wait for.
        "GETDATA" => {
            let rival = connect(&server.at(LONG)).await;
            let guard = rival.lock(key).await.unwrap();
            Some((rival, guard))
        }
        _ => None,
    };
    let doubt = match verb {
        "DOUBT" => Some(proxy.trap(first_create_of(key), Action::SwallowReply)),
        _ => None,
    };
    let which = match verb {
        "FIRST-CREATE" => create_of(key),
        "CREATE" => first_create_of(key),
        "SETDATA" => beat(),
        // Its first list went with the creation.
        "DOUBT" => Match::verb("GETCHILDREN").containing(format!("/{key}")).after(2),
        _ => Match::verb(verb).containing(format!("/{key}")),
    };
    let trap = trap(&proxy, which, loss, side);
    let acquire = tokio::spawn(locks.lock(key).acquire());
    let guard = match verb {
        "DELETE" | "SETDATA" => acquire.await.unwrap().unwrap(),
        _ => {
            lose(&proxy, &trap, loss).await;
            drop((doubt, before));
            acquire.await.unwrap().unwrap()
        }
    };
    held_once(server, key, &guard).await;
    if verb == "SETDATA" {
        lose(&proxy, &trap, loss).await;
        let renewals = locks.stats().renewals;
        eventually("a renewal", || locks.stats().renewals > renewals).await;
        assert!(guard.is_held());
    }
    let token = guard.token();
    let release = tokio::spawn(guard.release());
    if verb == "DELETE" {
        lose(&proxy, &trap, loss).await;
    }
    if let Err(error) = release.await.unwrap() {
        assert!(error.is_unavailable() && verb == "DELETE", "{error}");
    }
    proceeds(server, key, token.get()).await;
    idle_and_alive(server, &locks).await;
    drop(trap);
}

/// One node stands for the grant, and the token is its birth (V2).
async fn held_once(server: &Zoo, key: &str, guard: &lock_core::LockGuard) {
    server.line_of(key, 1).await;
    let (_, birth) = server.holder(key).expect("the node of the holder");
    assert_eq!(guard.token().get() >> 12, birth);
}

/// The next client has the key under a higher token (V2, V5), long before a session ends.
async fn proceeds(server: &Zoo, key: &str, token: u64) {
    let next = connect(&server.at(LONG)).await;
    let start = Stopwatch::start();
    let guard = next.lock(key).await.unwrap();
    assert!(start.own() < ms(6_000), "{:?}", start.elapsed());
    assert!(guard.token().get() > token);
    guard.release().await.unwrap();
    server.line_of(key, 0).await;
}

async fn idle_and_alive(server: &Zoo, locks: &LockClient) {
    eventually("no key is busy", || locks.stats().keys == 0).await;
    assert!(!server.sessions().is_empty());
}

/// F10 to F14, F18 (V2, V5, V6, V8): whichever request of the life of a lock is lost, on its way
/// there or back, by FIN, RST or silence: there is one grant under one token, no node of it is
/// left in the living session, and the next client has the lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_request_lost_in_any_way_leaves_one_grant_and_then_none() {
    let server = std::sync::Arc::new(Zoo::start().await);
    let mut cases = JoinSet::new();
    for verb in VERBS {
        for loss in [Loss::Fin, Loss::Rst, Loss::Silence] {
            for side in [Side::Request, Side::Reply] {
                let server = server.clone();
                cases.spawn(async move {
                    let key = format!("{verb}-{loss:?}-{side:?}");
                    let run =
                        tokio::spawn(async move { case(&server, &key, verb, loss, side).await });
                    (verb, loss, side, run.await.err())
                });
            }
        }
    }
    let mut failed = Vec::new();
    while let Some(ended) = cases.join_next().await {
        let (verb, loss, side, error) = ended.unwrap();
        failed.extend(error.map(|error| format!("{verb} {loss:?} {side:?}: {error}")));
    }
    assert!(failed.is_empty(), "{failed:#?}");
    nothing_left(&server, []).await;
}
