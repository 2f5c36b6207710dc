//! F28, F30, F31: users, passwords and rights, and servers that serve nobody.

use lock_core::LockClient;
use lock_core::error::ConnectError;
use tests::stalls::Stopwatch;
use tests::wait::{eventually, within};
use zookeeper_client::{Acl, Acls, AuthId, Client, CreateMode, Permission};

use crate::support::*;

/// A password that appears nowhere by chance.
const PASSWORD: &str = "pw-7Hq2zX9";

/// The URL for a user with a password, at `path`.
fn url_as(server: &Zoo, user: &str, password: &str, path: &str) -> String {
    with_session(&format!("zookeeper://{user}:{password}@{}{path}", server.addr()), LONG)
}

/// A raw client of another user, who owns `paths` alone.
async fn owned_by_another(server: &Zoo, paths: &[&str], mode: CreateMode) -> Client {
    let client = within("a session", Client::connect(&server.connect_string())).await.unwrap();
    client.auth("digest", b"another:other-secret").await.unwrap();
    for path in paths {
        client.create(path, b"theirs", &mode.with_acls(Acls::creator_all())).await.unwrap();
    }
    client
}

/// The text of an error for good, with the password nowhere in it.
fn refused(error: &(dyn std::error::Error + 'static), retryable: bool) -> String {
    let text = everything(error);
    assert!(!retryable, "{text}");
    assert!(!text.contains(PASSWORD), "the password is told: {text}");
    error.to_string()
}

/// F31 (V8): where another user owns the root of the locks, a connect fails at once and for good,
/// and says which rights are missing.
#[tokio::test]
async fn a_root_that_another_user_owns_is_refused_with_the_rights_that_are_missing() {
    let server = Zoo::start().await;
    let other = owned_by_another(&server, &["/app"], CreateMode::Persistent).await;
    let anybody = with_session(&format!("{}/app", server.url()), LONG);
    for url in [url_as(&server, "locks", PASSWORD, "/app"), anybody] {
        let start = Stopwatch::start();
        let error = LockClient::connect(&url).await.unwrap_err();
        assert!(start.own() < LONG / 3, "{:?}", start.elapsed());
        let ConnectError::Store(fault) = &error else { panic!("{error:?}") };
        let text = refused(&error, fault.is_transient());
        assert!(text.contains("rights to create, read, write and delete"), "{text}");
    }
    assert_eq!(server.node("/app").unwrap().data, b"theirs");
    other.delete("/app", None).await.unwrap();
    drop(other);
    nothing_left(&server, []).await;
}

/// F31 (V6, V8): a wrong password makes another user, who may not touch the locks of the first:
/// refused at once and for good, and told nowhere.
#[tokio::test]
async fn a_wrong_password_is_refused_where_the_right_one_has_locks() {
    let server = Zoo::start().await;
    let locks = connect(&url_as(&server, "locks", "right", "")).await;
    let guard = locks.lock("k").await.unwrap();
    let error = LockClient::connect(&url_as(&server, "locks", PASSWORD, "")).await.unwrap_err();
    let ConnectError::Store(fault) = &error else { panic!("{error:?}") };
    refused(&error, fault.is_transient());
    assert!(guard.is_held());
    guard.release().await.unwrap();
    nothing_left(&server, [locks]).await;
}

/// F31, F34 (V4, V6, V8): one lock directory of another user is an error for that key, at once and
/// for good; all other keys are served.
#[tokio::test]
async fn a_directory_of_another_user_is_an_error_for_its_key_alone() {
    let server = Zoo::start().await;
    let other = owned_by_another(&server, &["/k"], CreateMode::Persistent).await;
    let locks = connect(&url_as(&server, "locks", PASSWORD, "")).await;
    let start = Stopwatch::start();
    let error = locks.lock("k").wait(ms(9_000)).await.unwrap_err();
    assert!(start.own() < LONG / 3, "{:?}", start.elapsed());
    assert!(error.is_unavailable());
    let text = refused(&error, error.is_retryable());
    assert!(text.contains("another user may own a node there"), "{text}");
    assert!(locks.lock("k").try_acquire().await.is_err());
    locks.lock("else").await.unwrap().release().await.unwrap();
    eventually("no key is busy", || locks.stats().keys == 0).await;
    other.delete("/k", None).await.unwrap();
    drop(other);
    nothing_left(&server, [locks]).await;
}

/// F31 (V2, V5): a node in line that may not be read is waited for all the same.
#[tokio::test]
async fn a_predecessor_that_may_not_be_read_is_waited_for() {
    let server = Zoo::start().await;
    server.create("/k", "", CreateMode::Persistent);
    let hidden = ["/k/hidden-lock-0000000000"];
    let other = owned_by_another(&server, &hidden, CreateMode::Ephemeral).await;
    let locks = connect(&server.at(SHORT)).await;
    // The server counts from the number of changes.
    server.create("/k/x-lock-", "", CreateMode::PersistentSequential);
    for name in server.line("k") {
        if name.starts_with("x-") {
            server.delete(&format!("/k/{name}"));
        }
    }
    let waiting = tokio::spawn(locks.lock("k").acquire());
    server.line_of("k", 2).await;
    assert!(locks.lock("k").try_acquire().await.unwrap().is_none() && !waiting.is_finished());
    drop(other);
    waiting.await.unwrap().unwrap().release().await.unwrap();
    server.delete("/k");
    nothing_left(&server, [locks]).await;
}

/// F31 (V3, V8): a holder that may no longer read its own node does not ask in a row; whether it
/// holds on is its clock's to say, and its release works.
#[tokio::test]
async fn a_holder_that_may_not_read_its_own_node_asks_at_its_renewals_only() {
    let server = Zoo::start().await;
    let locks = connect(&server.at(STEADY)).await;
    let ticking = connect(&server.at(STEADY)).await;
    let clock = ticking.lock("ticking").await.unwrap();
    let guard = locks.lock("k").await.unwrap();
    eventually("it watches", || server.watches() >= 4).await;
    let other = within("a session", Client::connect(&server.connect_string())).await.unwrap();
    other.auth("digest", b"another:other-secret").await.unwrap();
    let own = format!("/k/{}", server.line("k")[0]);
    other.set_acl(&own, &[Acl::new(Permission::ALL, AuthId::authed())], None).await.unwrap();
    // The event that it is told of makes it look.
    other.set_data(&own, b"changed", None).await.unwrap();
    let (asked, ticks) = (locks.stats().store_requests, ticking.stats().renewals);
    eventually("two sessions have passed", || ticking.stats().renewals >= ticks + 9).await;
    let asked = locks.stats().store_requests - asked;
    assert!(asked < 60, "{asked} requests in two sessions");
    drop(guard.release().await);
    clock.release().await.unwrap();
    drop(other);
    nothing_left(&server, [locks, ticking]).await;
}

/// F31 (V6): what an authenticated client makes is its user's alone; who has the same user shares
/// the locks, also in a new session.
#[tokio::test]
async fn the_nodes_of_an_authenticated_client_are_its_user_s_alone() {
    let server = Zoo::start().await;
    let url = url_as(&server, "locks", PASSWORD, "");
    let (locks, same) = (connect(&url).await, connect(&url).await);
    let guard = locks.lock("k").await.unwrap();
    let (session, _) = server.holder("k").unwrap();
    let own = format!("/k/{}", server.line("k")[0]);
    let paths = ["/k", &own, "/{lock-sessions}", &format!("/{{lock-sessions}}/{session:#x}")];
    let anybody = within("a session", Client::connect(&server.connect_string())).await.unwrap();
    for path in paths {
        let denied = anybody.get_data(path).await.unwrap_err();
        assert_eq!(denied, zookeeper_client::Error::NoAuth, "{path}");
        assert!(anybody.delete(path, None).await.is_err(), "{path}");
    }
    assert!(same.lock("k").try_acquire().await.unwrap().is_none());
    server.expire_session(session);
    within("the loss", guard.lost()).await;
    locks.lock("k").await.unwrap().release().await.unwrap();
    drop((guard, anybody));
    nothing_left(&server, [locks, same]).await;
}

/// F31 (V6, V8): no client, builder, guard or error repeats the password of its URL.
#[tokio::test]
async fn nothing_that_can_be_printed_repeats_the_password() {
    let server = Zoo::start().await;
    let url = url_as(&server, "locks", PASSWORD, "");
    let locks = LockClient::connect(&url).await.unwrap();
    let builder = locks.lock("k");
    let mut text = format!("{locks:?} {builder:?} {:?}", LockClient::builder(&url));
    let acquire = builder.acquire();
    text += &format!("{acquire:?}");
    let guard = acquire.await.unwrap();
    text += &format!("{guard:?} {:?} {:?} {locks:?}", guard.handle(), guard.lost());
    text += &format!("{:?}", locks.inspect("k").await.unwrap());
    guard.release().await.unwrap();
    assert!(!text.contains(PASSWORD), "{text}");
    nothing_left(&server, [locks]).await;
}

/// F30 (V8): nobody listens, or nobody answers: `Unavailable`, in bounded time.
#[tokio::test]
async fn a_server_that_does_not_answer_is_refused_in_bounded_time() {
    let mut server = Zoo::start().await;
    server.pause();
    let start = Stopwatch::start();
    let error = LockClient::connect(&server.at(LONG)).await.unwrap_err();
    assert!(matches!(&error, ConnectError::Store(fault) if fault.is_transient()), "{error:?}");
    server.resume();
    server.kill();
    let error = LockClient::connect(&server.at(SHORT)).await.unwrap_err();
    assert!(matches!(&error, ConnectError::Store(fault) if fault.is_transient()), "{error:?}");
    // Two connects of 5 s at most each.
    assert!(start.own() < ms(10_000) + SLACK, "{:?}", start.elapsed());
}
