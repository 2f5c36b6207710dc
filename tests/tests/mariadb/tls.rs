//! F32: a client that is told to use TLS never speaks in the clear.

use lock_core::LockClient;
use lock_core::sql::DatabaseError;
use sqlx::Row;
use tests::mariadb::{MariaDbOptions, MariaDbServer};

use crate::support::*;

/// F32 (V8): it serves locks, and a server that nobody vouches for, or that has no TLS, is refused.
#[tokio::test]
async fn tls_serves_locks_and_refuses_a_server_that_nobody_vouches_for() {
    let server = MariaDbServer::with(MariaDbOptions::new().tls());
    server.sql(
        "CREATE USER app IDENTIFIED BY 'secret' REQUIRE SSL; \
         GRANT ALL ON shop.* TO app",
    );
    let plain = server.url_as("app");
    let tls = plain.replacen("mysql:", "mariadb+tls:", 1);
    let url = format!("{tls}?create=true&ca={}", server.ca().display());
    let locks = connect(&url, ms(9_000)).await;
    let guard = locks.lock("k").await.expect("a free key");
    let users = server.sql("SELECT user FROM information_schema.processlist WHERE user = 'app'");
    assert!(!users.is_empty() && users.iter().all(|row| row.get::<&str, _>(0) == "app"));
    guard.release().await.expect("a release");
    // The platform does not vouch for it.
    let error = refused(&tls).await;
    assert!(matches!(error, DatabaseError::Unreachable { .. }), "{error}");
    // In the clear the server lets this user not in.
    let error = refused(&plain).await;
    assert!(matches!(error, DatabaseError::Login { .. }), "{error}");
    // One without TLS.
    let place = Place::new();
    let error = refused(&place.url().replacen("mysql:", "mysql+tls:", 1)).await;
    assert!(matches!(error, DatabaseError::Unreachable { .. }), "{error}");
    let error = LockClient::connect("mysql+tls://h/db?cert=/no").await.expect_err("one of two");
    assert!(error.to_string().contains("given together"), "{error}");
}
