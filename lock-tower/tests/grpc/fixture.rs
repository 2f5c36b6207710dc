//! A method of gRPC behind layers, and a client of it.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::post;
use bytes::{Buf, BufMut, Bytes};
use futures_util::Stream;
use http::Request;
use http::uri::PathAndQuery;
use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};
use tonic_types::StatusExt;
use tower::service_fn;

use crate::common::{Probe, within};

/// Messages that are their bytes.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, into: &mut EncodeBuf<'_>) -> Result<(), Status> {
        into.put(message);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }
}

/// `/shop.Shop/Buy`, with the probe for its method.
pub(crate) fn shop(probe: &Probe) -> Router {
    method(probe, |text| Ok(tonic::Response::new(Bytes::from(text))))
}

/// The same, and in the end the method answers with an error of this code.
pub(crate) fn failing(probe: &Probe, code: Code) -> Router {
    method(probe, move |_| Err(Status::new(code, "the method's own")))
}

type Outcome = Result<tonic::Response<Bytes>, Status>;

fn method<F>(probe: &Probe, outcome: F) -> Router
where
    F: Fn(&'static str) -> Outcome + Clone + Send + Sync + 'static,
{
    let probe = probe.clone();
    let method = move |request: Request<Body>| {
        let (probe, outcome) = (probe.clone(), outcome.clone());
        let work = service_fn(move |_: tonic::Request<Bytes>| {
            let (probe, outcome) = (probe.clone(), outcome.clone());
            async move { outcome(probe.visit().await) }
        });
        async move { tonic::server::Grpc::new(Raw).unary(work, request).await }
    };
    Router::new().route(METHOD, post(method))
}

pub(crate) const METHOD: &str = "/shop.Shop/Buy";

/// A client that is connected with the application.
#[derive(Clone)]
pub(crate) struct Client(Channel);

impl Client {
    pub(crate) async fn of(app: Router) -> Self {
        let (near, far) = tokio::io::duplex(64 * 1024);
        let served = TowerToHyperService::new(app);
        let server = http2::Builder::new(TokioExecutor::new());
        tokio::spawn(server.serve_connection(TokioIo::new(far), served));
        let near = Arc::new(Mutex::new(Some(near)));
        let connector = service_fn(move |_: http::Uri| {
            let near = near.lock().unwrap().take();
            async move { near.map(TokioIo::new).ok_or_else(|| io::Error::other("one connection")) }
        });
        let endpoint = Endpoint::from_static("http://shop");
        Self(within(endpoint.connect_with_connector(connector)).await.unwrap())
    }

    /// Calls the method with these metadata.
    pub(crate) async fn buy(&self, metadata: &[(&'static str, &str)]) -> Result<Bytes, Status> {
        let mut grpc = tonic::client::Grpc::new(self.0.clone());
        within(grpc.ready()).await.unwrap();
        let request = asked(Bytes::from_static(b"one"), metadata);
        let path = PathAndQuery::from_static(METHOD);
        Ok(within(grpc.unary(request, path, Raw)).await?.into_inner())
    }

    /// Calls it with messages of which there may be no end.
    pub(crate) async fn stream<S>(
        &self,
        messages: S,
        metadata: &[(&'static str, &str)],
    ) -> Result<Bytes, Status>
    where
        S: Stream<Item = Bytes> + Send + 'static,
    {
        let mut grpc = tonic::client::Grpc::new(self.0.clone());
        within(grpc.ready()).await.unwrap();
        let path = PathAndQuery::from_static(METHOD);
        let request = asked(messages, metadata);
        Ok(within(grpc.client_streaming(request, path, Raw)).await?.into_inner())
    }
}

fn asked<M>(message: M, metadata: &[(&'static str, &str)]) -> tonic::Request<M> {
    let mut request = tonic::Request::new(message);
    for (name, value) in metadata {
        request.metadata_mut().insert(*name, value.parse().unwrap());
    }
    request
}

/// Asserts what all refusals have in common, and returns when to come back.
#[track_caller]
pub(crate) fn assert_refused(
    answer: &Result<Bytes, Status>,
    code: Code,
    reason: &str,
) -> Option<Duration> {
    let status = answer.as_ref().expect_err("a refusal");
    let details = status.get_error_details();
    let info = details.error_info().unwrap_or_else(|| panic!("no details: {status:?}"));
    assert_eq!((status.code(), &*info.reason), (code, reason), "{status:?}");
    assert_eq!(info.domain, "lock-tower");
    assert!(status.message().contains(' '), "a sentence: {status:?}");
    let delay = details.retry_info().and_then(|retry| retry.retry_delay);
    let pushback = status.metadata().get("grpc-retry-pushback-ms").unwrap().to_str().unwrap();
    let expected = delay.map_or(-1, |delay| i64::try_from(delay.as_millis()).unwrap());
    assert_eq!(pushback, expected.to_string());
    delay
}

/// A refusal after which a client comes back in a second or two.
#[track_caller]
pub(crate) fn assert_come_back(answer: &Result<Bytes, Status>, code: Code, reason: &str) {
    let delay = assert_refused(answer, code, reason);
    assert!(matches!(delay.map(|delay| delay.as_millis()), Some(1_000 | 2_000)), "{delay:?}");
}

/// A refusal after which coming back does not help.
#[track_caller]
pub(crate) fn assert_final(answer: &Result<Bytes, Status>, code: Code, reason: &str) {
    assert_eq!(assert_refused(answer, code, reason), None);
}
