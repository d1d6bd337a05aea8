//! What an engine says of its load, read from its metrics in Prometheus' text format.
//!
//! Only the lines that matter are looked into. Each quantity has one name an engine, and the names that older versions gave
//! it; the names of all engines are in one table, because their prefixes keep them apart. What is not there is absent.

use tidemill_domain::EngineKind;

use crate::Load;

/// What a line is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quantity {
    Running,
    Waiting,
    KvUse,
    Preemptions,
    HitTokens,
    QueryTokens,
    /// Prompt tokens that were computed, where an engine counts those that were found apart.
    ComputedTokens,
}

/// The quantity that a metric of this name tells.
fn quantity(name: &str) -> Option<Quantity> {
    let (engine, name) = name.split_once(':')?;
    Some(match (engine, name) {
        ("vllm", "num_requests_running") | ("sglang", "num_running_reqs") | ("llamacpp", "requests_processing") => {
            Quantity::Running
        }
        ("vllm", "num_requests_waiting") | ("sglang", "num_queue_reqs") | ("llamacpp", "requests_deferred") => {
            Quantity::Waiting
        }
        ("vllm", "kv_cache_usage_perc" | "gpu_cache_usage_perc")
        | ("sglang", "token_usage")
        | ("llamacpp", "kv_cache_usage_ratio") => Quantity::KvUse,
        ("vllm", "num_preemptions_total" | "num_preemptions") | ("sglang", "num_retracted_requests_total") => {
            Quantity::Preemptions
        }
        ("vllm", "prefix_cache_hits_total" | "gpu_prefix_cache_hits_total")
        | ("sglang", "cached_tokens_total")
        | ("llamacpp", "prompt_tokens_cached_total") => Quantity::HitTokens,
        ("vllm", "prefix_cache_queries_total" | "gpu_prefix_cache_queries_total")
        | ("sglang", "prompt_tokens_total") => Quantity::QueryTokens,
        ("llamacpp", "prompt_tokens_total") => Quantity::ComputedTokens,
        _ => return None,
    })
}

/// The engine whose names the text has.
pub(crate) fn engine(text: &str) -> Option<EngineKind> {
    text.lines().find_map(|line| match line.split_once(':')?.0 {
        "vllm" => Some(EngineKind::Vllm),
        "sglang" => Some(EngineKind::Sglang),
        "llamacpp" => Some(EngineKind::LlamaCpp),
        _ => None,
    })
}

/// Reads the text. Several engines behind one address are added up; of their key-value caches the fullest counts.
pub(crate) fn read(text: &str) -> Load {
    let (mut load, mut computed) = (Load::default(), None);
    for line in text.lines() {
        let Some((quantity, value)) = sample(line) else {
            continue;
        };
        match quantity {
            Quantity::Running => add_level(&mut load.running, value),
            Quantity::Waiting => add_level(&mut load.waiting, value),
            Quantity::KvUse => load.kv_use = Some(load.kv_use.unwrap_or(0.0).max(value)),
            Quantity::Preemptions => add_count(&mut load.preemptions, value),
            Quantity::HitTokens => add_count(&mut load.prefix_hit_tokens, value),
            Quantity::QueryTokens => add_count(&mut load.prefix_query_tokens, value),
            Quantity::ComputedTokens => add_count(&mut computed, value),
        }
    }
    if let (Some(computed), Some(hits)) = (computed, load.prefix_hit_tokens) {
        load.prefix_query_tokens = Some(computed + hits);
    }
    load
}

/// A line's quantity and value, if it is one of ours. Nothing but the name is looked at in most lines.
fn sample(line: &str) -> Option<(Quantity, f64)> {
    if !line.starts_with(['v', 's', 'l']) {
        return None;
    }
    let end = line.find(['{', ' ', '\t'])?;
    let quantity = quantity(&line[..end])?;
    let rest = &line[end..];
    // Label values may hold anything, a closing brace too; the value and a time stamp cannot.
    let rest = rest.rfind('}').map_or(rest, |brace| &rest[brace + 1..]);
    let value: f64 = rest.split_ascii_whitespace().next()?.parse().ok()?;
    (value.is_finite() && value >= 0.0).then_some((quantity, value))
}

