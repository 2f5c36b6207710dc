//! A refusal before there is anything to wait for.

use std::borrow::Cow;

use http::StatusCode;
use lock_core::error::KeyError;
use lock_core::problem::Problem;

use super::reply::Reply;

/// Why a request has no lock key or no idempotency scope, as the client is told.
///
/// A [key extractor](crate::key) or the `scope` closure of an `IdempotencyLayer` gives it. Its
/// status stands; a code or a sentence that is not given is that of the layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reject {
    status: StatusCode,
    code: Option<&'static str>,
    detail: Option<Cow<'static, str>>,
}

impl Reject {
    /// A refusal with this status and the layer's own code: `lock_key_rejected`, or
    /// `idempotency_scope_rejected`.
    #[must_use]
    pub fn new(status: StatusCode) -> Self {
        Self { status, code: None, detail: None }
    }

    /// Sets the stable code that programs read.
    #[must_use]
    pub fn with_code(self, code: &'static str) -> Self {
        Self { code: Some(code), ..self }
    }

    /// Sets the sentence that people read. It goes to the client.
    #[must_use]
    pub fn with_detail(self, detail: impl Into<Cow<'static, str>>) -> Self {
        Self { detail: Some(detail.into()), ..self }
    }

    /// The status of the answer.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The stable code, where one was set.
    #[must_use]
    pub fn code(&self) -> Option<&'static str> {
        self.code
    }

    /// The answer, with what was not set.
    pub(crate) fn reply(self, code: &'static str, detail: &'static str) -> Reply<'static> {
        let detail = self.detail.unwrap_or(Cow::Borrowed(detail));
        Reply::new(self.status, self.code.unwrap_or(code), detail)
    }

    /// The client's mistake.
    pub(crate) fn bad(code: &'static str, detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST).with_code(code).with_detail(detail)
    }

    /// The application's mistake.
    #[cfg(feature = "axum")]
    pub(crate) fn misuse(code: &'static str, detail: impl Into<Cow<'static, str>>) -> Self {
        let detail = detail.into();
        tracing::error!(code, "{detail}");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR).with_code(code).with_detail(detail)
    }
}

impl From<StatusCode> for Reject {
    fn from(status: StatusCode) -> Self {
        Self::new(status)
    }
}

/// As `#[distributed_lock]` answers it: without the key, of which the error shows the beginning.
impl From<KeyError> for Reject {
    fn from(error: KeyError) -> Self {
        let problem = Problem::of(&error.into());
        let reject = Self::new(problem.status()).with_code(problem.code());
        reject.with_detail(problem.detail().to_owned())
    }
}
