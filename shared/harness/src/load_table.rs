//! How many of a folder's files load, and which keys keep the others from it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use crate::index::{Entry, Index, Kind, yaml_files};
use crate::refusal::Refusal;

/// What became of every file of a folder.
#[derive(Debug, Default)]
pub struct LoadTable {
    /// Files of each kind, and how many of them load.
    pub kinds: BTreeMap<&'static str, Count>,
    /// Files that are no YAML or include what is not there.
    pub unreadable: Vec<Refusal>,
    /// Of the tasks that do not load: what is refused in them.
    pub causes: BTreeMap<String, Cause>,
    /// Functions that are done natively, and in how many tasks.
    pub native: BTreeMap<&'static str, usize>,
}

/// How many there are and how many of them load.
#[derive(Debug, Default, Clone, Copy)]
pub struct Count {
    /// All.
    pub total: usize,
    /// Those that load.
    pub loaded: usize,
}

/// A key that is refused.
#[derive(Debug, Default)]
pub struct Cause {
    /// In how many tasks.
    pub tasks: usize,
    /// In how many of them nothing else is refused.
    pub alone: usize,
    /// The first refusal of it.
    pub example: String,
}

impl LoadTable {
    /// Reads every `.yaml` file below a folder.
    ///
    /// # Errors
    /// The folder cannot be listed.
    pub fn of(folder: &Path) -> std::io::Result<Self> {
        let mut table = Self::default();
        let mut index = Index::default();
        let mut groups = Vec::new();
        for path in yaml_files(folder)? {
            match Entry::read(&path) {
                Ok(entry) => {
                    table.note(&entry);
                    if entry.kind == Kind::Group {
                        groups.push(entry.clone());
                    }
                    index.add(entry);
                }
                Err(refusal) => table.unreadable.push(refusal),
            }
        }
        let count = table.kinds.entry("groups, with every task in them").or_default();
        for group in &groups {
            count.total += 1;
            count.loaded += usize::from(index.group(group).is_ok());
        }
        Ok(table)
    }

    fn note(&mut self, entry: &Entry) {
        let name = match entry.kind {
            Kind::Task => "tasks",
            Kind::PythonTask => "tasks written in Python (`class`)",
            Kind::Template => "templates that others include",
            Kind::Group | Kind::Tag => return,
        };
        let count = self.kinds.entry(name).or_default();
        count.total += 1;
        match entry.kind {
            Kind::Task => {}
            Kind::Template => {
                count.loaded += 1;
                return;
            }
            _ => return,
        }
        match entry.task(None) {
            Ok(task) => {
                count.loaded += 1;
                let shapes: BTreeSet<&'static str> = task.native_shapes().collect();
                for shape in shapes {
                    *self.native.entry(shape).or_default() += 1;
                }
            }
            Err(refusals) => self.refused(&refusals),
        }
    }

    fn refused(&mut self, refusals: &[Refusal]) {
        let causes: BTreeSet<String> = refusals.iter().map(Refusal::cause).collect();
        let is_alone = causes.len() == 1;
        for key in causes {
            let refusal = refusals.iter().find(|refusal| refusal.cause() == key);
            let cause = self.causes.entry(key).or_default();
            cause.tasks += 1;
            cause.alone += usize::from(is_alone);
            if cause.example.is_empty() {
                cause.example = refusal.map(|refusal| refusal.reason.clone()).unwrap_or_default();
            }
        }
    }

    /// The table as Markdown.
    #[must_use]
    pub fn markdown(&self) -> String {
        let mut out = String::new();
        // Writing to a text cannot fail.
        self.write(&mut out).unwrap_or_default();
        out
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        writeln!(out, "| files | all | load | share |\n| --- | ---: | ---: | ---: |")?;
        for (kind, count) in &self.kinds {
            let share = 100.0 * count.loaded as f64 / count.total.max(1) as f64;
            writeln!(out, "| {kind} | {} | {} | {share:.1} % |", count.total, count.loaded)?;
        }
        writeln!(out, "| files that cannot be read | {} | | |", self.unreadable.len())?;
        writeln!(
            out,
            "\n| refused key | tasks | by it alone | the first reason |\n| --- | ---: | ---: | --- |"
        )?;
        let mut causes: Vec<_> = self.causes.iter().collect();
        causes.sort_by_key(|(key, cause)| (std::cmp::Reverse(cause.tasks), (*key).clone()));
        for (key, cause) in causes {
            let reason: String = cause
                .example
                .replace('\n', " ")
                .replace('|', "\\|")
                .chars()
                .take(140)
                .collect();
            writeln!(out, "| `{key}` | {} | {} | {reason} |", cause.tasks, cause.alone)?;
        }
        writeln!(out, "\n| function done natively | tasks |\n| --- | ---: |")?;
        for (shape, tasks) in &self.native {
            writeln!(out, "| `{shape}` | {tasks} |")?;
        }
        for refusal in &self.unreadable {
            writeln!(out, "\n{refusal}")?;
        }
        Ok(())
    }
}
