//! What a comparison says of groups of benchmarks: pure, from the rows of these.

use serde::Serialize;
use tidemill_domain::{Group, GroupMean};
use tidemill_statistics::{
    Design, Part, macro_interval, macro_mean, micro_interval, micro_mean, student_p, welch_satterthwaite,
};

use crate::compare::report::{Row, rows};
use crate::compare::side::{Scored, Side};

/// The mean difference over the benchmarks of a group, which are taken to be independent.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct GroupRow {
    pub(crate) group: String,
    /// The metric that it is of; `None` for the score.
    pub(crate) metric: Option<String>,
    pub(crate) higher_is_better: bool,
    /// Over benchmarks, or over the items of all.
    pub(crate) mean: &'static str,
    pub(crate) benchmarks: Vec<String>,
    /// Items of all benchmarks that were compared.
    pub(crate) items: u64,
    /// The first's figure on these items.
    pub(crate) first: Option<f64>,
    /// The second's.
    pub(crate) second: Option<f64>,
    pub(crate) difference: Option<f64>,
    pub(crate) standard_error: Option<f64>,
    /// 95 %, from the intervals of the benchmarks' differences.
    pub(crate) interval: Option<[f64; 2]>,
    /// Of no difference, by Student's distribution with degrees of freedom from those of the benchmarks (Welch).
    pub(crate) p: Option<f64>,
    pub(crate) minimum_detectable: Option<f64>,
}

/// Groups of what is compared, beside scores also those of metrics, that both define alike and of which every benchmark was
/// compared; and the names of the others.
pub(super) fn groups(first: &Side, second: &Side, metric: Option<&str>, rows: &[Row]) -> (Vec<GroupRow>, Vec<String>) {
    let is_wanted = |group: &&Group| metric.is_none() || group.metric.as_deref() == metric;
    let (mut compared, mut others) = (Vec::new(), Vec::new());
    for group in first.groups.iter().filter(is_wanted) {
        let beside = group.metric.as_deref().filter(|_| metric.is_none());
        let beside = beside.map(|metric| rows_beside(first, second, group, metric));
        let row = members_alike(first, second, group)
            .and_then(|members| group_row(group, &members, beside.as_deref().unwrap_or(rows)));
        match row {
            Some(row) => compared.push(row),
            None => others.push(group.name.clone()),
        }
    }
    let is_there = |name: &str| first.groups.iter().any(|group| group.name == name);
    let only_in_second = second.groups.iter().filter(is_wanted);
    others.extend(
        only_in_second
            .map(|group| group.name.clone())
            .filter(|name| !is_there(name)),
    );
    (compared, others)
}

/// The members of a group that both define alike: benchmarks by their names, and weights.
fn members_alike(first: &Side, second: &Side, group: &Group) -> Option<Vec<(String, f64)>> {
    let defined = |side: &Side, group: &Group| -> Vec<(String, f64)> {
        let members = group.members.iter().filter_map(|member| {
            let benchmark = side.benchmarks.get(member.benchmark as usize)?;
            Some((benchmark.name.clone(), member.weight))
        });
        members.collect()
    };
    let members = defined(first, group);
    let other = second.groups.iter().find(|other| other.name == group.name)?;
    let is_alike = other.metric == group.metric && other.mean == group.mean && defined(second, other) == members;
    is_alike.then_some(members)
}

/// The metric of a group where scores are compared, of its benchmarks that make it alike on both sides.
fn rows_beside(first: &Side, second: &Side, group: &Group, metric: &str) -> Vec<Row> {
    let (Some(one), Some(other)) = (first.beside.get(metric), second.beside.get(metric)) else {
        return Vec::new();
    };
    let measured = |scored: &Scored| scored.metric.as_ref().map(|(_, metric)| metric.clone());
    let is_alike = |one: &Scored| {
        let other = other.iter().find(|other| other.name == one.name);
        other.is_some_and(|other| measured(one) == measured(other))
    };
    let members = group.members.iter();
    let members = members.filter_map(|member| one.get(member.benchmark as usize));
    rows(members.filter(|one| is_alike(one)), other, Some(metric)).0
}

/// `None` where a member has no difference.
fn group_row(group: &Group, members: &[(String, f64)], rows: &[Row]) -> Option<GroupRow> {
    let of_group = members.iter().map(|(name, weight)| {
        let row = rows.iter().find(|row| row.benchmark == *name)?;
        Some((row, *weight))
    });
    let of_group = OfGroup {
        mean: group.mean,
        rows: of_group.collect::<Option<_>>()?,
    };
    let (difference, standard_error) = of_group.figure(|row| Some((row.difference?, row.standard_error)))?;
    let planned = of_group.figure(|row| Some((row.difference?, row.planning_error)))?;
    let half = |of: fn(&Row) -> Option<f64>| of_group.figure(|row| Some((of(row)?, None)));
    Some(GroupRow {
        group: group.name.clone(),
        metric: group.metric.clone(),
        higher_is_better: of_group.rows.iter().all(|(row, _)| row.higher_is_better),
        mean: match group.mean {
            GroupMean::Macro => "macro",
            GroupMean::Micro => "micro",
        },
        benchmarks: members.iter().map(|(name, _)| name.clone()).collect(),
        items: of_group.rows.iter().map(|(row, _)| row.items).sum(),
        first: half(|row| row.first.mean).map(|(mean, _)| mean),
        second: half(|row| row.second.mean).map(|(mean, _)| mean),
        difference: Some(difference),
        standard_error,
        interval: of_group.interval(),
        p: standard_error
            .zip(of_group.degrees_of_freedom())
            .and_then(|(error, free)| student_p(difference / error, free)),
        minimum_detectable: planned.1.map(|error| Design::default().detectable(error)),
    })
}

/// The benchmarks of a group with their weights.
struct OfGroup<'a> {
    mean: GroupMean,
    rows: Vec<(&'a Row, f64)>,
}

impl OfGroup<'_> {
    fn parts(&self, of: impl Fn(&Row) -> Option<(f64, Option<f64>)>) -> Option<Vec<Part>> {
        let parts = self.rows.iter().map(|(row, weight)| {
            let (mean, standard_error) = of(row)?;
            Some(Part {
                mean,
                standard_error,
                interval: row.interval,
                items: row.items,
                weight: *weight,
            })
        });
        parts.collect()
    }

    /// The mean of a figure, and its error.
    fn figure(&self, of: impl Fn(&Row) -> Option<(f64, Option<f64>)>) -> Option<(f64, Option<f64>)> {
        let parts = self.parts(of)?;
        match self.mean {
            GroupMean::Macro => macro_mean(&parts),
            GroupMean::Micro => micro_mean(&parts),
        }
    }

    /// Of the difference.
    fn interval(&self) -> Option<[f64; 2]> {
        let parts = self.parts(|row| Some((row.difference?, row.standard_error)))?;
        match self.mean {
            GroupMean::Macro => macro_interval(&parts),
            GroupMean::Micro => micro_interval(&parts),
        }
    }

    /// Of the error of the difference; `None` where nothing varies.
    fn degrees_of_freedom(&self) -> Option<f64> {
        welch_satterthwaite(self.rows.iter().map(|(row, weight)| {
            let share = match self.mean {
                GroupMean::Macro => *weight,
                GroupMean::Micro => weight * row.items as f64,
            };
            let error = share * row.standard_error.unwrap_or(0.0);
            (error * error, row.degrees_of_freedom.unwrap_or(0.0))
        }))
    }
}
