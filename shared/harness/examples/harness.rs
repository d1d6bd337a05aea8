//! Looks at task files of lm-evaluation-harness: how many of a folder load (`load-table DIR`), why one does not
//! (`check FILE...`), what a template makes of a row (`render`, JSON lines of `[template, row]` on stdin) and what is asked for
//! the rows of a task (`requests FILE SPLIT=ROWS.jsonl...`, JSON lines on stdout).

use std::collections::HashMap;
use std::io::{self, BufRead, Write};
use std::path::Path;
use std::process::ExitCode;

use serde_json::{Map, Value, json};
use tidemill_harness::load_table::LoadTable;
use tidemill_harness::request::{Asked, Asker, Request, ShotSource};
use tidemill_harness::{Entry, rows};

type Error = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["load-table", folder] => load_table(folder),
        ["check", files @ ..] => check(files),
        ["render"] => render(),
        ["requests", file, splits @ ..] => requests(file, splits),
        _ => Err("usage: load-table DIR | check FILE... | render | requests FILE SPLIT=ROWS.jsonl...".into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nothing is left to do when stderr is gone too.
            writeln!(io::stderr(), "{error}").ok();
            ExitCode::FAILURE
        }
    }
}

fn load_table(folder: &str) -> Result<(), Error> {
    let table = LoadTable::of(Path::new(folder))?;
    Ok(write!(io::stdout(), "{}", table.markdown())?)
}

fn check(files: &[&str]) -> Result<(), Error> {
    for file in files {
        match Entry::read(Path::new(file))
            .map_err(|refusal| vec![refusal])
            .and_then(|entry| entry.task(None))
        {
            Ok(task) => writeln!(io::stdout(), "{file}: {task:#?}")?,
            Err(refusals) => {
                for refusal in refusals {
                    writeln!(io::stdout(), "{refusal}")?;
                }
            }
        }
    }
    Ok(())
}

fn render() -> Result<(), Error> {
    for line in io::stdin().lock().lines() {
        let pair: (String, Map<String, Value>) = serde_json::from_str(&line?)?;
        let rendered = match tidemill_harness::request::render(&pair.0, &pair.1) {
            Ok(text) => json!({"text": text}),
            Err(error) => json!({"error": error}),
        };
        writeln!(io::stdout(), "{rendered}")?;
    }
    Ok(())
}

fn requests(file: &str, splits: &[&str]) -> Result<(), Error> {
    let entry = Entry::read(Path::new(file))?;
    let task = entry
        .task(None)
        .map_err(|refusals| refusals.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))?;
    let mut files = HashMap::new();
    for split in splits {
        let (name, path) = split.split_once('=').ok_or("a split is written as name=path")?;
        let lines = std::fs::read_to_string(path)?;
        let read = lines
            .lines()
            .map(serde_json::from_str::<Map<String, Value>>)
            .collect::<Result<Vec<_>, _>>()?;
        files.insert(name, rows::conform(read));
    }
    let of = |name: &str| {
        files
            .get(name)
            .cloned()
            .ok_or_else(|| format!("split {name} is not given"))
    };
    let evaluated = task.kept(of(task.evaluated_split())?, false)?;
    let pool = match task.shot_source() {
        ShotSource::Samples(samples) => samples.to_vec(),
        ShotSource::Split(_) if task.num_fewshot.unwrap_or(0) == 0 => Vec::new(),
        ShotSource::Split(name) => task.kept(of(name)?, true)?,
    };
    let first = evaluated.first().ok_or("no rows are left")?;
    let mut asker = Asker::new(&task, first, pool)?;
    for row in &evaluated {
        writeln!(io::stdout(), "{}", shown(&asker.ask(row)?))?;
    }
    Ok(())
}

fn shown(asked: &Asked) -> Value {
    let pairs = match &asked.request {
        Request::Generate { prompt } => json!([[prompt]]),
        Request::Choices { pairs, unconditional } => {
            let alone = unconditional.iter().map(|continuation| json!(["", continuation]));
            pairs.iter().map(|pair| json!(pair)).chain(alone).collect()
        }
        Request::Continue { context, continuation } => json!([[context, continuation]]),
        Request::Whole { text } => json!([[text]]),
    };
    json!({"arguments": pairs, "target": asked.target, "gold": asked.gold.as_ref().map(|gold| &gold.indices)})
}
