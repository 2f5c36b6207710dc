//! Keys made of others.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::Request;
use http::request::Parts;
use lock_core::Key;
use pin_project_lite::pin_project;

use super::extractor::{Extracted, KeyExtractor};
use super::when::When;
use crate::answer::Reject;

/// Combines extractors. Implemented for those of this module; give your own an empty `impl`.
pub trait Combine: Sized {
    /// The segments of this key, then those of the other. The first of the two that skips or
    /// refuses decides, and the other is not asked.
    ///
    /// Two different pairs never give one key. Of two whose number of segments may differ, such
    /// as two [`key_fn`](super::key_fn), the first makes one segment as a whole:
    /// `tenant:7` and `order:8` are `tenant%3A7:order:8`.
    #[must_use]
    fn and<E>(self, other: E) -> And<Self, E> {
        And { first: self, second: other }
    }

    /// The other key, where this one skips:
    /// `header("order:{x-order}").optional().or(query("order:{id}"))`. Both name the same things
    /// by the same prefix, or one thing has two locks. A request may carry both, with different
    /// values: the handler must go by the first too.
    #[must_use]
    fn or<E>(self, other: E) -> Or<Self, E> {
        Or { first: self, second: other }
    }

    /// Asks for a key only where the predicate holds; other requests run without a lock.
    #[must_use]
    fn when<P>(self, predicate: P) -> When<Self, P>
    where
        P: Fn(&Parts) -> bool + Clone + Send + Sync + 'static,
    {
        When::new(self, predicate)
    }
}

#[cfg(feature = "axum")]
impl Combine for super::PathKey {}
impl Combine for super::FixedKey {}
impl Combine for super::HeaderKey {}
impl Combine for super::QueryKey {}
impl Combine for super::JsonPointerKey {}
impl<F> Combine for super::FnKey<F> {}
impl<A, C> Combine for And<A, C> {}
impl<A, C> Combine for Or<A, C> {}
impl<K, P> Combine for When<K, P> {}

/// One key out of two extractors, the segments of both; made by [`Combine::and`].
#[derive(Debug, Clone)]
pub struct And<A, C> {
    first: A,
    second: C,
}

/// The key of the first extractor, or of the second where that skips; made by [`Combine::or`].
#[derive(Debug, Clone)]
pub struct Or<A, C> {
    first: A,
    second: C,
}

impl<A, C, B> KeyExtractor<B> for And<A, C>
where
    A: KeyExtractor<B>,
    C: KeyExtractor<A::Body>,
{
    type Body = C::Body;
    type Future = AndFuture<A::Future, C, C::Future>;

    fn extract(&self, request: Request<B>) -> Self::Future {
        let second = self.second.clone();
        let apart = self.first.segments().or(second.segments()).is_none();
        AndFuture { pair: Pair::First { first: self.first.extract(request), second }, apart }
    }

    fn pass(&self, request: Request<B>) -> Request<Self::Body> {
        self.second.pass(self.first.pass(request))
    }

    fn segments(&self) -> Option<usize> {
        Some(self.first.segments()? + self.second.segments()?)
    }
}

impl<A, C, B> KeyExtractor<B> for Or<A, C>
where
    A: KeyExtractor<B>,
    C: KeyExtractor<A::Body>,
{
    type Body = C::Body;
    type Future = OrFuture<A::Future, C, C::Future>;

    fn extract(&self, request: Request<B>) -> Self::Future {
        let second = self.second.clone();
        OrFuture { pair: Pair::First { first: self.first.extract(request), second } }
    }

    fn pass(&self, request: Request<B>) -> Request<Self::Body> {
        self.second.pass(self.first.pass(request))
    }

    fn segments(&self) -> Option<usize> {
        self.first.segments().filter(|first| self.second.segments() == Some(*first))
    }
}

pin_project! {
    // ## First => Second, where the second is asked at all
    #[project = PairProj]
    enum Pair<F, C, G> {
        First { #[pin] first: F, second: C },
        Second { #[pin] second: G, key: Option<Key> },
    }
}

pin_project! {
    /// Asks the two extractors of an [`And`] for the key of one request, one after the other.
    pub struct AndFuture<F, C, G> {
        #[pin]
        pair: Pair<F, C, G>,
        // Nothing else would tell where the first key ends.
        apart: bool,
    }
}

impl<F, C, G, B, D> Future for AndFuture<F, C, G>
where
    F: Future<Output = Extracted<B>>,
    C: KeyExtractor<B, Body = D, Future = G>,
    G: Future<Output = Extracted<D>>,
{
    type Output = Extracted<D>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let (mut pair, apart) = (this.pair, *this.apart);
        loop {
            let next = match pair.as_mut().project() {
                PairProj::First { first, second } => match ready!(first.poll(cx)) {
                    Extracted::Lock(key, request) => {
                        Pair::Second { second: second.extract(request), key: Some(key) }
                    }
                    Extracted::Skip(request) => {
                        return Poll::Ready(Extracted::Skip(second.pass(request)));
                    }
                    Extracted::Reject(reject, parts) => {
                        return Poll::Ready(Extracted::Reject(reject, parts));
                    }
                },
                PairProj::Second { second, key } => {
                    return Poll::Ready(match (ready!(second.poll(cx)), key) {
                        (Extracted::Lock(more, request), Some(key)) => {
                            joined(key.as_str(), &more, apart, request)
                        }
                        (other, _) => other,
                    });
                }
            };
            pair.set(next);
        }
    }
}

fn joined<B>(first: &str, second: &Key, apart: bool, request: Request<B>) -> Extracted<B> {
    let first = if apart { Key::encode_segment(first) } else { first.into() };
    match Key::from_encoded(format!("{first}:{second}")) {
        Ok(key) => Extracted::Lock(key, request),
        Err(error) => Extracted::Reject(Reject::from(error), request.into_parts().0),
    }
}

pin_project! {
    /// Asks the extractors of an [`Or`] for the key of one request, the second if the first skips.
    pub struct OrFuture<F, C, G> {
        #[pin]
        pair: Pair<F, C, G>,
    }
}

impl<F, C, G, B, D> Future for OrFuture<F, C, G>
where
    F: Future<Output = Extracted<B>>,
    C: KeyExtractor<B, Body = D, Future = G>,
    G: Future<Output = Extracted<D>>,
{
    type Output = Extracted<D>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut pair = self.project().pair;
        loop {
            let next = match pair.as_mut().project() {
                PairProj::First { first, second } => match ready!(first.poll(cx)) {
                    Extracted::Skip(request) => {
                        Pair::Second { second: second.extract(request), key: None }
                    }
                    Extracted::Lock(key, request) => {
                        return Poll::Ready(Extracted::Lock(key, second.pass(request)));
                    }
                    Extracted::Reject(reject, parts) => {
                        return Poll::Ready(Extracted::Reject(reject, parts));
                    }
                },
                PairProj::Second { second, .. } => return second.poll(cx),
            };
            pair.set(next);
        }
    }
}

impl<F, C, G> fmt::Debug for AndFuture<F, C, G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AndFuture").finish_non_exhaustive()
    }
}

impl<F, C, G> fmt::Debug for OrFuture<F, C, G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OrFuture").finish_non_exhaustive()
    }
}
