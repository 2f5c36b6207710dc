//! The public types that may cross threads, be shared, be moved while polled, and live on their
//! own.

use std::any::TypeId;
use std::cell::Cell;
use std::future::Pending;
use std::marker::PhantomData;

/// Answers by which of the two methods is the better match.
struct Probe<T: ?Sized>(PhantomData<T>);

macro_rules! probe {
    ($name:ident, $fallback:ident, $auto:ident) => {
        trait $fallback {
            fn $name(&self) -> bool {
                false
            }
        }
        impl<T: ?Sized> $fallback for &Probe<T> {}
        impl<T: ?Sized + $auto> Probe<T> {
            fn $name(&self) -> bool {
                true
            }
        }
    };
}

probe!(is_send, NotSend, Send);
probe!(is_sync, NotSync, Sync);
probe!(is_unpin, NotUnpin, Unpin);

macro_rules! table {
    ($($type:ty: $send:literal $sync:literal $unpin:literal,)*) => {
        $(
            // Compiles for what borrows nothing only.
            let _: TypeId = TypeId::of::<$type>();
            let probe = &Probe::<$type>(PhantomData);
            assert_eq!(
                (probe.is_send(), probe.is_sync(), probe.is_unpin()),
                ($send, $sync, $unpin),
                "Send, Sync, Unpin of {}",
                stringify!($type),
            );
        )*
    };
}

#[test]
fn the_probe_tells_apart_what_is_and_what_is_not() {
    table! {
        u8: true true true,
        Cell<u8>: true false true,
        *const u8: false false true,
        std::marker::PhantomPinned: true true false,
    }
}

#[test]
fn every_public_type_crosses_threads() {
    use lock_core::backend::*;
    use lock_core::{error::*, futures::*, key::*, multi::*, options::*, scope::*, view::*, *};
    table! {
        LockClient: true true true,
        ClientBuilder: true true true,
        LockBuilder: true true true,
        LockOptions: true true true,
        Fairness: true true true,
        Acquire: true true true,
        LockGuard: true true true,
        LockHandle: true true true,
        Lost: true true true,
        LockBuilder<KeySet>: true true true,
        Election: true true true,
        Leader: true true true,
        Observe: true false true,
        RunFor: true true true,
        Term: true true true,
        MultiAcquire: true true true,
        MultiLockGuard: true true true,
        MultiLockHandle: true true true,
        MultiLost: true true true,
        RevokeRequested: true true true,
        CutWatch: true true true,
        HandlerRan: true true true,
        // It is in a list of those who are to be told.
        Closed: true true false,
        LockScope: true true true,
        // Tokio pins what it scopes.
        Scoped<Pending<()>>: true true false,
        FencingToken: true true true,
        TokenBlock: true true true,
        Key: true true true,
        KeyError: true true true,
        Inspection: true true true,
        Holder: true true true,
        Stats: true true true,
        ShutdownReport: true true true,
        Capabilities: true true true,
        AcquireError: true true true,
        TimeoutError: true true true,
        OverloadedError: true true true,
        UnavailableError: true true true,
        ClosedError: true true true,
        Rejection: true true true,
        BlockedBy: true true true,
        ReleaseError: true true true,
        LostError: true true true,
        LossReason: true true true,
        RunError: true true true,
        ConnectError: true true true,
        OperatorError: true true true,
        AlreadyInstalled: true true true,
        ClaimId: true true true,
        Terms: true true true,
        Mode: true true true,
        Attempt: true true true,
        Change: true true true,
        Driver: true true true,
        Scheme: true true true,
        StoreUrl: true true true,
        UrlError: true true true,
        UrlPart: true true true,
        url::Host: true true true,
        url::Login: true true true,
        Grant: true true true,
        Renewal: true true true,
        Withdrawal: true true true,
        Fault: true true true,
        FaultKind: true true true,
        NotReplicated: true true true,
        memory::Memory: true true true,
        <memory::Memory as Backend>::Claim: true true true,
    }
    #[cfg(feature = "metrics")]
    table! {
        metrics::Metric: true true true,
        metrics::Kind: true true true,
    }
    #[cfg(feature = "redis")]
    table! {
        redis::Redis: true true true,
        redis::RedisPool: true true true,
        <redis::Redis as Backend>::Claim: true true true,
    }
    #[cfg(feature = "zookeeper")]
    table! {
        zookeeper::Exclusive: true true true,
        zookeeper::ZooKeeper: true true true,
        <zookeeper::ZooKeeper as Backend>::Claim: true true true,
    }
    #[cfg(feature = "postgres")]
    table! {
        sql::Postgres: true true true,
        sql::PostgresConfig: true true true,
        sql::Durability: true true true,
        <sql::Postgres as Backend>::Claim: true true true,
    }
    #[cfg(all(feature = "postgres", feature = "idempotency"))]
    table! {
        idempotency::Tx<sqlx::Postgres>: true true true,
    }
    #[cfg(feature = "mysql")]
    table! {
        sql::Mysql: true true true,
        sql::MysqlConfig: true true true,
        <sql::Mysql as Backend>::Claim: true true true,
    }
    #[cfg(feature = "sqlite")]
    table! {
        sql::Sqlite: true true true,
        sql::SqliteConfig: true true true,
        sql::Schema: true true true,
        sql::TableName: true true true,
        sql::DatabaseError: true true true,
        sql::Fences: true true true,
        sql::FenceError: true true true,
        <sql::Sqlite as Backend>::Claim: true true true,
    }
    #[cfg(all(feature = "sqlite", feature = "idempotency"))]
    table! {
        sql::SqlRecords: true true true,
        sql::InTransactionError: true true true,
        idempotency::CommitError: true true true,
        idempotency::CompleteInError: true true true,
        idempotency::Tx<sqlx::Sqlite>: true true true,
        idempotency::TxError: true true true,
        idempotency::TxSeat: true true true,
    }
    #[cfg(feature = "idempotency")]
    {
        use lock_core::idempotency::*;
        table! {
            Idempotency: true true true,
            Begun: true true true,
            Execution: true true true,
            RecordId: true true true,
            Fingerprint: true true true,
            FingerprintBuilder: true true true,
            Scope: true true true,
            Duplicates: true true true,
            OnUnknown: true true true,
            IdempotencyStats: true true true,
            MemoryRecords: true true true,
            std::sync::Arc<dyn RecordStore>: true true true,
            Found: true true true,
            Claimed: true true true,
            ClaimRecord: true true true,
            Outcome: true true true,
            Written: true true true,
            BeginError: true true true,
            BeginRejection: true true true,
            CompleteError: true true true,
        }
    }
    #[cfg(feature = "test-util")]
    table! {
        test_util::AnyBackend: true true true,
        test_util::AnyClaim: true false true,
        test_util::Scripted<memory::Memory>: true true true,
        test_util::Script: true true true,
        test_util::Act: true true true,
        test_util::Verb: true true true,
        test_util::Call: true true true,
        test_util::Reply: true true true,
    }
}

