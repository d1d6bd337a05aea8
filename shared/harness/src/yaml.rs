//! A YAML text as a tree whose nodes know their place, with the scalars of YAML 1.1.
//!
//! Task files were written for a reader to which a bare `yes` is true, `0x1F` and `1:30` are integers and `1e-3` is a text. What
//! a scalar means is therefore decided here, and the events of the text come from a parser that leaves it open. Anchors,
//! aliases and merge keys (`<<`) are resolved; `!function` is kept as what it names.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError};
use serde_json::{Map as JsonMap, Number, Value as Json};

use crate::refusal::{Place, Refusal};

/// Deepest nesting of lists and mappings.
const MAX_DEPTH: usize = 64;
/// Most nodes of a file, aliases resolved: a few lines of aliases can stand for millions.
const MAX_NODES: usize = 1_000_000;

/// A value and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// What it is.
    pub value: Value,
    /// Where it begins.
    pub place: Place,
}

/// What a node holds.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Empty, `~` or `null`.
    Null,
    /// `true`, `yes`, `on` and their opposites.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A number with a point.
    Float(f64),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<Node>),
    /// A mapping.
    Map(Map),
    /// The name behind `!function`.
    Function(String),
}

/// A mapping in the order of its text; of equal keys the last one counts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Map {
    entries: Vec<(Node, Node)>,
}

impl Map {
    /// The value under a textual key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entries
            .iter()
            .find(|(name, _)| name.is_text(key))
            .map(|(_, value)| value)
    }

    /// Sets a value, in the place of an equal key if there is one.
    pub fn insert(&mut self, key: Node, value: Node) {
        match self.entries.iter_mut().find(|(name, _)| name.value == key.value) {
            Some(entry) => entry.1 = value,
            None => self.entries.push((key, value)),
        }
    }

    /// Takes a textual key out.
    pub fn remove(&mut self, key: &str) -> Option<Node> {
        let at = self.entries.iter().position(|(name, _)| name.is_text(key))?;
        Some(self.entries.remove(at).1)
    }

    /// Keys and values in order.
    pub fn iter(&self) -> impl Iterator<Item = (&Node, &Node)> {
        self.entries.iter().map(|(key, value)| (key, value))
    }

    /// Textual keys and values in order.
    pub fn named(&self) -> impl Iterator<Item = (&str, &Node)> {
        self.entries.iter().filter_map(|(key, value)| match &key.value {
            Value::Text(name) => Some((name.as_str(), value)),
            _ => None,
        })
    }

    /// Whether there is nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Takes over every entry of another mapping, which wins.
    pub fn update(&mut self, other: &Self) {
        for (key, value) in &other.entries {
            self.insert(key.clone(), value.clone());
        }
    }
}

impl Node {
    fn is_text(&self, text: &str) -> bool {
        matches!(&self.value, Value::Text(own) if own == text)
    }

    /// The text, if it is one.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Whether it is `null` or empty.
    #[must_use]
    pub fn is_null(&self) -> bool {
        self.value == Value::Null
    }

    /// The first `!function` in it, at any depth.
    #[must_use]
    pub fn function(&self) -> Option<(&str, &Place)> {
        match &self.value {
            Value::Function(name) => Some((name, &self.place)),
            Value::List(nodes) => nodes.iter().find_map(Self::function),
            Value::Map(map) => map.iter().find_map(|(_, value)| value.function()),
            _ => None,
        }
    }

    /// The first number in it that is infinite or none, at any depth.
    #[must_use]
    pub fn not_finite(&self) -> Option<&Place> {
        match &self.value {
            Value::Float(number) if !number.is_finite() => Some(&self.place),
            Value::List(nodes) => nodes.iter().find_map(Self::not_finite),
            Value::Map(map) => map
                .iter()
                .find_map(|(key, value)| key.not_finite().or_else(|| value.not_finite())),
            _ => None,
        }
    }

    /// The value as JSON; keys become texts as Python's `str` makes them.
    ///
    /// # Errors
    /// The place and name of a `!function`, which is no data.
    pub fn json(&self) -> Result<Json, (String, Place)> {
        Ok(match &self.value {
            Value::Null => Json::Null,
            Value::Bool(boolean) => Json::Bool(*boolean),
            Value::Int(number) => Json::from(*number),
            Value::Float(number) => Number::from_f64(*number).map_or(Json::Null, Json::Number),
            Value::Text(text) => Json::String(text.clone()),
            Value::List(nodes) => Json::Array(nodes.iter().map(Self::json).collect::<Result<_, _>>()?),
            Value::Map(map) => {
                let mut json = JsonMap::new();
                for (key, value) in map.iter() {
                    json.insert(crate::python::str(&key.json()?), value.json()?);
                }
                Json::Object(json)
            }
            Value::Function(name) => return Err((name.clone(), self.place.clone())),
        })
    }

