//! Keys of path parameters, as axum's router has matched them.

use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{FromRequestParts, MatchedPath, RawPathParams};
use futures_util::FutureExt;
use http::StatusCode;
use http::request::Parts;

use super::extractor::{KeyOutcome, KeyReject, extract_from_head};
use super::template::{NoValue, Template};

/// A key of path parameters: `path("buy:{sku}")` under the route `/buy/{sku}`.
///
/// A `:` separates the segments of the key. Each segment has one `{parameter}` at most, whose
/// value is percent-decoded by the router and then encoded as a part of the key, so that it cannot
/// forge another key. A wildcard `{*rest}` is `{rest}` here.
///
/// | the request | the answer |
/// |---|---|
/// | was not routed by axum: the layer stands around the whole `Router` | 500 `lock_path_not_matched`, and an error event |
/// | matched a route without the parameter | 500 `lock_path_param_missing`, and an error event |
/// | matched no route, the layer covers the fallback | 404 `lock_no_route` |
/// | has a parameter that is not UTF-8 | 400 `lock_key_rejected` |
///
/// Add the layer with [`Router::route_layer`](axum::Router::route_layer), which leaves the
/// fallback alone, with [`Router::layer`](axum::Router::layer), or to a single
/// [`MethodRouter`](axum::routing::MethodRouter); never around the finished router.
///
/// # Panics
///
/// If the template has no parameter, two in one segment, or braces that do not match.
#[track_caller]
#[must_use]
pub fn path(template: &str) -> PathKey {
    match Template::parse(template) {
        Ok(template) => PathKey { template },
        Err(reason) => panic!("{reason}"),
    }
}

/// See [`path`].
#[derive(Debug, Clone)]
pub struct PathKey {
    template: Template,
}

impl PathKey {
    fn outcome(&self, parts: &mut Parts) -> KeyOutcome {
        // The extractor of axum is the only public way to the parameters, and never waits.
        let params = match RawPathParams::from_request_parts(parts, &()).now_or_never() {
            Some(Ok(params)) => params,
            Some(Err(RawPathParamsRejection::InvalidUtf8InPathParam(_))) => {
                return KeyReject::bad("lock_key_rejected", "a path parameter is not UTF-8").into();
            }
            _ => {
                return KeyReject::misuse(
                    "lock_path_not_matched",
                    "the lock layer stands outside the router, where no route is matched yet: add \
                     it with `Router::route_layer` or `Router::layer`",
                )
                .into();
            }
        };
        let value_of =
            |name: &str| params.iter().find(|(param, _)| *param == name).map(|(_, value)| value);
        match self.template.fill(value_of) {
            Ok(key) => key.into(),
            Err(NoValue(name)) => missing(name, parts.extensions.get::<MatchedPath>()).into(),
        }
    }
}

/// A request that reached the fallback is nobody's mistake here, so it is no 500. It is not let
/// through either: what runs there may be a nested service that wants its lock.
fn missing(name: &str, route: Option<&MatchedPath>) -> KeyReject {
    match route {
        Some(route) => KeyReject::misuse(
            "lock_path_param_missing",
            format!("the route `{}` has no parameter `{name}` for the lock key", route.as_str()),
        ),
        None => KeyReject::new(StatusCode::NOT_FOUND)
            .with_code("lock_no_route")
            .with_detail("no route matches"),
    }
}

extract_from_head!(PathKey);
