//! F02: a runtime of the application that does not come to run anything loses no lease.

use lock_core::{LockClient, LockOptions};
use tests::blocked::{Application, alone};
use tests::wait::within;

use crate::support::*;

/// F02 (V1, V3): renewals are not the application's, so a hold outlasts a block of three leases.
#[test]
fn a_hold_outlives_a_runtime_that_is_blocked_for_some_leases() {
    let place = Place::new();
    let lease = ms(2_000);
    let url = place.new_url();
    let ((locks, guard), blocked) = Application::blocked_after(async move || {
        let options = LockOptions::new().with_wait(ms(9_000)).with_lease(lease);
        let locks = LockClient::builder(url).defaults(options).connect().await.expect("a client");
        let guard = locks.lock("k").await.expect("a free key");
        (locks, guard)
    });
    alone().block_on(async {
        let other = place.client().await;
        let wait = once().with_wait(lease * 3);
        let error = other.lock("k").options(wait).await.expect_err("it is held");
        assert!(error.is_timeout(), "{error}");
        assert!(guard.is_held());
        // Another runtime lets go of it, and the waiter in a third has it.
        let waiting = other.lock("k");
        let (next, released) = tokio::join!(waiting, guard.release());
        released.expect("a release");
        within("a release", next.expect("a grant").release()).await.expect("a release");
        idle(&other).await;
    });
    blocked.let_go();
    alone().block_on(idle(&locks));
    drop((blocked, locks));
}

/// A client needs no runtime of the application's to connect, lock and wait.
#[test]
fn a_client_needs_no_runtime_of_the_application() {
    let place = Place::new();
    futures_executor::block_on(async {
        let locks = place.client().await;
        let guard = locks.lock("k").await.expect("a free key");
        let error = locks.lock("k").wait(ms(50)).await.expect_err("it is held");
        assert!(error.is_timeout(), "{error}");
        guard.release().await.expect("a release");
        locks.lock("k").await.expect("a free key").release().await.expect("a release");
    });
}
