//! The metrics of a process, for Prometheus.

use std::sync::OnceLock;
use std::time::Duration;

use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use lock_core::metrics::SECONDS_BUCKETS;
use lock_tower::metrics::describe;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

use crate::Trouble;

/// One recorder per process, however many servers are in it.
static RECORDER: OnceLock<PrometheusHandle> = OnceLock::new();

/// Histograms grow until somebody drains them.
const UPKEEP_EVERY: Duration = Duration::from_secs(5);

/// The text format of Prometheus.
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

/// Records from now on; before the first lock, or what is held now would be missing in its gauge.
/// Its upkeep ends with the runtime.
pub(super) fn install() -> Result<(), Trouble> {
    if RECORDER.get().is_some() {
        return Ok(());
    }
    // The dashboard in docs/ reads buckets; those of several processes can be added up.
    let seconds = Matcher::Suffix("_seconds".to_owned());
    let recorder = PrometheusBuilder::new()
        .set_buckets_for_metric(seconds, SECONDS_BUCKETS)?
        .install_recorder()?;
    describe();
    let upkeep = recorder.clone();
    if RECORDER.set(recorder).is_ok() {
        drop(tokio::spawn(async move {
            loop {
                tokio::time::sleep(UPKEEP_EVERY).await;
                upkeep.run_upkeep();
            }
        }));
    }
    Ok(())
}

pub(crate) async fn metrics() -> impl IntoResponse {
    let text = RECORDER.get().map(PrometheusHandle::render).unwrap_or_default();
    ([(CONTENT_TYPE, TEXT)], text)
}
