//! Keys of path parameters, as axum's router has matched them.

use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{FromRequestParts, MatchedPath, RawPathParams};
use futures_util::FutureExt;
use http::StatusCode;
use http::request::Parts;

use super::extractor::{KeyOutcome, extract_from_head};
use super::template::{Kind, Template, Value, any_name};
use super::typed::typed_parts;
use crate::answer::Reject;

const KIND: Kind = Kind { call: "path", what: "the path parameter" };

/// A key of path parameters: `path("order:{id}").parsed::<u64>()` under the route `/pay/{id}`.
///
/// ```
/// use lock_tower::key::path;
///
/// // `/pay/7` is `order:7`; `/pay/07` and `/pay/+7`, which `Path<u64>` takes for 7 too, are
/// // answered with 400 before the handler runs.
/// let key = path("order:{id}").parsed::<u64>();
/// # let _ = key;
/// ```
///
/// Without [`parsed`](PathKey::parsed) the key is the spelling: `/pay/7` and `/pay/07` are two
/// locks. That is only for values whose spelling is the identity, such as a SKU that the handler
/// takes as text too.
///
/// The template is that of [the module](super#templates), with the names of the route's parameters
/// in the braces. A value is percent-decoded once, by the router, so the key is of the text that
/// the handler gets. A wildcard `{*rest}` is `{rest}` here, and its value is text with slashes:
/// `a/b`, `a//b` and `a/./b` are three keys, whatever file they mean.
///
/// | the request | the answer |
/// |---|---|
/// | was not routed by axum: the layer stands around the whole `Router` | 500 `lock_path_not_matched`, and an error event |
/// | matched a route without the parameter | 500 `lock_path_param_missing`, and an error event |
/// | matched a route that has the parameter twice, by nesting | 500 `lock_path_param_ambiguous`, and an error event |
/// | matched no route, the layer covers the fallback | 404 `lock_no_route` |
/// | has a parameter that is not UTF-8 | 400 `lock_key_rejected` |
/// | has one that is no spelling of its type, or not the one | 400 `lock_key_not_canonical` |
///
/// Add the layer with [`Router::route_layer`](axum::Router::route_layer), which leaves the
/// fallback alone, with [`Router::layer`](axum::Router::layer), or to a single
/// [`MethodRouter`](axum::routing::MethodRouter); never around the finished router.
///
/// # Panics
///
/// If the template is none.
#[track_caller]
#[must_use]
pub fn path(template: &str) -> PathKey {
    PathKey { template: Template::new(KIND, template, any_name) }
}

/// Takes the path parameters that the router matched for the key; made by [`path`].
#[derive(Debug, Clone)]
pub struct PathKey {
    template: Template<String>,
}

impl PathKey {
    fn outcome(&self, parts: &mut Parts) -> KeyOutcome {
        // The extractor of axum is the only public way to the parameters, and never waits.
        let params = match RawPathParams::from_request_parts(parts, &()).now_or_never() {
            Some(Ok(params)) => params,
            Some(Err(RawPathParamsRejection::InvalidUtf8InPathParam(_))) => {
                return Reject::bad("lock_key_rejected", "a path parameter is not UTF-8").into();
            }
            _ => {
                return Reject::misuse(
                    "lock_path_not_matched",
                    "the lock layer stands outside the router, where no route is matched yet: add \
                     it with `Router::route_layer` or `Router::layer`",
                )
                .into();
            }
        };
        let route = || parts.extensions.get::<MatchedPath>();
        self.template.fill(|name| {
            let mut values = params.iter().filter(|(param, _)| param == name);
            match (values.next(), values.next()) {
                (None, _) => Err(missing(name, route())),
                (Some(_), Some(_)) => Err(ambiguous(name)),
                (Some((_, value)), None) => Ok(Value::One(value.to_owned().into())),
            }
        })
    }
}

/// A request that reached the fallback is nobody's mistake here, so it is no 500. It is not let
/// through either: what runs there may be a nested service that wants its lock.
fn missing(name: &str, route: Option<&MatchedPath>) -> Reject {
    match route {
        Some(route) => Reject::misuse(
            "lock_path_param_missing",
            format!("the route `{}` has no parameter `{name}` for the lock key", route.as_str()),
        ),
        None => Reject::new(StatusCode::NOT_FOUND)
            .with_code("lock_no_route")
            .with_detail("no route matches"),
    }
}

fn ambiguous(name: &str) -> Reject {
    Reject::misuse(
        "lock_path_param_ambiguous",
        format!("the route and one it is nested under both have a parameter `{name}`"),
    )
}

typed_parts!(PathKey);
extract_from_head!(PathKey, |key| Some(key.template.segments()));
