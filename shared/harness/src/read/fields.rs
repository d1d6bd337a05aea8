//! Takes keys out of a mapping, one after the other, and refuses what is left.

use crate::refusal::{Place, Refusals};
use crate::template;
use crate::yaml::{Map, Node, Value};

/// The keys of a mapping, which of them were looked at, and where refusals go.
pub(super) struct Keys<'m> {
    map: &'m Map,
    place: &'m Place,
    prefix: String,
    taken: Vec<String>,
    refusals: &'m mut Refusals,
}

impl<'m> Keys<'m> {
    pub(super) fn new(map: &'m Map, place: &'m Place, prefix: &str, refusals: &'m mut Refusals) -> Self {
        Self {
            map,
            place,
            prefix: prefix.to_owned(),
            taken: Vec::new(),
            refusals,
        }
    }

    pub(super) fn place(&self) -> &Place {
        self.place
    }

    pub(super) fn refusals(&mut self) -> &mut Refusals {
        self.refusals
    }

    pub(super) fn look(&self, key: &str) -> Option<&'m Node> {
        self.map.get(key)
    }

    /// Whether a key is there and not null.
    pub(super) fn is_set(&self, key: &str) -> bool {
        self.map.get(key).is_some_and(|node| !node.is_null())
    }

    pub(super) fn ignore(&mut self, key: &'static str) {
        self.taken.push(key.to_owned());
    }

    /// Marks every key of the mapping as looked at.
    pub(super) fn ignore_all(&mut self, map: &Map) {
        self.taken.extend(map.named().map(|(name, _)| name.to_owned()));
    }

    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    pub(super) fn take(&mut self, key: &'static str) -> Option<&'m Node> {
        self.taken.push(key.to_owned());
        self.map.get(key)
    }

    /// A text; one of another kind is refused, null is none.
    pub(super) fn text(&mut self, key: &'static str) -> Option<String> {
        let node = self.take(key)?;
        match &node.value {
            Value::Null => None,
            Value::Text(text) => Some(text.clone()),
            // Names such as a split `2024` are numbers to YAML.
            Value::Int(number) if key != "target_delimiter" => Some(number.to_string()),
            _ => {
                let reason = match node.function() {
                    Some((name, _)) => format!("is the Python function {name}, which is not run here"),
                    None => format!("takes a text, not {}", node.kind()),
                };
                self.refuse_at(&node.place, key, reason);
                None
            }
        }
    }

    /// A text that is a column's name or a template.
    pub(super) fn template(&mut self, key: &'static str) -> Option<String> {
        let source = self.text(key)?;
        if let Err(error) = template::check(&source) {
            self.refuse(key, format!("is no template that is understood here: {error}"));
        }
        Some(source)
    }

    pub(super) fn flag(&mut self, key: &'static str) -> bool {
        match self.take(key).map(|node| (&node.value, node)) {
            None | Some((Value::Null | Value::Bool(false), _)) => false,
            Some((Value::Bool(true), _)) => true,
            Some((_, node)) => {
                let reason = format!("takes true or false, not {}", node.kind());
                self.refuse_at(&node.place, key, reason);
                false
            }
        }
    }

    pub(super) fn count(&mut self, key: &'static str) -> Option<usize> {
        let node = self.take(key)?;
        match &node.value {
            Value::Null => None,
            Value::Int(number) if *number >= 0 => usize::try_from(*number).ok(),
            _ => {
                self.refuse_at(&node.place, key, "takes a count, 0 or more");
                None
            }
        }
    }

    pub(super) fn number(&mut self, key: &'static str) -> Option<f64> {
        let node = self.take(key)?;
        match &node.value {
            Value::Null => None,
            Value::Int(number) => Some(*number as f64),
            Value::Float(number) => Some(*number),
            // `1e-3` is a text in YAML 1.1, and Python's `float` reads it.
            Value::Text(text) if text.parse::<f64>().is_ok() => text.parse().ok(),
            _ => {
                self.refuse_at(&node.place, key, format!("takes a number, not {}", node.kind()));
                None
            }
        }
    }

    /// Refuses every key but some that holds `.inf` or `.nan`, which no value of a row is.
    pub(super) fn refuse_not_finite(&mut self, without: &[&str]) {
        for (name, node) in self.map.named().filter(|(name, _)| !without.contains(name)) {
            if let Some(place) = node.not_finite() {
                let reason = "holds .inf or .nan, which is no value that rows and answers are compared with here";
                self.refuse_at(place, name, reason);
            }
        }
    }

    pub(super) fn refuse_if_set(&mut self, key: &'static str, reason: &str) {
        if let Some(node) = self.take(key).filter(|node| !node.is_null()) {
            let reason = match node.function() {
                Some((name, _)) => format!("{reason} ({name})"),
                None => reason.to_owned(),
            };
            self.refuse_at(&node.place, key, reason);
        }
    }

    pub(super) fn refuse(&mut self, key: &str, reason: impl Into<String>) {
        let place = self.map.get(key).map_or(self.place, |node| &node.place).clone();
        self.refuse_at(&place, key, reason);
    }

    pub(super) fn refuse_at(&mut self, place: &Place, key: &str, reason: impl Into<String>) {
        let path = match (self.prefix.as_str(), key) {
            ("", key) => key.to_owned(),
            (prefix, "") => prefix.to_owned(),
            (prefix, key) => format!("{prefix}.{key}"),
        };
        self.refusals.push(place, path, reason);
    }

    /// Refuses every key that nothing asked for.
    pub(super) fn finish(&mut self) {
        for (key, node) in self.map.iter() {
            let name = key.json().map(|key| crate::python::str(&key)).unwrap_or_default();
            if !self.taken.contains(&name) {
                let reason = "is not a key that is known here";
                self.refuse_at(&node.place, &name, reason);
            }
        }
    }
}