fn add_level(level: &mut Option<u32>, value: f64) {
    *level = Some(level.unwrap_or(0).saturating_add(value as u32));
}

fn add_count(count: &mut Option<u64>, value: f64) {
    *count = Some(count.unwrap_or(0).saturating_add(value as u64));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_engine_is_read_by_its_own_names() {
        let vllm = r#"# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="tiny"} 12.0
vllm:num_requests_waiting{engine="0",model_name="tiny"} 3.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="tiny",reason="capacity"} 3.0
vllm:kv_cache_usage_perc{engine="0",model_name="tiny"} 0.25
vllm:num_preemptions_total{engine="0",model_name="tiny"} 7.0
vllm:num_preemptions_created{engine="0",model_name="tiny"} 1.76e+09
vllm:prefix_cache_queries_total{engine="0",model_name="tiny"} 1.2e+03
vllm:prefix_cache_hits_total{engine="0",model_name="tiny"} 384.0
"#;
        let expected = Load {
            running: Some(12),
            waiting: Some(3),
            kv_use: Some(0.25),
            preemptions: Some(7),
            prefix_hit_tokens: Some(384),
            prefix_query_tokens: Some(1200),
        };
        assert_eq!(read(vllm), expected);
        let sglang = r#"sglang:num_running_reqs{model_name="m",tp_rank="0"} 12.0
sglang:num_queue_reqs{model_name="m",tp_rank="0"} 3.0
sglang:token_usage{model_name="m"} 0.25
sglang:num_retracted_reqs{model_name="m"} 1.0
sglang:num_retracted_requests_total{model_name="m"} 7.0
sglang:cached_tokens_total{cache_source="device",model_name="m"} 300.0
sglang:cached_tokens_total{cache_source="host",model_name="m"} 84.0
sglang:prompt_tokens_total{is_streaming="False",model_name="m"} 1000.0
sglang:prompt_tokens_total{is_streaming="True",model_name="m"} 200.0
"#;
        assert_eq!(read(sglang), expected);
        let llamacpp = "llamacpp:requests_processing 12\nllamacpp:requests_deferred 3\n\
                        llamacpp:prompt_tokens_total 816\nllamacpp:prompt_tokens_cached_total 384\n";
        let expected = Load {
            kv_use: None,
            preemptions: None,
            ..expected
        };
        assert_eq!(read(llamacpp), expected);
    }

    #[test]
    fn old_names_mean_the_same() {
        let old =
            "vllm:gpu_cache_usage_perc 0.5\nvllm:gpu_prefix_cache_hits_total 1\nllamacpp:kv_cache_usage_ratio 0.75";
        let load = read(old);
        assert_eq!((load.kv_use, load.prefix_hit_tokens), (Some(0.75), Some(1)));
    }

    #[test]
    fn what_is_not_said_is_absent_and_never_0() {
        assert_eq!(read(""), Load::default());
        assert_eq!(
            read("vllm:num_requests_running NaN\nvllm:num_requests_waiting\n"),
            Load::default()
        );
        assert_eq!(
            read("vllm:num_requests_running_total 5\nother:num_requests_running 5"),
            Load::default()
        );
        assert_eq!(read("vllm:num_requests_running 0").running, Some(0));
    }

    #[test]
    fn several_engines_are_added_up_and_labels_may_hold_anything() {
        let text = "vllm:num_requests_running{engine=\"0\",model_name=\"a} 9\"} 1 1700000000\n\
                    vllm:num_requests_running{engine=\"1\"}\t2\n\
                    vllm:kv_cache_usage_perc{engine=\"0\"} 0.2\nvllm:kv_cache_usage_perc{engine=\"1\"} 0.9\n";
        let load = read(text);
        assert_eq!((load.running, load.kv_use), (Some(3), Some(0.9)));
    }
}
