//! A task file with everything that it includes.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::refusal::{Place, Refusal};
use crate::yaml::{self, Map, Node, Value};

/// Reads a file and what it includes: relative to the file, one or a list, nested. Keys of the file itself win; `task_list` is
/// not inherited.
///
/// # Errors
/// The file, its text or an include is not readable, or a file includes itself.
pub fn read(path: &Path) -> Result<Map, Refusal> {
    read_with(path, &mut HashSet::new())
}

fn read_with(path: &Path, seen: &mut HashSet<PathBuf>) -> Result<Map, Refusal> {
    let file: Arc<Path> = path.into();
    let refuse = |line: usize, key: &str, reason: String| Refusal {
        place: Place {
            file: Arc::clone(&file),
            line,
        },
        key: key.to_owned(),
        reason,
    };
    let canonical = path
        .canonicalize()
        .map_err(|error| refuse(0, "file", error.to_string()))?;
    if !seen.insert(canonical) {
        return Err(refuse(0, "include", "includes itself, or is included twice".to_owned()));
    }
    let text = std::fs::read_to_string(path).map_err(|error| refuse(0, "file", error.to_string()))?;
    let node = yaml::parse(&text, &file)?;
    let Value::Map(mut own) = node.value else {
        return Err(refuse(
            node.place.line,
            "file",
            format!("holds {}, not a mapping", node.kind()),
        ));
    };
    let Some(include) = own.remove("include") else {
        return Ok(own);
    };
    let mut merged = Map::default();
    for name in names(&include) {
        let Some(name) = name.text() else {
            let reason = format!("takes a path or a list of paths, not {}", name.kind());
            return Err(refuse(name.place.line, "include", reason));
        };
        let target = path.parent().unwrap_or(Path::new("")).join(name);
        if !target.is_file() {
            return Err(refuse(
                include.place.line,
                "include",
                format!("{name:?} does not exist"),
            ));
        }
        let mut included = read_with(&target, seen)?;
        included.remove("task_list");
        merged.update(&included);
    }
    merged.update(&own);
    Ok(merged)
}

fn names(include: &Node) -> Vec<&Node> {
    match &include.value {
        Value::List(nodes) => nodes.iter().collect(),
        _ => vec![include],
    }
}
