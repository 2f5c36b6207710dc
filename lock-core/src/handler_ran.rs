//! How far the work got behind an answer that is not its own.

/// How far a handler got, on a response that somebody else gave in its place.
///
/// Whoever answers for a handler puts this into the extensions of the response. An idempotency
/// layer around it reads this before the status: after [`No`](Self::No) a retry runs the handler,
/// and after [`InPart`](Self::InPart) the outcome is unknown. The answers of `lock_tower`'s layers
/// and the response of [`AcquireError::Lost`](crate::AcquireError::Lost) carry it; a layer of your
/// own that stops handlers should too:
///
/// ```
/// # #[cfg(feature = "http")] {
/// use lock_core::scope::HandlerRan;
///
/// let mut response = http::Response::new("too slow");
/// *response.status_mut() = http::StatusCode::GATEWAY_TIMEOUT;
/// response.extensions_mut().insert(HandlerRan::InPart);
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HandlerRan {
    /// It never began, or it did nothing that a retry could repeat.
    No,
    /// It was stopped in the middle: it may have done everything, a part, or nothing.
    InPart,
}
