//! Groups: tasks and other groups, and the means over them.

use crate::index::{Entry, Index, Kind};
use crate::read;
use crate::refusal::Refusal;
use crate::task::Task;
use crate::yaml::{Map, Node, Value};

/// Deepest nesting of groups.
const MAX_DEPTH: usize = 16;
/// Keys of a group itself; all others override those of its tasks.
const OWN_KEYS: [&str; 5] = ["group", "group_alias", "task", "aggregate_metric_list", "metadata"];

/// Tasks and groups under one name.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// Its name in tables.
    pub alias: Option<String>,
    /// What it consists of.
    pub children: Vec<Child>,
    /// The means over it; none where it is a list and no more.
    pub aggregates: Vec<AggregateMetric>,
}

/// A part of a group.
#[derive(Debug, Clone, PartialEq)]
pub enum Child {
    /// A task.
    Task(Box<Task>),
    /// A group.
    Group(Group),
}

impl Child {
    fn name(&self) -> &str {
        match self {
            Self::Task(task) => &task.name,
            Self::Group(group) => &group.name,
        }
    }
}

/// A mean over the tasks of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AggregateMetric {
    /// The metric.
    pub metric: String,
    /// Under which filters; all that the tasks have where there is none.
    pub filters: Option<Vec<String>>,
    /// Whether each row counts the same (micro), or each task (macro).
    pub weight_by_size: bool,
}

impl Group {
    /// Every task in it, at any depth, in order.
    #[must_use]
    pub fn tasks(&self) -> Vec<&Task> {
        fn of(child: &Child) -> Vec<&Task> {
            match child {
                Child::Task(task) => vec![task],
                Child::Group(group) => group.tasks(),
            }
        }
        self.children.iter().flat_map(of).collect()
    }

    /// The names under which its tasks report a metric, by the filters that are wanted.
    #[must_use]
    pub fn columns(&self, aggregate: &AggregateMetric) -> Vec<String> {
        let mut columns: Vec<String> = Vec::new();
        for task in self.tasks() {
            for (name, metric) in task.grading().columns() {
                let filters = name.split_once(',').map_or("none", |(_, filters)| filters);
                let wanted = aggregate
                    .filters
                    .as_ref()
                    .is_none_or(|wanted| wanted.iter().any(|one| one == filters));
                if metric.measure.name() == aggregate.metric && wanted && !columns.contains(&name) {
                    columns.push(name);
                }
            }
        }
        columns
    }
}

impl Index {
    /// Resolves a group file, its tasks and the groups inside of it.
    ///
    /// # Errors
    /// Everything that is refused in the group or in any of its tasks.
    pub fn group(&self, entry: &Entry) -> Result<Group, Vec<Refusal>> {
        let name = entry.name().unwrap_or_default().to_owned();
        let mut resolver = Resolver {
            index: self,
            entry,
            open: Vec::new(),
            refusals: Vec::new(),
        };
        let group = resolver.group(&name, &entry.keys, &Map::default(), 0);
        if resolver.refusals.is_empty() {
            Ok(group)
        } else {
            Err(resolver.refusals)
        }
    }
}

struct Resolver<'i> {
    index: &'i Index,
    entry: &'i Entry,
    /// The groups that are being resolved, each in the one before it.
    open: Vec<String>,
    refusals: Vec<Refusal>,
}

