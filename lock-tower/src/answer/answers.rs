//! How a layer answers: what its application has chosen, and the defaults.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::{Response, StatusCode};
use http_body::Body;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Either, Full};

use super::grpc::Wire;
use super::refusal::Refusal;
use crate::BoxError;

/// The body of an answer: the layer's own, or one of the application's closure.
pub(crate) type AnswerBody = Either<Full<Bytes>, UnsyncBoxBody<Bytes, BoxError>>;

/// A closure of the application that answers in the place of the layer.
type Custom<C> = dyn Fn(&Refusal<'_, C>) -> Response<AnswerBody> + Send + Sync;

/// The choices of the application in place of the default answers.
#[derive(Clone)]
pub(crate) struct Answers<C> {
    /// One at most for each cause.
    statuses: Vec<(C, StatusCode)>,
    custom: Option<Arc<Custom<C>>>,
}

impl<C> Default for Answers<C> {
    fn default() -> Self {
        Self { statuses: Vec::new(), custom: None }
    }
}

impl<C: Copy + PartialEq + fmt::Debug> Answers<C> {
    #[track_caller]
    pub(crate) fn set_status(&mut self, cause: C, status: StatusCode) {
        assert!(
            status.is_client_error() || status.is_server_error(),
            "the status of {cause:?} is {status}, it must be from 400 to 599"
        );
        self.statuses.retain(|(known, _)| *known != cause);
        self.statuses.push((cause, status));
    }

    pub(crate) fn set_custom<B>(
        &mut self,
        answer: impl Fn(&Refusal<'_, C>) -> Response<B> + Send + Sync + 'static,
    ) where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let boxed = |body: B| Either::Right(body.map_err(Into::into).boxed_unsync());
        self.custom = Some(Arc::new(move |refusal| answer(refusal).map(boxed)));
    }

    /// Answers a request whose head is still here.
    pub(crate) fn refuse(&self, head: &Parts, refusal: Refusal<'_, C>) -> Response<AnswerBody> {
        self.answer(Wire::of(&head.headers), Refusal { request: Some(head), ..refusal })
    }

    /// Answers a request that came over `wire`.
    pub(crate) fn answer(&self, wire: Wire, refusal: Refusal<'_, C>) -> Response<AnswerBody> {
        let chosen = self.statuses.iter().find(|(cause, _)| *cause == refusal.cause);
        let reply = refusal.reply.over(wire, chosen.map(|(_, status)| *status));
        let refusal = Refusal { reply, ..refusal };
        tracing::debug!(
            code = refusal.code(),
            waited_ms = refusal.waited.as_millis() as u64,
            tries = refusal.tries,
            "a request is answered by its layer"
        );
        #[cfg(feature = "metrics")]
        crate::metrics::refused(refusal.code());
        let response = match &self.custom {
            Some(custom) => custom(&refusal),
            None => refusal.default_response().map(Either::Left),
        };
        refusal.reply.mark(response)
    }
}

impl<C: fmt::Debug> fmt::Debug for Answers<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answers")
            .field("statuses", &self.statuses)
            .field("custom", &self.custom.is_some())
            .finish()
    }
}
