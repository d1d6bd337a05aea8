//! Everything that is wrong with a suite, or what it amounts to.

use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Value, json};
use tidemill_domain::{Benchmark, GroupMean, Manifest, counted};
use tidemill_tasks::{Counted, Extent, Loaded};

use super::{error_json, load, note_errors, warning_json};
use crate::arguments::SuiteCheck;
use crate::exit::Done;
use crate::output;

pub(super) fn run(args: &SuiteCheck) -> anyhow::Result<Done> {
    let mut seen = Counted::default();
    let looked = load(&args.file, &mut seen)?;
    if args.json {
        let (whole, errors, warnings) = match &looked {
            Ok(loaded) => {
                let warnings = loaded.warnings.iter().map(warning_json).collect();
                (Some(described(&loaded.manifest, seen.extents())), Vec::new(), warnings)
            }
            Err(errors) => (None, errors.iter().map(error_json).collect::<Vec<_>>(), Vec::new()),
        };
        let mut object =
            whole.unwrap_or_else(|| json!({ "suite": null, "benchmarks": [], "groups": [], "totals": null }));
        object["file"] = json!(args.file);
        object["valid"] = json!(looked.is_ok());
        object["errors"] = Value::Array(errors);
        object["warnings"] = Value::Array(warnings);
        output::data(&serde_json::to_string_pretty(&object)?)?;
    }
    match &looked {
        Ok(loaded) if !args.json => show(loaded, seen.extents())?,
        Err(errors) if !args.json => {
            note_errors(errors);
            let count = counted(errors.len() as u64, "error");
            output::note(&format!("{}: {count}; nothing was rendered", args.file.display()));
        }
        _ => {}
    }
    Ok(if looked.is_ok() { Done::Valid } else { Done::Refused })
}

fn described(manifest: &Manifest, extents: &[Extent]) -> Value {
    let benchmarks: Vec<Value> = manifest.benchmarks.iter().zip(extents).map(benchmark_json).collect();
    let names = |group: &tidemill_domain::Group| {
        let members = group.members.iter();
        let members = members.filter_map(|member| {
            let benchmark = manifest.benchmarks.get(member.benchmark as usize)?;
            Some(json!({ "benchmark": benchmark.name, "weight": member.weight }))
        });
        members.collect::<Vec<_>>()
    };
    let groups: Vec<Value> = manifest
        .groups
        .iter()
        .map(|group| {
            json!({
                "name": group.name,
                "mean": mean(group.mean),
                "metric": group.metric,
                "members": names(group),
            })
        })
        .collect();
    let prompt_bytes: u64 = extents.iter().map(|extent| extent.prompt_bytes).sum();
    let items: u64 = extents.iter().map(|extent| extent.items).sum();
    json!({
        "suite": manifest.suite,
        "max_failure_rate": manifest.max_failure_rate,
        "benchmarks": benchmarks,
        "groups": groups,
        "totals": { "items": items, "samples": manifest.samples(), "prompt_bytes": prompt_bytes },
    })
}

const fn mean(mean: GroupMean) -> &'static str {
    match mean {
        GroupMean::Macro => "macro",
        GroupMean::Micro => "micro",
    }
}

fn benchmark_json((benchmark, extent): (&Benchmark, &Extent)) -> Value {
    json!({
        "name": benchmark.name,
        "grader": benchmark.grader.kind(),
        "items": extent.items,
        "samples": benchmark.samples(),
        "prompt_bytes": extent.prompt_bytes,
        "longest_prompt_bytes": extent.longest_prompt_bytes,
        "choices": extent.choices,
        "clusters": extent.clusters,
        "subsets": extent.subsets,
        "weighted": benchmark.weights.is_some(),
        "metrics": metrics(benchmark),
    })
}

fn metrics(benchmark: &Benchmark) -> Vec<&str> {
    benchmark.metrics.iter().map(|metric| metric.name.as_str()).collect()
}

fn show(loaded: &Loaded, extents: &[Extent]) -> anyhow::Result<()> {
    let manifest = &loaded.manifest;
    let mut table = Table::new();
    table.load_style(presets::ASCII_BORDERS_ONLY_CONDENSED);
    table.set_header([
        "benchmark",
        "grader",
        "items",
        "samples",
        "prompt bytes",
        "longest",
        "metrics",
    ]);
    for (benchmark, extent) in manifest.benchmarks.iter().zip(extents) {
        table.add_row([
            benchmark.name.to_string(),
            benchmark.grader.kind().to_owned(),
            extent.items.to_string(),
            benchmark.samples().to_string(),
            extent.prompt_bytes.to_string(),
            extent.longest_prompt_bytes.to_string(),
            metrics(benchmark).join(" "),
        ]);
    }
    for column in 2..6 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    output::data(&table.to_string())?;
    for group in &manifest.groups {
        let metric = group.metric.as_deref().unwrap_or("the score");
        let (mean, members) = (mean(group.mean), counted(group.members.len() as u64, "benchmark"));
        output::data(&format!("group {}: {mean} mean of {metric} over {members}", group.name))?;
    }
    let items: u64 = extents.iter().map(|extent| extent.items).sum();
    output::data(&format!(
        "{} {} is well: {}, {}, {}",
        manifest.suite.name,
        manifest.suite.version,
        counted(items, "item"),
        counted(manifest.samples(), "sample"),
        counted(loaded.warnings.len() as u64, "warning")
    ))?;
    for warning in &loaded.warnings {
        output::note(&format!("warning: {warning}"));
    }
    Ok(())
}
