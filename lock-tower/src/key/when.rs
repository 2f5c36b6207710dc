//! A key that is asked for only where a predicate holds.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::Request;
use http::request::Parts;
use pin_project_lite::pin_project;

use super::extractor::{Extracted, KeyExtractor};

/// Asks an extractor for the key of those requests that a predicate holds for; made by
/// [`Combine::when`](super::Combine::when).
#[derive(Clone)]
pub struct When<K, P> {
    key: K,
    predicate: P,
}

impl<K, P> When<K, P> {
    pub(super) fn new(key: K, predicate: P) -> Self {
        Self { key, predicate }
    }
}

impl<K, P, B> KeyExtractor<B> for When<K, P>
where
    K: KeyExtractor<B>,
    P: Fn(&Parts) -> bool + Clone + Send + Sync + 'static,
{
    type Body = K::Body;
    type Future = WhenFuture<K::Future, K::Body>;

    fn extract(&self, request: Request<B>) -> Self::Future {
        let (parts, body) = request.into_parts();
        let wanted = (self.predicate)(&parts);
        let request = Request::from_parts(parts, body);
        if wanted {
            WhenFuture { asked: Some(self.key.extract(request)), skipped: None }
        } else {
            WhenFuture { asked: None, skipped: Some(self.key.pass(request)) }
        }
    }

    fn pass(&self, request: Request<B>) -> Request<Self::Body> {
        self.key.pass(request)
    }

    fn segments(&self) -> Option<usize> {
        self.key.segments()
    }
}

pin_project! {
    /// The key of one request, or none, as the predicate of a [`When`] has decided.
    pub struct WhenFuture<F, B> {
        #[pin]
        asked: Option<F>,
        // Some where the key is not asked for.
        skipped: Option<Request<B>>,
    }
}

impl<F, B> Future for WhenFuture<F, B>
where
    F: Future<Output = Extracted<B>>,
{
    type Output = Extracted<B>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        match this.asked.as_pin_mut() {
            Some(asked) => asked.poll(cx),
            None => {
                let request = this.skipped.take().expect("polled again after it was ready");
                Poll::Ready(Extracted::Skip(request))
            }
        }
    }
}

impl<K: fmt::Debug, P> fmt::Debug for When<K, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("When").field("key", &self.key).finish_non_exhaustive()
    }
}

impl<F, B> fmt::Debug for WhenFuture<F, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WhenFuture").finish_non_exhaustive()
    }
}
