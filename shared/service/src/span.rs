//! The spans of an item, as log lines: `RUST_LOG=debug` shows one for each stage that the item passed.

use tidemill_domain::{ItemKey, TraceContext};

/// Logs that an item passed a stage. All lines of one item have one `trace_id`, whichever processes write them.
pub fn span(stage: &'static str, key: &ItemKey, trace: Option<TraceContext>) {
    if let Some(trace) = trace {
        tracing::debug!(stage, item_id = %key, trace_id = trace.trace_id(), span_id = trace.span_id(), "span");
    }
}