    /// What kind of value it is, for messages.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self.value {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Int(_) => "an integer",
            Value::Float(_) => "a number",
            Value::Text(_) => "a text",
            Value::List(_) => "a list",
            Value::Map(_) => "a mapping",
            Value::Function(_) => "a !function",
        }
    }
}

/// Reads a text of one document.
///
/// # Errors
/// What is wrong with it, and in which line; also tags other than `!function` and YAML's own.
pub fn parse(text: &str, file: &Arc<Path>) -> Result<Node, Refusal> {
    // A mark at the start says how the text is encoded and is not part of it.
    let mut lines: Vec<String> = text
        .strip_prefix('\u{feff}')
        .unwrap_or(text)
        .split('\n')
        .map(str::to_owned)
        .collect();
    let mut moved = HashSet::new();
    loop {
        let error = match build(&lines.join("\n"), file) {
            Ok(node) => return Ok(node),
            Err(Fault::Refused(refusal)) => return Err(refusal),
            Err(Fault::Scan(error)) => error,
        };
        let Some(line) = lenient(&error, &moved).filter(|line| *line <= lines.len() && moved.len() < MAX_MOVED) else {
            let place = Place {
                file: Arc::clone(file),
                line: error.marker().line(),
            };
            let (key, reason) = ("YAML".to_owned(), error.info().to_owned());
            return Err(Refusal { place, key, reason });
        };
        moved.insert(line);
        lines[line - 1].insert_str(0, INDENT);
    }
}

/// Most lines of a file that are moved to the right.
const MAX_MOVED: usize = 1_000;
const INDENT: &str = "                                ";

/// The line that only stands too far to the left: inside of quotes or brackets, where the reader that task files were written
/// for does not mind, and where white space at the start of a line means nothing.
fn lenient(error: &ScanError, moved: &HashSet<usize>) -> Option<usize> {
    let line = error.marker().line();
    match error.info() {
        "invalid indentation" | "invalid indentation in flow construct" => {
            Some(line).filter(|line| !moved.contains(line))
        }
        // The place is that of the opening quote; the line is one of those that follow it.
        "invalid indentation in quoted scalar" => (line + 1..).find(|line| !moved.contains(line)),
        _ => None,
    }
}

enum Fault {
    Scan(ScanError),
    Refused(Refusal),
}

fn build(text: &str, file: &Arc<Path>) -> Result<Node, Fault> {
    let mut builder = Builder {
        file,
        stack: Vec::new(),
        anchors: HashMap::new(),
        nodes: 0,
        root: None,
        is_merge: false,
    };
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(Fault::Scan)?;
        builder.event(event, span.start.line()).map_err(Fault::Refused)?;
    }
    let root = builder.root.take();
    root.ok_or_else(|| Fault::Refused(builder.refuse(0, "holds nothing")))
}

struct Builder<'f> {
    file: &'f Arc<Path>,
    stack: Vec<Open>,
    anchors: HashMap<usize, Node>,
    nodes: usize,
    root: Option<Node>,
    /// Whether the scalar that is closed next is `<<` without quotes.
    is_merge: bool,
}

/// A list or mapping whose end has not come.
struct Open {
    line: usize,
    anchor: usize,
    kind: OpenKind,
}

enum OpenKind {
    List(Vec<Node>),
    Map {
        own: Map,
        merged: Vec<Map>,
        key: Option<Key>,
    },
}

/// A key whose value has not come.
enum Key {
    Merge,
    Named(Node),
}

