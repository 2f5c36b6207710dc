//! The service.

use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use tower_service::Service;

use super::body::LockBody;
use super::config::Config;
use super::future::LockFuture;
use crate::key::KeyExtractor;

/// Runs the requests of one key one at a time, or as many at once as its
/// [`LockLayer`](crate::LockLayer) says, which makes it.
///
/// It is ready when the inner service is, and a request takes that readiness along while it waits.
/// So an inner concurrency limit counts waiters too: put it outside.
#[derive(Debug, Clone)]
pub struct LockService<S, K> {
    inner: S,
    key: K,
    config: Arc<Config>,
}

impl<S, K> LockService<S, K> {
    pub(super) fn new(inner: S, key: K, config: Arc<Config>) -> Self {
        Self { inner, key, config }
    }
}

impl<S, K, B, R> Service<Request<B>> for LockService<S, K>
where
    S: Service<Request<K::Body>, Response = Response<R>> + Clone,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    R: http_body::Body + Send + 'static,
    K: KeyExtractor<B>,
{
    type Response = Response<LockBody<R>>;
    type Error = S::Error;
    type Future = LockFuture<S, K, B, R>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let next = self.inner.clone();
        // The clone was never polled ready; the one that was goes with the request.
        let ready = mem::replace(&mut self.inner, next);
        LockFuture::new(ready, self.key.extract(request), Arc::clone(&self.config))
    }
}
