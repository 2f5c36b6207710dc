//! Each layer in each place: a request goes through, under the lock, and nothing stays behind.

use std::time::Duration;

use axum::body::Body;
use axum::error_handling::HandleErrorLayer;
use axum::middleware::{Next, from_fn};
use http::header::{AUTHORIZATION, SERVER};
use http::{HeaderName, HeaderValue, Request, Response, StatusCode};
use tower::limit::GlobalConcurrencyLimitLayer;
use tower::load_shed::LoadShedLayer;
use tower::util::{MapRequestLayer, MapResponseLayer};
use tower::{BoxError, ServiceBuilder};
use tower_http::add_extension::AddExtensionLayer;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::compression::CompressionLayer;
use tower_http::cors::CorsLayer;
use tower_http::decompression::{DecompressionLayer, RequestDecompressionLayer};
use tower_http::limit::RequestBodyLimitLayer;
use tower_http::map_request_body::MapRequestBodyLayer;
use tower_http::map_response_body::MapResponseBodyLayer;
use tower_http::metrics::InFlightRequestsLayer;
use tower_http::normalize_path::NormalizePathLayer;
use tower_http::propagate_header::PropagateHeaderLayer;
use tower_http::request_id::{MakeRequestUuid, PropagateRequestIdLayer, SetRequestIdLayer};
use tower_http::sensitive_headers::SetSensitiveHeadersLayer;
use tower_http::set_header::{SetRequestHeaderLayer, SetResponseHeaderLayer};
use tower_http::timeout::{
    RequestBodyDeadlineLayer, RequestBodyTimeoutLayer, ResponseBodyDeadlineLayer,
    ResponseBodyTimeoutLayer, TimeoutLayer,
};
use tower_http::trace::TraceLayer;
use tower_http::validate_request::ValidateRequestHeaderLayer;

use crate::stage::{Stage, governed, outside, places, rate};

/// Ends nothing here.
const LONG: Duration = Duration::from_secs(30);

/// A test of a layer beside both of ours, in each place. The retry of an idempotent order is
/// answered by its record, whatever stands around.
macro_rules! stands_everywhere {
    ($($name:ident: $layer:expr,)+) => {
        $(
            #[tokio::test(start_paused = true)]
            async fn $name() {
                let stage = Stage::new();
                for (place, app) in places!(stage.shop(), stage.lock(), $layer) {
                    stage.orders(&app, place).await;
                }
                for place in 0..6 {
                    let stage = Stage::new();
                    let (place, app) =
                        places!(stage.shop(), stage.once(), $layer).swap_remove(place);
                    let first = stage.orders(&app, place).await;
                    let again = crate::common::send(&app, crate::stage::order("k")).await;
                    assert_eq!((again.status, again.text), (first.status, first.text), "{place}");
                    assert_eq!(stage.runs(), 1, "{place}");
                }
            }
        )+
    };
}

stands_everywhere! {
    timeout: TimeoutLayer::with_status_code(StatusCode::REQUEST_TIMEOUT, LONG),
    request_body_timeout: RequestBodyTimeoutLayer::new(LONG),
    response_body_timeout: ResponseBodyTimeoutLayer::new(LONG),
    body_deadlines: outside!(RequestBodyDeadlineLayer::new(LONG), ResponseBodyDeadlineLayer::new(LONG)),
    request_validation: ValidateRequestHeaderLayer::has_header_value("authorization", "Bearer ann").unwrap(),
    accepted_types: ValidateRequestHeaderLayer::accept("text/plain"),
    governor: governed!(rate!(100)),
    compression: CompressionLayer::new(),
    // A body that nobody has compressed passes.
    decompression: DecompressionLayer::new(),
    compression_and_its_end: outside!(DecompressionLayer::new(), CompressionLayer::new()),
    request_decompression: RequestDecompressionLayer::new(),
    trace: TraceLayer::new_for_http(),
    cors: CorsLayer::permissive(),
    request_header: SetRequestHeaderLayer::if_not_present(
        HeaderName::from_static("x-tenant"),
        HeaderValue::from_static("t"),
    ),
    response_header: SetResponseHeaderLayer::overriding(SERVER, HeaderValue::from_static("shop")),
    propagated_header: PropagateHeaderLayer::new(HeaderName::from_static("x-forwarded-for")),
    sensitive_headers: SetSensitiveHeadersLayer::new([AUTHORIZATION]),
    catch_panic: CatchPanicLayer::new(),
    request_id: outside!(
        SetRequestIdLayer::x_request_id(MakeRequestUuid),
        PropagateRequestIdLayer::x_request_id()
    ),
    body_limit: RequestBodyLimitLayer::new(1_024),
    normalize_path: NormalizePathLayer::trim_trailing_slash(),
    mapped_request_body: MapRequestBodyLayer::new(Body::new),
    mapped_response_body: MapResponseBodyLayer::new(Body::new),
    extension: AddExtensionLayer::new("t"),
    requests_in_flight: InFlightRequestsLayer::pair().0,
    mapped_request: MapRequestLayer::new(|request: Request<_>| request),
    mapped_response: MapResponseLayer::new(|response: Response<_>| response),
    // It takes requests with a body of the type `axum::body::Body` only.
    middleware_of_axum: outside!(MapRequestBodyLayer::new(Body::new), from_fn(pass)),
    limits_of_tower: ServiceBuilder::new()
        .layer(HandleErrorLayer::new(async |_: BoxError| StatusCode::SERVICE_UNAVAILABLE))
        .layer(LoadShedLayer::new())
        .layer(GlobalConcurrencyLimitLayer::new(8))
        .timeout(LONG),
    a_limit_of_one: GlobalConcurrencyLimitLayer::new(1),
}

async fn pass(request: axum::extract::Request, next: Next) -> axum::response::Response {
    next.run(request).await
}
