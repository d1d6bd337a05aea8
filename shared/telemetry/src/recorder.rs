//! Recording and exporting. Before [`install`] everything recorded is dropped, which costs nothing.

use std::sync::OnceLock;

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

use crate::Metric;

static HANDLE: OnceLock<Option<PrometheusHandle>> = OnceLock::new();

/// Starts recording in this process. A second call changes nothing.
pub fn install() {
    HANDLE.get_or_init(|| PrometheusBuilder::new().install_recorder().ok());
}

/// All metrics in the Prometheus text format; empty before [`install`].
#[must_use]
pub fn render() -> String {
    HANDLE
        .get()
        .and_then(Option::as_ref)
        .map(PrometheusHandle::render)
        .unwrap_or_default()
}

/// Adds one to a counter.
pub fn count<const N: usize>(metric: Metric, labels: [(&'static str, &'static str); N]) {
    add(metric, 1, labels);
}

/// Adds to a counter.
pub fn add<const N: usize>(metric: Metric, amount: u64, labels: [(&'static str, &'static str); N]) {
    metrics::counter!(metric.name(), &labels).increment(amount);
}

/// Sets a gauge.
pub fn set<const N: usize>(metric: Metric, value: f64, labels: [(&'static str, &'static str); N]) {
    metrics::gauge!(metric.name(), &labels).set(value);
}

/// Adds an observation to a distribution.
pub fn observe<const N: usize>(metric: Metric, value: f64, labels: [(&'static str, &'static str); N]) {
    metrics::histogram!(metric.name(), &labels).record(value);
}
