//! Handlers that take a `Tx`: their record is completed in their own transaction. The same in each
//! database.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{FromRef, State};
use axum::http::{HeaderMap, HeaderValue, Request, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use http_body_util::{BodyExt as _, Empty};
use lock_core::idempotency::{CommitError, Idempotency, IdempotencyError, Scope, Tx, TxError};
use lock_core::{AcquireError, LockClient};
use lock_tower::key::fixed;
use lock_tower::{IdempotencyLayer, LockLayer};
use sqlx::Pool;
use tower::ServiceExt as _;

use crate::support::{self, Db};

/// The state of the handlers.
#[derive(Clone)]
struct Shop {
    pool: Pool<Db>,
    once: Idempotency,
    runs: Arc<AtomicUsize>,
    /// The commit is refused, for a reference that is broken.
    breaks: Arc<AtomicBool>,
    _place: Arc<support::Shop>,
}

impl FromRef<Shop> for Pool<Db> {
    fn from_ref(shop: &Shop) -> Self {
        shop.pool.clone()
    }
}

impl Shop {
    async fn new() -> (Self, Idempotency) {
        let place = support::Shop::new().await;
        let (once, pool) = (place.process().await, place.pool.clone());
        let (runs, breaks) = Default::default();
        let shop = Self { pool, once: once.clone(), runs, breaks, _place: Arc::new(place) };
        (shop, once)
    }

    fn app(&self, once: Idempotency) -> Router {
        // It takes a lock away from its handler, and says yes in its place.
        let yielding = LockLayer::new(LockClient::memory()).hold_limit(Duration::from_secs(2));
        let yielding = yielding.on_busy(|_| (StatusCode::ACCEPTED, "later").into_response());
        let yielding = yielding.key(fixed("account"));
        Router::new()
            .route("/pay", post(pay))
            .route("/refuse", post(refuse))
            .route("/fail", post(fail))
            .route("/undo", post(undo))
            .route("/leak", post(leak))
            .route("/stream", post(stream))
            .route("/trailers", post(trailers))
            .route("/two", post(two))
            .route("/within", post(within_another))
            .route("/cut", post(cut).route_layer(yielding))
            .route_layer(IdempotencyLayer::new(once.clone()).global_scope().required(false))
            .route(
                "/unkept",
                post(pay)
                    .route_layer(IdempotencyLayer::new(once).global_scope().store_if(|_| false)),
            )
            .route("/bare", post(pay))
            .with_state(self.clone())
    }

    async fn payments(&self) -> i64 {
        let count = sqlx::query_scalar("SELECT count(*) FROM payments");
        count.fetch_one(&self.pool).await.expect("a table")
    }

    fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }

    async fn write(&self, tx: &mut Tx<Db>) -> Result<(), TxError> {
        self.runs.fetch_add(1, Ordering::SeqCst);
        let tx = tx.open().await?;
        sqlx::query("INSERT INTO payments (amount) VALUES (5)").execute(&mut **tx).await?;
        if self.breaks.load(Ordering::SeqCst) {
            sqlx::query("INSERT INTO children VALUES (7)").execute(&mut **tx).await?;
        }
        Ok(())
    }
}

async fn pay(State(shop): State<Shop>, mut tx: Tx<Db>) -> Result<Response, TxError> {
    shop.write(&mut tx).await?;
    Ok((StatusCode::CREATED, "paid").into_response())
}

async fn refuse(State(shop): State<Shop>, mut tx: Tx<Db>) -> Result<Response, TxError> {
    shop.write(&mut tx).await?;
    Ok((StatusCode::UNPROCESSABLE_ENTITY, "no such account").into_response())
}

async fn fail(State(shop): State<Shop>, mut tx: Tx<Db>) -> Result<Response, TxError> {
    shop.write(&mut tx).await?;
    Ok(StatusCode::BAD_GATEWAY.into_response())
}

