//! The public types that are `Send`, `Sync` and `Unpin`, as a table: a change of it breaks callers.

use std::future::Ready;
use std::marker::PhantomPinned;
use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response};
use http_body_util::Full;
use lock_tower::answer::{Cause, Refusal, Reject};
use lock_tower::idempotency::{
    HasScope, IdempotencyBody, IdempotencyFuture, IdempotencyService, NoScope, OnDisconnect,
    OnStoreDown, ScopeOutcome,
};
use lock_tower::key::{
    And, AndFuture, BufferedBody, Extracted, FixedKey, FnKey, HeaderKey, JsonPointerFuture,
    JsonPointerKey, KeyOutcome, Or, OrFuture, PathKey, QueryKey, When, WhenFuture,
};
use lock_tower::{
    BoxError, FencingToken, HoldUntil, IdempotencyLayer, LockBody, LockFuture, LockGuardExt,
    LockLayer, LockService, NoKey, OnLost, UpgradeLock, extract::NoLock,
};
use tower::util::BoxCloneService;

type B = Full<Bytes>;
type F = fn(&Parts) -> KeyOutcome;
type P = fn(&Parts) -> bool;
type Inner = BoxCloneService<Request<B>, Response<B>, std::convert::Infallible>;

/// Whether a type has a trait, by the choice between an inherent and a trait's function.
macro_rules! has {
    ($type:ty: $($bound:tt)+) => {{
        struct Probe<T: ?Sized>(std::marker::PhantomData<T>);
        #[allow(dead_code)]
        trait No { const HAS: bool = false; }
        impl<T: ?Sized> No for Probe<T> {}
        #[allow(dead_code)]
        impl<T: ?Sized + $($bound)+> Probe<T> { const HAS: bool = true; }
        <Probe<$type>>::HAS
    }};
}

macro_rules! table {
    ($($type:ty: $send:literal $sync:literal $unpin:literal,)+) => {
        $(
            assert_eq!(
                (has!($type: Send), has!($type: Sync), has!($type: Unpin)),
                ($send, $sync, $unpin),
                "Send, Sync and Unpin of {}", stringify!($type)
            );
        )+
    };
}

#[test]
fn the_public_types_are_send_sync_and_unpin_as_the_table_says() {
    // Send, Sync, Unpin
    table! {
        LockLayer<PathKey>: true true true,
        UpgradeLock: true true true,
        LockLayer<NoKey>: true true true,
        LockService<B, PathKey>: true true true,
        LockService<Inner, PathKey>: true false true,
        LockFuture<Inner, PathKey, B, B>: true false false,
        LockBody<B>: true false true,
        LockBody<PhantomPinned>: true false false,
        HoldUntil: true true true,
        OnLost: true true true,
        Cause: true true true,
        Refusal<'static>: true true true,
        PathKey: true true true,
        FixedKey: true true true,
        HeaderKey: true true true,
        QueryKey: true true true,
        JsonPointerKey: true true true,
        FnKey<F>: true true true,
        And<PathKey, QueryKey>: true true true,
        Or<PathKey, QueryKey>: true true true,
        When<PathKey, P>: true true true,
        AndFuture<Ready<Extracted<B>>, QueryKey, Ready<Extracted<B>>>: true true true,
        OrFuture<Ready<Extracted<B>>, QueryKey, Ready<Extracted<B>>>: true true true,
        WhenFuture<Ready<Extracted<B>>, B>: true true true,
        JsonPointerFuture<B>: true true true,
        BufferedBody<B>: true true true,
        Extracted<B>: true true true,
        KeyOutcome: true true true,
        Reject: true true true,
        LockGuardExt: true true true,
        FencingToken: true true true,
        NoLock: true true true,
        IdempotencyLayer<NoScope>: true true true,
        IdempotencyLayer<HasScope>: true true true,
        IdempotencyService<B>: true true true,
        IdempotencyService<Inner>: true false true,
        IdempotencyFuture<Ready<B>, B, BoxError>: true false true,
        IdempotencyFuture<PhantomPinned, B, BoxError>: true false false,
        IdempotencyBody<B>: true false true,
        IdempotencyBody<PhantomPinned>: true false false,
        OnStoreDown: true true true,
        OnDisconnect: true true true,
        ScopeOutcome: true true true,
        lock_tower::idempotency::Cause: true true true,
        lock_tower::idempotency::Refusal<'static>: true true true,
        Arc<LockLayer<PathKey>>: true true true,
    }
    #[cfg(feature = "inspect")]
    table! {
        lock_tower::inspect::Inspector<String>: true true true,
    }
}