/// Compiles only if it is `Send` and borrows nothing.
fn spawnable<T: Send + 'static>(_: T) {}

#[test]
fn the_futures_of_async_functions_can_be_spawned() {
    use lock_core::{multi::*, scope::*, *};
    let locks = LockClient::memory();
    spawnable(locks.lock("k").acquire());
    spawnable(locks.lock("k").try_acquire());
    spawnable(locks.lock("k").run(|_| std::future::ready(())));
    spawnable(locks.lock_all(["k"]).acquire());
    spawnable(locks.lock_all(["k"]).try_acquire());
    spawnable(locks.lock_all(["k"]).run(|_| std::future::ready(())));
    spawnable(CutWatch::new().scope(std::future::ready(())));
    spawnable(LockClient::connect("memory:"));
    spawnable(LockClient::builder("memory:").connect());
    fn released(guard: LockGuard) {
        spawnable(guard.release());
    }
    let _: fn(LockGuard) = released;
    fn all_released(guard: MultiLockGuard) {
        spawnable(guard.release());
    }
    let _: fn(MultiLockGuard) = all_released;
    let inspected = locks.clone();
    spawnable(async move { inspected.inspect("k").await });
    let asking = locks.clone();
    spawnable(async move { asking.request_revoke("k").await });
    let taking = locks.clone();
    spawnable(async move { taking.force_release("k").await });
    spawnable(async move { locks.shutdown(std::time::Duration::ZERO).await });
}

#[cfg(feature = "idempotency")]
#[test]
fn the_futures_of_an_execution_can_be_spawned() {
    use lock_core::idempotency::*;
    let once = Idempotency::new("tests", lock_core::LockClient::memory(), MemoryRecords::new());
    spawnable(async move { once.begin(&Scope::Global, b"k", Fingerprint::new([0; 32])).await });
    fn ended(a: Execution, b: Execution, c: Execution) {
        spawnable(a.complete(bytes::Bytes::new()));
        spawnable(b.complete_without_payload());
        spawnable(c.abort());
    }
    let _: fn(Execution, Execution, Execution) = ended;
}

#[test]
fn every_error_is_one_that_can_be_boxed_and_sent() {
    fn error<E: std::error::Error + Send + Sync + 'static>() {}
    use lock_core::{error::*, *};
    error::<AcquireError>();
    error::<TimeoutError>();
    error::<OverloadedError>();
    error::<UnavailableError>();
    error::<ClosedError>();
    error::<Rejection>();
    error::<ReleaseError>();
    error::<LostError>();
    error::<RunError>();
    error::<ConnectError>();
    error::<OperatorError>();
    error::<AlreadyInstalled>();
    error::<KeyError>();
    error::<backend::Fault>();
    #[cfg(feature = "idempotency")]
    {
        error::<idempotency::BeginError>();
        error::<idempotency::BeginRejection>();
        error::<idempotency::CompleteError>();
    }
}