impl Resolver<'_> {
    fn refuse(&mut self, node: Option<&Node>, key: &str, reason: impl Into<String>) {
        let place = node.map_or(&self.entry.place, |node| &node.place).clone();
        self.refusals.push(Refusal {
            place,
            key: key.to_owned(),
            reason: reason.into(),
        });
    }

    fn group(&mut self, name: &str, keys: &Map, from_above: &Map, depth: usize) -> Group {
        let mut overrides = Map::default();
        for (key, value) in keys
            .iter()
            .filter(|(key, _)| !key.text().is_some_and(|key| OWN_KEYS.contains(&key)))
        {
            overrides.insert(key.clone(), value.clone());
        }
        overrides.update(from_above);
        // A group's own tag is no key of its tasks.
        overrides.remove("tag");
        let mut children = Vec::new();
        let tasks = keys.get("task");
        self.open.push(name.to_owned());
        match tasks.map(|node| &node.value) {
            _ if depth > MAX_DEPTH => self.refuse(tasks, "task", format!("groups are nested deeper than {MAX_DEPTH}")),
            Some(Value::List(members)) => {
                for member in members {
                    self.member(name, member, &overrides, depth, &mut children);
                }
            }
            Some(Value::Text(_)) | None | Some(Value::Null) => {}
            Some(_) => self.refuse(tasks, "task", "takes a list of names and mappings"),
        }
        self.open.pop();
        let list = keys.get("aggregate_metric_list");
        let aggregates = self.aggregates(list);
        let group = Group {
            name: name.to_owned(),
            alias: keys.get("group_alias").and_then(Node::text).map(str::to_owned),
            children,
            aggregates,
        };
        self.refuse_means_of_nothing(&group, list);
        group
    }

    fn member(&mut self, group: &str, member: &Node, from_above: &Map, depth: usize, children: &mut Vec<Child>) {
        match &member.value {
            Value::Text(name) => self.named(name, member, from_above, depth, children),
            Value::Map(keys) => {
                if let Some(name) = keys.get("group").and_then(Node::text) {
                    let mut own = keys.clone();
                    own.remove("group");
                    match self.index.get(name) {
                        Some(_) => {
                            let mut overrides = from_above.clone();
                            overrides.update(&own);
                            self.named(name, member, &overrides, depth, children);
                        }
                        None => {
                            let inner = self.group(&format!("{group}::{name}"), keys, from_above, depth + 1);
                            add(children, Child::Group(inner));
                        }
                    }
                    return;
                }
                let Some(name) = keys.get("task").and_then(Node::text) else {
                    return self.refuse(Some(member), "task", "a mapping in a group's list needs task or group");
                };
                let mut overrides = from_above.clone();
                overrides.update(keys);
                if self.index.get(name).is_some() {
                    overrides.remove("task");
                    self.named(name, member, &overrides, depth, children);
                } else {
                    self.inline(&format!("{group}::{name}"), member, overrides, children);
                }
            }
            _ => self.refuse(
                Some(member),
                "task",
                format!("takes names and mappings, not {}", member.kind()),
            ),
        }
    }

    /// A task that stands in the group's list alone.
    fn inline(&mut self, name: &str, member: &Node, mut keys: Map, children: &mut Vec<Child>) {
        let node = |text: &str| Node {
            value: Value::Text(text.to_owned()),
            place: member.place.clone(),
        };
        keys.insert(node("task"), node(name));
        match read::task(&keys, &member.place) {
            Ok(task) => add(children, Child::Task(Box::new(task))),
            Err(refusals) => self.refusals.extend(refusals),
        }
    }

    fn named(&mut self, name: &str, member: &Node, overrides: &Map, depth: usize, children: &mut Vec<Child>) {
        let Some(entry) = self.index.get(name) else {
            return self.refuse(
                Some(member),
                "task",
                format!("{name} is no task, group or tag in these folders"),
            );
        };
        match entry.kind {
            Kind::Group if self.open.iter().any(|open| open == name) => {
                self.refuse(Some(member), "task", format!("group {name} is in itself"));
            }
            Kind::Group => {
                let group = self.group(name, &entry.keys, overrides, depth + 1);
                add(children, Child::Group(group));
            }
            Kind::Tag => {
                for task in &entry.tagged {
                    if let Some(entry) = self.index.get(task) {
                        self.task(entry, overrides, children);
                    }
                }
            }
            _ => self.task(entry, overrides, children),
        }
    }

    fn task(&mut self, entry: &Entry, overrides: &Map, children: &mut Vec<Child>) {
        let overrides = (!overrides.is_empty()).then_some(overrides);
        match entry.task(overrides) {
            Ok(task) => add(children, Child::Task(Box::new(task))),
            Err(refusals) => self.refusals.extend(refusals),
        }
    }

    fn aggregates(&mut self, node: Option<&Node>) -> Vec<AggregateMetric> {
        let single;
        let entries = match node.map(|node| &node.value) {
            None | Some(Value::Null) => return Vec::new(),
            Some(Value::List(entries)) => entries.as_slice(),
            Some(_) => {
                single = node.cloned();
                single.as_slice()
            }
        };
        entries.iter().filter_map(|entry| self.aggregate(entry)).collect()
    }

    /// A mean over tasks of which none has the metric would be missing from the results without a word.
    fn refuse_means_of_nothing(&mut self, group: &Group, list: Option<&Node>) {
        // What is missing of a task that was refused cannot be told.
        if !self.refusals.is_empty() {
            return;
        }
        for aggregate in &group.aggregates {
            if !group.columns(aggregate).is_empty() {
                continue;
            }
            let of_any_filter = AggregateMetric {
                filters: None,
                ..aggregate.clone()
            };
            let metric = &aggregate.metric;
            let (key, reason) = if group.columns(&of_any_filter).is_empty() {
                ("metric", format!("no task of the group has the metric {metric}"))
            } else {
                let filters = aggregate
                    .filters
                    .iter()
                    .flatten()
                    .cloned()
                    .collect::<Vec<_>>()
                    .join(", ");
                (
                    "filter_list",
                    format!("no task of the group has {metric} under the filters {filters}"),
                )
            };
            self.refuse(list, &format!("aggregate_metric_list.{key}"), reason);
        }
    }

    fn aggregate(&mut self, entry: &Node) -> Option<AggregateMetric> {
        let key = "aggregate_metric_list";
        let Value::Map(map) = &entry.value else {
            self.refuse(Some(entry), key, "takes a list of mappings with metric");
            return None;
        };
        let known = ["metric", "filter_list", "aggregation", "weight_by_size"];
        if let Some((other, node)) = map.named().find(|(name, _)| !known.contains(name)) {
            self.refuse(Some(node), &format!("{key}.{other}"), "is not a key that is known here");
        }
        if let Some(node) = map.get("aggregation").filter(|node| node.text() != Some("mean")) {
            self.refuse(
                Some(node),
                &format!("{key}.aggregation"),
                "is not mean, the only one that is known here",
            );
        }
        let Some(metric) = map.get("metric").and_then(Node::text) else {
            self.refuse(Some(entry), &format!("{key}.metric"), "is missing");
            return None;
        };
        let list = map.get("filter_list").filter(|node| !node.is_null());
        let filters = list.and_then(names);
        if let Some(list) = list.filter(|_| filters.is_none()) {
            self.refuse(
                Some(list),
                &format!("{key}.filter_list"),
                "takes a name or a list of names",
            );
        }
        let weight = map.get("weight_by_size");
        let weight_by_size = match weight.map(|node| &node.value) {
            None | Some(Value::Bool(true)) => true,
            Some(Value::Bool(false)) => false,
            Some(_) => {
                self.refuse(weight, &format!("{key}.weight_by_size"), "takes true or false");
                true
            }
        };
        Some(AggregateMetric {
            metric: metric.to_owned(),
            filters,
            weight_by_size,
        })
    }
}

/// The names of a list, or a single one.
fn names(node: &Node) -> Option<Vec<String>> {
    match &node.value {
        Value::Text(name) => Some(vec![name.clone()]),
        Value::List(names) => names.iter().map(|name| name.text().map(str::to_owned)).collect(),
        _ => None,
    }
}

/// Adds a part; of two of one name the last one counts, in the place of the first.
fn add(children: &mut Vec<Child>, child: Child) {
    match children.iter_mut().find(|known| known.name() == child.name()) {
        Some(known) => *known = child,
        None => children.push(child),
    }
}
