//! Task and group files by name.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::file;
use crate::read;
use crate::refusal::{Place, Refusal};
use crate::task::Task;
use crate::yaml::{Map, Node, Value};

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// One task.
    Task,
    /// A task written in Python.
    PythonTask,
    /// Tasks with a mean of their own.
    Group,
    /// Tasks that share a word.
    Tag,
    /// A file that others include.
    Template,
}

/// A file, or a tag.
#[derive(Debug, Clone)]
pub struct Entry {
    /// What it is.
    pub kind: Kind,
    /// Its keys, includes merged; nothing for a tag.
    pub keys: Map,
    /// The file; of a tag, that of its first task.
    pub place: Place,
    /// The tasks of a tag, in order of their names.
    pub tagged: BTreeSet<String>,
}

/// Everything that folders hold, by name.
#[derive(Debug, Default)]
pub struct Index {
    entries: BTreeMap<String, Entry>,
}

impl Entry {
    /// Reads one file.
    ///
    /// # Errors
    /// The file or what it includes cannot be read.
    pub fn read(path: &Path) -> Result<Self, Refusal> {
        let keys = file::read(path)?;
        let kind = if keys.get("class").is_some() {
            Kind::PythonTask
        } else if keys.get("group").is_some() {
            Kind::Group
        } else if keys.get("task").is_some() {
            Kind::Task
        } else {
            Kind::Template
        };
        let place = Place {
            file: path.into(),
            line: 0,
        };
        Ok(Self {
            kind,
            keys,
            place,
            tagged: BTreeSet::new(),
        })
    }

    /// The name that the file gives.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        let key = if self.kind == Kind::Group { "group" } else { "task" };
        self.keys.get(key).and_then(Node::text)
    }

    /// The task that the file describes.
    ///
    /// # Errors
    /// Everything that is refused.
    pub fn task(&self, overrides: Option<&Map>) -> Result<Task, Vec<Refusal>> {
        match overrides {
            None => read::task(&self.keys, &self.place),
            Some(overrides) => {
                let mut keys = self.keys.clone();
                keys.update(overrides);
                read::task(&keys, &self.place)
            }
        }
    }
}

impl Index {
    /// Reads every `.yaml` file below a folder, in the order of their paths; of two that give one name the first one counts.
    /// Files that cannot be read are left out: see [`Entry::read`] for why.
    ///
    /// # Errors
    /// The folder cannot be listed.
    pub fn build(folder: &Path) -> std::io::Result<Self> {
        let mut index = Self::default();
        for path in yaml_files(folder)? {
            if let Ok(entry) = Entry::read(&path) {
                index.add(entry);
            }
        }
        Ok(index)
    }

    /// Adds a file under its name and its tags.
    pub fn add(&mut self, entry: Entry) {
        let Some(name) = entry.name().map(str::to_owned) else {
            return;
        };
        if self.entries.contains_key(&name) {
            return;
        }
        if entry.kind != Kind::Group {
            for tag in texts(entry.keys.get("tag")) {
                let place = entry.place.clone();
                let tag = self.entries.entry(tag).or_insert_with(|| Entry {
                    kind: Kind::Tag,
                    keys: Map::default(),
                    place,
                    tagged: BTreeSet::new(),
                });
                tag.tagged.insert(name.clone());
            }
        }
        self.entries.insert(name, entry);
    }

    /// What a name stands for.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Entry> {
        self.entries.get(name)
    }
}

fn texts(node: Option<&Node>) -> Vec<String> {
    match node.map(|node| &node.value) {
        Some(Value::Text(text)) => vec![text.clone()],
        Some(Value::List(nodes)) => nodes.iter().filter_map(|node| node.text().map(str::to_owned)).collect(),
        _ => Vec::new(),
    }
}

/// Every `.yaml` file below a folder, sorted by path.
///
/// # Errors
/// A folder cannot be listed.
pub fn yaml_files(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "yaml") {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}
