//! The target of a request: a key taken, held and given back, or a call of an endpoint.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use axum::http::header::CONTENT_TYPE;
use axum::http::{Method, Request, StatusCode, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use lock_core::{AcquireError, Key, LockClient, LockOptions};
use serde_json::Value;

use crate::Trouble;
use crate::arguments::Arguments;

/// No answer of an endpoint is longer, as far as it is read.
const BODY_BYTES_MAX: usize = 64 * 1024;

/// How a request ended, unless by a fault or an answer that should not be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Done,
    /// It was told that it would not be served in time.
    Refused,
    /// It waited for all of its budget.
    InVain,
}

#[derive(Debug, Clone)]
pub(crate) enum Target {
    Key(Arc<KeyTarget>),
    Endpoint(Arc<Endpoint>),
}

#[derive(Debug)]
pub(crate) struct KeyTarget {
    locks: LockClient,
    key: Key,
    hold: Duration,
    options: LockOptions,
}

#[derive(Debug)]
pub(crate) struct Endpoint {
    client: Client<HttpConnector, Body>,
    uri: Uri,
    method: Method,
    body: Bytes,
    is_json: bool,
    /// An answer that takes longer is not waited for.
    patience: Duration,
}

impl Target {
    pub(crate) async fn connect(arguments: &Arguments) -> Result<Self, Trouble> {
        if let Some(uri) = &arguments.endpoint {
            let client = Client::builder(TokioExecutor::new()).build_http();
            let body = arguments.body.clone();
            let is_json = serde_json::from_str::<Value>(&body).is_ok();
            let patience = arguments.budget.saturating_mul(2) + Duration::from_secs(1);
            return Ok(Self::Endpoint(Arc::new(Endpoint {
                client,
                uri: uri.clone(),
                method: arguments.method.clone(),
                body: body.into(),
                is_json,
                patience,
            })));
        }
        let locks = LockClient::connect(&arguments.url).await?;
        let key = Key::new(&arguments.key)?;
        let options = locks.defaults().with_admission(arguments.admission());
        Ok(Self::Key(Arc::new(KeyTarget { locks, key, hold: arguments.hold, options })))
    }

    /// The same with this `wait` and these `retries`; an endpoint has its own.
    pub(crate) fn with_waits(self, wait: Duration, retries: u32) -> Self {
        match self {
            Self::Key(target) => {
                let KeyTarget { locks, key, hold, options } = &*target;
                let options = options.with_wait(wait).with_retries(retries);
                let (locks, key, hold) = (locks.clone(), key.clone(), *hold);
                Self::Key(Arc::new(KeyTarget { locks, key, hold, options }))
            }
            endpoint @ Self::Endpoint(_) => endpoint,
        }
    }

    /// One request, from its begin to its end.
    pub(crate) async fn call(&self) -> Result<End, Trouble> {
        match self {
            Self::Key(target) => target.call().await,
            Self::Endpoint(target) => target.call().await,
        }
    }

    pub(crate) async fn close(&self) {
        if let Self::Key(target) = self {
            target.locks.shutdown(Duration::from_secs(1)).await;
        }
    }
}

impl KeyTarget {
    async fn call(&self) -> Result<End, Trouble> {
        match self.locks.lock(&self.key).options(self.options).await {
            Ok(guard) => {
                tokio::time::sleep(self.hold).await;
                guard.release().await?;
                Ok(End::Done)
            }
            Err(AcquireError::Overloaded(_)) => Ok(End::Refused),
            Err(AcquireError::Timeout(_)) => Ok(End::InVain),
            Err(error) => Err(error.into()),
        }
    }
}

impl Endpoint {
    async fn call(&self) -> Result<End, Trouble> {
        let mut request = Request::builder().method(&self.method).uri(&self.uri);
        if self.is_json {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let request = request.body(Body::from(self.body.clone()))?;
        let answer = async {
            let (head, body) = self.client.request(request).await?.into_parts();
            let body = to_bytes(Body::new(body), BODY_BYTES_MAX).await.unwrap_or_default();
            Ok::<_, Trouble>((head.status, body))
        };
        let Ok(answer) = tokio::time::timeout(self.patience, answer).await else {
            return Ok(End::InVain);
        };
        let (status, body) = answer?;
        ended(status, &body).ok_or_else(|| format!("{} answered {status}", self.uri).into())
    }
}

/// The end that an answer means; `None` for one that is no answer to a load.
fn ended(status: StatusCode, body: &[u8]) -> Option<End> {
    if status.is_success() {
        return Some(End::Done);
    }
    let problem: Value = serde_json::from_slice(body).unwrap_or_default();
    match (problem["code"].as_str(), status) {
        (Some("lock_timeout"), _) | (None, StatusCode::CONFLICT) => Some(End::InVain),
        (_, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS) => Some(End::Refused),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_by_its_code_and_then_by_its_status() {
        let problem = |code: &str| format!(r#"{{"code":"{code}"}}"#).into_bytes();
        for (status, body, end) in [
            (200, Vec::new(), Some(End::Done)),
            (429, problem("lock_overloaded"), Some(End::Refused)),
            (503, problem("lock_overloaded"), Some(End::Refused)),
            (429, problem("lock_waiters"), Some(End::Refused)),
            (429, b"slow down".to_vec(), Some(End::Refused)),
            (409, problem("lock_timeout"), Some(End::InVain)),
            (503, problem("lock_timeout"), Some(End::InVain)),
            (409, Vec::new(), Some(End::InVain)),
            (409, problem("sold_out"), None),
            (404, Vec::new(), None),
            (500, Vec::new(), None),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!(ended(status, &body), end, "{status}");
        }
    }
}