async fn undo(State(shop): State<Shop>, mut tx: Tx<Db>) -> Result<Response, TxError> {
    shop.write(&mut tx).await?;
    tx.roll_back().await?;
    Ok("undone".into_response())
}

async fn leak(State(shop): State<Shop>, mut tx: Tx<Db>) -> Result<Response, TxError> {
    shop.write(&mut tx).await?;
    tokio::spawn(async move {
        let _tx = tx;
        std::future::pending::<()>().await;
    });
    Ok("paid".into_response())
}

async fn stream(State(shop): State<Shop>, mut tx: Tx<Db>) -> Result<Response, TxError> {
    shop.write(&mut tx).await?;
    // Pending once, so that its length is not known when its head is.
    let pieces = futures_util::stream::once(async {
        tokio::task::yield_now().await;
        Ok::<_, std::io::Error>("paid")
    });
    Ok(Body::from_stream(pieces).into_response())
}

async fn two(State(shop): State<Shop>, mut a: Tx<Db>, mut b: Tx<Db>) -> Result<Response, TxError> {
    shop.write(&mut a).await?;
    shop.write(&mut b).await?;
    Ok(StatusCode::CREATED.into_response())
}

/// The second try answers with what the function came to.
async fn within_another(State(shop): State<Shop>, tx: Tx<Db>) -> Response {
    match charge(shop.once.clone(), shop.clone(), tx, 7, false).await {
        Ok(_) if shop.runs() < 2 => StatusCode::BAD_GATEWAY.into_response(),
        Ok(charged) => charged.into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

async fn cut(State(shop): State<Shop>, mut tx: Tx<Db>) -> Result<Response, TxError> {
    shop.write(&mut tx).await?;
    if shop.runs() == 1 {
        std::future::pending::<()>().await;
    }
    Ok("paid".into_response())
}

/// As of gRPC: the status is told behind the head.
async fn trailers(State(shop): State<Shop>, mut tx: Tx<Db>) -> Result<Response, TxError> {
    shop.write(&mut tx).await?;
    let mut failed = HeaderMap::new();
    failed.insert("grpc-status", HeaderValue::from_static("9"));
    let told = async { Some(Ok::<_, Infallible>(failed)) };
    Ok(Body::new(Empty::<Bytes>::new().with_trailers(told)).into_response())
}

/// The status, whether it is a replay, and the body.
async fn send(app: &Router, path: &str, key: Option<&str>) -> (StatusCode, bool, String) {
    let mut request = Request::post(path);
    if let Some(key) = key {
        request = request.header("idempotency-key", key);
    }
    let request = request.body(Body::empty()).expect("a request");
    let response = app.clone().oneshot(request).await.expect("an answer");
    let (status, replayed) =
        (response.status(), response.headers().contains_key("idempotent-replayed"));
    let body = to_bytes(response.into_body(), 1 << 16).await.expect("a body");
    (status, replayed, String::from_utf8_lossy(&body).into_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_handler_writes_is_committed_with_its_response() {
    let (shop, once) = Shop::new().await;
    let app = shop.app(once);
    let first = send(&app, "/pay", Some("k")).await;
    assert_eq!(first, (StatusCode::CREATED, false, "paid".to_owned()));
    assert_eq!(shop.payments().await, 1);
    let again = send(&app, "/pay", Some("k")).await;
    assert_eq!(again, (StatusCode::CREATED, true, "paid".to_owned()));
    assert_eq!((shop.payments().await, shop.runs()), (1, 1));
    let stream = send(&app, "/stream", Some("s")).await;
    assert_eq!(stream, (StatusCode::OK, false, "paid".to_owned()));
    assert_eq!(shop.payments().await, 2);
    let (status, _, body) = send(&app, "/stream", Some("s")).await;
    assert!(status == 409 && body.contains("idempotency_response_not_stored"), "{body}");
    assert_eq!(shop.runs(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_handler_writes_that_answers_with_an_error_is_rolled_back() {
    let (shop, once) = Shop::new().await;
    let app = shop.app(once);
    // Stored: a repeat is given it.
    for replayed in [false, true] {
        let refused = send(&app, "/refuse", Some("r")).await;
        assert_eq!(
            refused,
            (StatusCode::UNPROCESSABLE_ENTITY, replayed, "no such account".to_owned())
        );
    }
    assert_eq!((shop.payments().await, shop.runs()), (0, 1));
    // Not stored: a repeat runs.
    for _ in 0..2 {
        assert_eq!(send(&app, "/fail", Some("f")).await.0, StatusCode::BAD_GATEWAY);
    }
    assert_eq!((shop.payments().await, shop.runs()), (0, 3));
    for replayed in [false, true] {
        assert_eq!(
            send(&app, "/trailers", Some("t")).await,
            (StatusCode::OK, replayed, String::new())
        );
    }
    assert_eq!((shop.payments().await, shop.runs()), (0, 4));
    for replayed in [false, true] {
        let undone = send(&app, "/undo", Some("u")).await;
        assert_eq!(undone, (StatusCode::OK, replayed, "undone".to_owned()));
    }
    assert_eq!((shop.payments().await, shop.runs()), (0, 5));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_handler_writes_is_committed_with_a_response_that_is_not_stored() {
    let (shop, once) = Shop::new().await;
    let app = shop.app(once);
    assert_eq!(send(&app, "/unkept", Some("k")).await.0, StatusCode::CREATED);
    assert_eq!(shop.payments().await, 1);
    let (status, _, body) = send(&app, "/unkept", Some("k")).await;
    assert!(status == 409 && body.contains("idempotency_response_not_stored"), "{status} {body}");
    assert_eq!((shop.payments().await, shop.runs()), (1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_response_whose_transaction_was_not_committed_is_not_given() {
    let (shop, once) = Shop::new().await;
    let app = shop.app(once);
    shop.breaks.store(true, Ordering::SeqCst);
    let (status, _, body) = send(&app, "/pay", Some("k")).await;
    assert!(status == 503 && body.contains("idempotency_not_committed"), "{status} {body}");
    assert_eq!(shop.payments().await, 0);
    shop.breaks.store(false, Ordering::SeqCst);
    assert_eq!(send(&app, "/pay", Some("k")).await.0, StatusCode::CREATED);
    assert_eq!((shop.payments().await, shop.runs()), (1, 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_that_nobody_would_commit_is_none() {
    let (shop, once) = Shop::new().await;
    let app = shop.app(once);
    for (path, key) in [("/bare", Some("k")), ("/pay", None)] {
        let (status, _, body) = send(&app, path, key).await;
        assert!(status == 500 && body.contains("idempotency_misconfigured"), "{status} {body}");
    }
    assert_eq!(shop.payments().await, 0);
    // A handler that leaves its transaction behind has done nothing that can be kept.
    let (status, _, body) = send(&app, "/leak", Some("l")).await;
    assert!(status == 503 && body.contains("idempotency_not_committed"), "{status} {body}");
    assert_eq!(shop.payments().await, 0);
}

/// What one of them has written would be lost, as the record is completed in the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_execution_has_one_transaction() {
    let (shop, once) = Shop::new().await;
    let app = shop.app(once);
    for path in ["/two", "/within"] {
        let (status, _, body) = send(&app, path, Some(path)).await;
        assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR, "{path}: {body}");
        assert_eq!(shop.payments().await, 0, "{path}");
    }
    // The function did not begin.
    assert_eq!(shop.runs(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_handler_has_written_that_was_cut_is_rolled_back_whatever_is_answered_for_it() {
    let (shop, once) = Shop::new().await;
    let app = shop.app(once);
    let (status, _, body) = send(&app, "/cut", Some("c")).await;
    assert!(status == 503 && body.contains("idempotency_not_committed"), "{status} {body}");
    assert_eq!((shop.payments().await, shop.runs()), (0, 1));
    assert_eq!(send(&app, "/cut", Some("c")).await, (StatusCode::OK, false, "paid".to_owned()));
    assert_eq!((shop.payments().await, shop.runs()), (1, 2));
}

#[derive(Debug, thiserror::Error)]
enum PayError {
    #[error(transparent)]
    Idempotency(#[from] IdempotencyError),
    #[error(transparent)]
    Tx(#[from] TxError),
    #[error("refused")]
    Refused,
}

#[lock_core::idempotent(
    key = "{order}", scope = Scope::of("tests"), client = once, fingerprint = order, tx = tx
)]
async fn charge(
    once: Idempotency,
    shop: Shop,
    mut tx: Tx<Db>,
    order: u32,
    refuses: bool,
) -> Result<String, PayError> {
    shop.write(&mut tx).await?;
    if refuses {
        return Err(PayError::Refused);
    }
    Ok(format!("charged {order}"))
}

#[derive(Debug, thiserror::Error)]
enum HalfError {
    #[error(transparent)]
    Lock(#[from] AcquireError),
    #[error(transparent)]
    Tx(#[from] TxError),
}

/// A lock inside is lost in the middle, and the function makes a value of that.
#[lock_core::idempotent(key = "{order}", scope = global, client = once, tx = tx)]
async fn shrug(once: Idempotency, shop: Shop, tx: Tx<Db>, order: u32) -> Result<String, PayError> {
    Ok(match half(once.locks(), &shop, tx).await {
        Ok(()) => format!("charged {order}"),
        Err(_) => format!("will charge {order}"),
    })
}

#[lock_core::distributed_lock(key = "half", client = locks, hold = "2s")]
async fn half(locks: &LockClient, shop: &Shop, mut tx: Tx<Db>) -> Result<(), HalfError> {
    shop.write(&mut tx).await?;
    if shop.runs() == 1 {
        std::future::pending::<()>().await;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_value_that_was_made_of_a_cut_commits_nothing() {
    let (shop, once) = Shop::new().await;
    let call = async || shrug(once.clone(), shop.clone(), Tx::of(&shop.pool), 1).await;
    match call().await {
        Err(PayError::Idempotency(IdempotencyError::NotCommitted(error))) => {
            assert!(matches!(*error, CommitError::Cut { .. }), "{error:?}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(shop.payments().await, 0);
    assert_eq!(call().await.expect("a charge"), "charged 1");
    assert_eq!((shop.payments().await, shop.runs()), (1, 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_function_keeps_its_value_in_its_transaction() {
    let (shop, once) = Shop::new().await;
    let call = async |order, refuses| {
        charge(once.clone(), shop.clone(), Tx::of(&shop.pool), order, refuses).await
    };
    for _ in 0..2 {
        assert_eq!(call(1, false).await.expect("a charge"), "charged 1");
    }
    assert_eq!((shop.payments().await, shop.runs()), (1, 1));
    for _ in 0..2 {
        assert!(matches!(call(2, true).await, Err(PayError::Refused)));
    }
    assert_eq!((shop.payments().await, shop.runs()), (1, 3));
    shop.breaks.store(true, Ordering::SeqCst);
    match call(3, false).await {
        Err(PayError::Idempotency(error @ IdempotencyError::NotCommitted(_))) => {
            assert!(error.is_retryable());
            let IdempotencyError::NotCommitted(error) = &error else { unreachable!() };
            assert!(matches!(**error, CommitError::NotCommitted { .. }), "{error:?}");
        }
        other => panic!("{other:?}"),
    }
    shop.breaks.store(false, Ordering::SeqCst);
    assert_eq!(call(3, false).await.expect("a charge"), "charged 3");
    assert_eq!((shop.payments().await, shop.runs()), (2, 5));
    let error = Tx::of(&shop.pool).open().await.map(drop).expect_err("nobody would commit it");
    assert!(matches!(error, TxError::Unseated) && error.to_string().contains("tx = .."));
}
