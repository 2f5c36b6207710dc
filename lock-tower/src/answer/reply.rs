//! The answer in place of a handler, in the form that the client reads.

use std::borrow::Cow;

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::Full;
use lock_core::problem::Problem;
use lock_core::scope::HandlerRan;

use super::grpc::{GrpcCode, Wire, trailers_only};

/// A problem, with what only a layer knows: who asks, and how far the handler got.
#[derive(Debug, Clone)]
pub(crate) struct Reply<'a> {
    problem: Problem<'a>,
    grpc: GrpcCode,
    ran: HandlerRan,
    wire: Wire,
}

impl<'a> From<Problem<'a>> for Reply<'a> {
    /// The handler never began.
    fn from(problem: Problem<'a>) -> Self {
        let grpc = problem.status().into();
        Self { problem, grpc, ran: HandlerRan::No, wire: Wire::Http }
    }
}

impl<'a> Reply<'a> {
    pub(crate) fn new(
        status: StatusCode,
        code: &'static str,
        detail: impl Into<Cow<'a, str>>,
    ) -> Self {
        Problem::new(status, code, detail).into()
    }

    /// The handler was stopped in the middle: no client may run it again by itself, as many do
    /// after `UNAVAILABLE`.
    pub(crate) fn cut(self) -> Self {
        Self { ran: HandlerRan::InPart, grpc: GrpcCode::Aborted, ..self }
    }

    /// The request is answered in the way that `wire` says, with this status if there is one. The
    /// code of gRPC is that of the cause.
    pub(crate) fn over(self, wire: Wire, status: Option<StatusCode>) -> Self {
        let problem = match status {
            Some(status) => self.problem.with_status(status),
            None => self.problem,
        };
        Self { problem, wire, ..self }
    }

    pub(crate) fn problem(&self) -> &Problem<'a> {
        &self.problem
    }

    pub(crate) fn is_grpc(&self) -> bool {
        self.wire != Wire::Http
    }

    pub(crate) fn response(&self) -> Response<Full<Bytes>> {
        match self.wire {
            Wire::Http => self.problem.response().map(Full::from),
            Wire::Grpc(content_type) => trailers_only(self.grpc, &self.problem, content_type),
        }
    }

    /// Says on the response how far the handler got, unless the application has said so itself.
    pub(crate) fn mark<B>(&self, mut response: Response<B>) -> Response<B> {
        response.extensions_mut().get_or_insert_with(|| self.ran);
        response
    }
}

#[cfg(feature = "idempotency")]
impl Reply<'_> {
    pub(crate) fn come_back(self, estimated_wait: std::time::Duration) -> Self {
        Self { problem: self.problem.come_back(Some(estimated_wait)), ..self }
    }

    /// The same request will be refused again until somebody has looked after it.
    pub(crate) fn failed_precondition(self) -> Self {
        Self { grpc: GrpcCode::FailedPrecondition, ..self }
    }

    /// The handler was stopped in the middle, and what a client makes of that is left to its code.
    pub(crate) fn in_part(self) -> Self {
        Self { ran: HandlerRan::InPart, ..self }
    }
}
