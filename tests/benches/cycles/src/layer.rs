//! Requests through the layer, each of a free key at a server.

use std::convert::Infallible;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Empty};
use lock_tower::LockLayer;
use lock_tower::key::header;
use tower::{Layer as _, ServiceExt as _, service_fn};

use crate::free::keys;
use crate::{LEASE, connect};

pub(crate) async fn requests(url: &str, count: usize) {
    let locks = connect(url).await;
    let layer = LockLayer::new(locks.clone()).key(header("cycles:{x-order}")).wait(LEASE);
    let service = layer.lease(LEASE).layer(service_fn(answer));
    for key in keys(count) {
        let order = key.trim_start_matches("cycles:");
        let request = Request::post("/pay").header("x-order", order).body(Empty::new());
        let asking = service.clone().oneshot(request.expect("a request"));
        let response = asking.await.expect("an answer");
        assert_eq!(response.status(), 200);
        response.into_body().collect().await.expect("its body");
    }
    // The last release is in the background, and the next run would wait for its lease to end.
    assert!(locks.shutdown(LEASE).await.complete, "a release was not answered");
}

async fn answer(_: Request<Empty<Bytes>>) -> Result<Response<Empty<Bytes>>, Infallible> {
    Ok(Response::new(Empty::new()))
}
