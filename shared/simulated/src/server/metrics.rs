//! `/metrics` under the names of an engine. What that engine does not say is absent.

use std::fmt::Write;

use super::replica::Load;
use crate::config::Names;

/// The text; none where the engine has no metrics.
pub(super) fn text(names: Names, model: &str, load: &Load) -> Option<String> {
    let label = format!(
        "{{model_name=\"{}\",engine=\"0\"}}",
        model.replace('\\', "\\\\").replace('"', "\\\"")
    );
    let totals = &load.totals;
    let mut text = String::new();
    let mut line = |name: &str, kind: &str, value: f64| {
        let label = if names == Names::LlamaCpp { "" } else { label.as_str() };
        // Writing to a string does not fail.
        writeln!(text, "# TYPE {name} {kind}\n{name}{label} {value}").unwrap_or_default();
    };
    match names {
        Names::None => return None,
        Names::Vllm => {
            line("vllm:num_requests_running", "gauge", f64::from(load.running));
            line("vllm:num_requests_waiting", "gauge", f64::from(load.waiting));
            line("vllm:kv_cache_usage_perc", "gauge", load.kv_use);
            line("vllm:num_preemptions_total", "counter", totals.preemptions as f64);
            line(
                "vllm:prefix_cache_queries_total",
                "counter",
                totals.prefix_queries as f64,
            );
            line("vllm:prefix_cache_hits_total", "counter", totals.prefix_hits as f64);
            line("vllm:prompt_tokens_total", "counter", totals.prompt_tokens as f64);
            line(
                "vllm:generation_tokens_total",
                "counter",
                totals.generated_tokens as f64,
            );
        }
        Names::Sglang => {
            line("sglang:num_running_reqs", "gauge", f64::from(load.running));
            line("sglang:num_queue_reqs", "gauge", f64::from(load.waiting));
            line("sglang:token_usage", "gauge", load.kv_use);
            line(
                "sglang:num_retracted_requests_total",
                "counter",
                totals.preemptions as f64,
            );
            line("sglang:cached_tokens_total", "counter", totals.prefix_hits as f64);
            line("sglang:prompt_tokens_total", "counter", totals.prompt_tokens as f64);
            line(
                "sglang:generation_tokens_total",
                "counter",
                totals.generated_tokens as f64,
            );
        }
        Names::LlamaCpp => {
            line("llamacpp:requests_processing", "gauge", f64::from(load.running));
            line("llamacpp:requests_deferred", "gauge", f64::from(load.waiting));
            line("llamacpp:prompt_tokens_total", "counter", totals.prompt_tokens as f64);
            line(
                "llamacpp:prompt_tokens_cached_total",
                "counter",
                totals.prefix_hits as f64,
            );
            line(
                "llamacpp:tokens_predicted_total",
                "counter",
                totals.generated_tokens as f64,
            );
        }
    }
    Some(text)
}
