//! Where the client comes from. The installed one is of the whole process, so it has one test.

use std::sync::Arc;

use lock_core::error::Rejection;
use lock_core::{AcquireError, LockClient, distributed_lock};

use crate::holder;

type Outcome<T = ()> = Result<T, AcquireError>;

#[distributed_lock(key = "k")]
async fn global(ran: &mut bool) -> Outcome {
    *ran = true;
    Ok(())
}

#[distributed_lock(key = "k", when = false)]
async fn unlocked(_x: u8) -> Outcome {
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn without_a_client_the_call_fails_and_with_an_installed_one_it_is_used() {
    let mut ran = false;
    match global(&mut ran).await.unwrap_err() {
        AcquireError::Rejected(Rejection::NoClient) => assert!(!ran),
        other => panic!("{other}"),
    }
    unlocked(1).await.unwrap();

    let locks = LockClient::memory();
    locks.clone().install_global().unwrap();
    global(&mut ran).await.unwrap();
    assert!(ran);
    let _other = holder(&locks, "k").await;
    assert!(global(&mut ran).await.unwrap_err().is_timeout());
}

#[distributed_lock(key = "k", client = locks)]
async fn optional(locks: Option<Arc<LockClient>>) -> Outcome {
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_absent_client_is_not_replaced_by_another() {
    assert!(optional(None).await.unwrap_err().is_rejected());
    let locks = LockClient::memory();
    optional(Some(Arc::new(locks.clone()))).await.unwrap();
    assert_eq!(locks.stats().acquired, 1);
}
