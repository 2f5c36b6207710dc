//! Metrics for Prometheus, and traces for whoever looks at the terminal.

use std::sync::OnceLock;
use std::time::Duration;

use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use lock_core::metrics::SECONDS_BUCKETS;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::{self, format::FmtSpan};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::Trouble;

static RECORDER: OnceLock<PrometheusHandle> = OnceLock::new();

/// Histograms grow until somebody drains them.
const UPKEEP_EVERY: Duration = Duration::from_secs(5);

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

/// Spans of locks are at DEBUG, and say what they came to where they end.
pub(crate) fn install(traces: bool) -> Result<(), Trouble> {
    let level = if traces { LevelFilter::DEBUG } else { LevelFilter::WARN };
    let ours = Targets::new().with_default(LevelFilter::WARN);
    let ours = ours.with_target("lock_core", level).with_target("lock_tower", level);
    let printed = fmt::layer().with_span_events(FmtSpan::CLOSE);
    tracing_subscriber::registry().with(printed).with(ours).init();
    let recorder = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), SECONDS_BUCKETS)?
        .install_recorder()?;
    lock_tower::metrics::describe();
    let drained = recorder.clone();
    drop(tokio::spawn(async move {
        loop {
            tokio::time::sleep(UPKEEP_EVERY).await;
            drained.run_upkeep();
        }
    }));
    drop(RECORDER.set(recorder));
    Ok(())
}

pub(crate) fn rendered() -> String {
    RECORDER.get().map(PrometheusHandle::render).unwrap_or_default()
}

pub(crate) async fn metrics() -> impl IntoResponse {
    ([(CONTENT_TYPE, TEXT)], rendered())
}
