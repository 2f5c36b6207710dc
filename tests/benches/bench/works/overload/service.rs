//! The handler behind the layer, and behind what else one would put there.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::{Request, Response, StatusCode};
use axum::response::IntoResponse;
use lock_core::LockClient;
use lock_tower::LockLayer;
use lock_tower::key::fixed;
use tokio::time::timeout;
use tower::limit::ConcurrencyLimitLayer;
use tower::util::BoxCloneSyncService;
use tower::{Layer, ServiceExt, service_fn};

/// The means that keeps requests of the key apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rival {
    Admission,
    NoAdmission,
    Limit,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Done,
    /// Told at once, or at least before its budget had run out, that it cannot be served.
    Refused,
    /// It waited for all of its budget.
    InVain,
}

/// One handler at a time.
#[derive(Clone)]
pub(crate) struct Service {
    inner: BoxCloneSyncService<Request<Body>, Response<Body>, Infallible>,
    /// Where the service itself does not bound the wait.
    within: Option<Duration>,
}

impl Rival {
    pub(crate) const ALL: [Rival; 3] = [Rival::Admission, Rival::NoAdmission, Rival::Limit];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Rival::Admission => "LockLayer",
            Rival::NoAdmission => "LockLayer without admission",
            Rival::Limit => "ConcurrencyLimit(1), timeout",
        }
    }

    /// Two tries within the budget, for a handler that takes `hold`.
    pub(crate) fn service(self, hold: Duration, budget: Duration) -> Service {
        let handler = service_fn(move |_: Request<Body>| async move {
            tokio::time::sleep(hold).await;
            Ok::<_, Infallible>("sold".into_response())
        });
        let layer = || LockLayer::new(LockClient::memory()).wait(budget / 2).retries(1);
        let locked = |layer: LockLayer| {
            let service = layer.key(fixed("sku")).layer(handler);
            BoxCloneSyncService::new(service.map_response(|response| response.map(Body::new)))
        };
        match self {
            Rival::Admission => Service { inner: locked(layer()), within: None },
            Rival::NoAdmission => Service { inner: locked(layer().admission(false)), within: None },
            Rival::Limit => {
                let service = ConcurrencyLimitLayer::new(1).layer(handler);
                Service { inner: BoxCloneSyncService::new(service), within: Some(budget) }
            }
        }
    }
}

impl Service {
    pub(crate) async fn call(&self) -> End {
        let request = Request::post("/buy").body(Body::empty()).expect("a request");
        // The wait for readiness is a part of it.
        let answer = self.inner.clone().oneshot(request);
        let Ok(answer) = timeout(self.within.unwrap_or(Duration::MAX), answer).await else {
            return End::InVain;
        };
        let (head, body) = answer.unwrap_or_else(|never| match never {}).into_parts();
        let body = to_bytes(body, usize::MAX).await.expect("a body");
        match head.status {
            StatusCode::OK => End::Done,
            // `lock_timeout`
            StatusCode::CONFLICT => End::InVain,
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => End::Refused,
            status => panic!("{status}: {}", String::from_utf8_lossy(&body)),
        }
    }
}