impl Builder<'_> {
    fn place(&self, line: usize) -> Place {
        Place {
            file: Arc::clone(self.file),
            line,
        }
    }

    fn refuse(&self, line: usize, reason: impl Into<String>) -> Refusal {
        Refusal {
            place: self.place(line),
            key: "YAML".to_owned(),
            reason: reason.into(),
        }
    }

    fn event(&mut self, event: Event<'_>, line: usize) -> Result<(), Refusal> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let tag = tag.map(|tag| (tag.handle.clone(), tag.suffix.clone()));
                self.is_merge = style == ScalarStyle::Plain && tag.is_none() && text == "<<";
                let value = self.scalar(&text, style, tag, line)?;
                let node = Node {
                    value,
                    place: self.place(line),
                };
                self.close(node, anchor)
            }
            Event::SequenceStart(anchor, _) => self.open(line, anchor, OpenKind::List(Vec::new())),
            Event::MappingStart(anchor, _) => {
                let kind = OpenKind::Map {
                    own: Map::default(),
                    merged: Vec::new(),
                    key: None,
                };
                self.open(line, anchor, kind)
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(open) = self.stack.pop() else {
                    return Ok(());
                };
                let value = match open.kind {
                    OpenKind::List(nodes) => Value::List(nodes),
                    OpenKind::Map { own, merged, .. } => Value::Map(merge(own, merged)),
                };
                let node = Node {
                    value,
                    place: self.place(open.line),
                };
                self.close(node, open.anchor)
            }
            Event::Alias(anchor) => match self.anchors.get(&anchor) {
                Some(node) => {
                    let node = node.clone();
                    self.nodes += size(&node);
                    self.close(node, 0)
                }
                None => Err(self.refuse(line, "an alias stands inside of what it names")),
            },
            _ => Ok(()),
        }
    }

    fn open(&mut self, line: usize, anchor: usize, kind: OpenKind) -> Result<(), Refusal> {
        if self.stack.len() >= MAX_DEPTH {
            return Err(self.refuse(line, format!("is nested deeper than {MAX_DEPTH}")));
        }
        self.stack.push(Open { line, anchor, kind });
        Ok(())
    }

    /// Puts a finished node where it belongs.
    fn close(&mut self, node: Node, anchor: usize) -> Result<(), Refusal> {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            return Err(self.refuse(node.place.line, format!("holds more than {MAX_NODES} values")));
        }
        if anchor > 0 {
            self.anchors.insert(anchor, node.clone());
        }
        let line = node.place.line;
        let is_merge = std::mem::take(&mut self.is_merge);
        match self.stack.last_mut().map(|open| &mut open.kind) {
            None if self.root.is_none() => self.root = Some(node),
            None => return Err(self.refuse(line, "holds more than one document")),
            Some(OpenKind::List(nodes)) => nodes.push(node),
            Some(OpenKind::Map { own, merged, key }) => match key.take() {
                None if is_merge => *key = Some(Key::Merge),
                None => *key = Some(Key::Named(node)),
                Some(Key::Merge) => match merge_sources(node) {
                    Some(maps) => merged.extend(maps),
                    None => return Err(self.refuse(line, "`<<` takes a mapping or a list of mappings")),
                },
                Some(Key::Named(name)) => own.insert(name, node),
            },
        }
        Ok(())
    }

    fn scalar(
        &self,
        text: &str,
        style: ScalarStyle,
        tag: Option<(String, String)>,
        line: usize,
    ) -> Result<Value, Refusal> {
        match tag {
            None if style == ScalarStyle::Plain => Ok(plain(text)),
            None => Ok(Value::Text(text.to_owned())),
            Some((handle, suffix)) if handle == "!" && suffix == "function" => Ok(Value::Function(text.to_owned())),
            Some((_, suffix)) if suffix == "str" => Ok(Value::Text(text.to_owned())),
            Some((handle, _)) if handle == "tag:yaml.org,2002:" => Ok(plain(text)),
            Some((_, suffix)) => Err(self.refuse(line, format!("the tag !{suffix} is not known; only !function is"))),
        }
    }
}

fn size(node: &Node) -> usize {
    match &node.value {
        Value::List(nodes) => 1 + nodes.iter().map(size).sum::<usize>(),
        Value::Map(map) => 1 + map.iter().map(|(_, value)| size(value)).sum::<usize>(),
        _ => 1,
    }
}

fn merge_sources(node: Node) -> Option<Vec<Map>> {
    match node.value {
        Value::Map(map) => Some(vec![map]),
        Value::List(nodes) => nodes
            .into_iter()
            .map(|node| match node.value {
                Value::Map(map) => Some(map),
                _ => None,
            })
            .collect(),
        _ => None,
    }
}

/// Own keys win over merged ones, earlier merged ones over later ones.
fn merge(own: Map, merged: Vec<Map>) -> Map {
    if merged.is_empty() {
        return own;
    }
    let mut result = Map::default();
    for map in merged.iter().rev() {
        result.update(map);
    }
    result.update(&own);
    result
}

/// What a bare scalar means in YAML 1.1.
fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => return Value::Bool(true),
        "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => return Value::Bool(false),
        ".nan" | ".NaN" | ".NAN" => return Value::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => return Value::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => return Value::Float(f64::NEG_INFINITY),
        _ => {}
    }
    if let Some(number) = integer(text) {
        return Value::Int(number);
    }
    float(text).map_or_else(|| Value::Text(text.to_owned()), Value::Float)
}

fn integer(text: &str) -> Option<i64> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let first = digits.chars().next()?;
    if !first.is_ascii_digit() {
        return None;
    }
    let bare = digits.replace('_', "");
    let magnitude = if let Some(binary) = bare.strip_prefix("0b") {
        i64::from_str_radix(binary, 2).ok()
    } else if let Some(hexadecimal) = bare.strip_prefix("0x") {
        i64::from_str_radix(hexadecimal, 16).ok()
    } else if bare.contains(':') && first != '0' {
        sexagesimal(&bare)
    } else if bare.len() > 1 && first == '0' {
        i64::from_str_radix(&bare, 8).ok()
    } else if bare.bytes().all(|byte| byte.is_ascii_digit()) {
        bare.parse().ok()
    } else {
        None
    };
    Some(sign * magnitude?)
}

fn sexagesimal(text: &str) -> Option<i64> {
    let mut total = 0_i64;
    for (index, part) in text.split(':').enumerate() {
        let digits_only = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        let number: i64 = digits_only.then(|| part.parse().ok())??;
        if index > 0 && (part.len() > 2 || number > 59) {
            return None;
        }
        total = total.checked_mul(60)?.checked_add(number)?;
    }
    Some(total)
}

/// A point is needed, and an exponent needs its sign: `1e-3` is a text in YAML 1.1.
fn float(text: &str) -> Option<f64> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (whole, rest) = digits.split_once('.')?;
    let digit_or_bar = |byte: u8| byte.is_ascii_digit() || byte == b'_';
    if !whole.bytes().all(digit_or_bar) || whole.starts_with('_') {
        return None;
    }
    let (fraction, exponent) = match rest.find(['e', 'E']) {
        Some(at) => (&rest[..at], Some(&rest[at + 1..])),
        None => (rest, None),
    };
    if !fraction.bytes().all(digit_or_bar) || (whole.is_empty() && !fraction.starts_with(|c: char| c.is_ascii_digit()))
    {
        return None;
    }
    if let Some(exponent) = exponent {
        let power = exponent.strip_prefix(['-', '+'])?;
        if power.is_empty() || !power.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
    }
    let bare = text.replace('_', "");
    let bare = if bare.ends_with('.') { format!("{bare}0") } else { bare };
    bare.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Json {
        let file: Arc<Path> = Path::new("t.yaml").into();
        parse(text, &file).unwrap().json().unwrap()
    }

    #[test]
    fn bare_scalars_mean_what_yaml_1_1_says() {
        let text = "a: [yes, No, on, y, 0x1F, 010, 1_000, 1:30, 1e-3, 1.5e+3, .5, 3., ~, 2024, \"yes\", -7, 1.2.3, 08]";
        let expected = serde_json::json!({"a": [true, false, true, "y", 31, 8, 1000, 90, "1e-3", 1500.0, 0.5, 3.0, null, 2024,
            "yes", -7, "1.2.3", "08"]});
        assert_eq!(read(text), expected);
    }

    #[test]
    fn merges_and_aliases_are_resolved_and_own_keys_win() {
        let text = "base: &b {x: 1, y: 2}\nother: &o {y: 3, z: 4}\nmade:\n  <<: [*b, *o]\n  x: 9\nagain: *b\n";
        let made = serde_json::json!({"x": 9, "y": 2, "z": 4});
        assert_eq!(read(text)["made"], made);
        assert_eq!(read(text)["again"], serde_json::json!({"x": 1, "y": 2}));
    }

    #[test]
    fn a_merge_key_in_quotes_is_a_key_of_its_own() {
        let made = serde_json::json!({"<<": {"x": 1}, "y": "<<", "z": 2});
        assert_eq!(
            read("a: {\"<<\": {x: 1}, y: <<, <<: {z: 2}}")["a"],
            serde_json::json!({"z": 2, "<<": {"x": 1}, "y": "<<"})
        );
        assert_eq!(read("'<<': {x: 1}\ny: <<\nz: 2\n"), made);
    }

    #[test]
    fn functions_keep_their_name_and_line_and_other_tags_are_refused() {
        let file: Arc<Path> = Path::new("t.yaml").into();
        let node = parse("a: 1\nb:\n  - !function utils.f\n", &file).unwrap();
        let (name, place) = node.function().unwrap();
        assert_eq!((name, place.line), ("utils.f", 3));
        let refusal = parse("a: 1\nb: !python/object x\n", &file).unwrap_err();
        assert_eq!(
            refusal.to_string(),
            "t.yaml:2: YAML: the tag !python/object is not known; only !function is"
        );
        assert!(parse("a: [1\n", &file).unwrap_err().to_string().starts_with("t.yaml:"));
    }

    #[test]
    fn lines_in_quotes_and_brackets_may_stand_further_left() {
        let text = "a:\n  b: \"one\ntwo\n\nthree\"\n  c: [\n    1\n  ]\nd: 4\n";
        assert_eq!(
            read(text),
            serde_json::json!({"a": {"b": "one two\nthree", "c": [1]}, "d": 4})
        );
    }

    #[test]
    fn aliases_that_stand_for_millions_are_refused() {
        let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..9 {
            let aliases = vec![format!("*a{}", level - 1); 10].join(", ");
            text.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
        }
        let file: Arc<Path> = Path::new("t.yaml").into();
        assert!(
            parse(&text, &file)
                .unwrap_err()
                .reason
                .contains("more than 1000000 values")
        );
    }
}
