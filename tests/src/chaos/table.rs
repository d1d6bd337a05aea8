//! Runs added up, a row a scenario.

use std::collections::BTreeSet;

use comfy_table::{CellAlignment, presets};
use serde::Serialize;
use tidemill_service::fault::Point;

use super::outcome::Outcome;

/// The rows, in the order in which scenarios first came.
#[derive(Debug, Default, Serialize)]
pub struct Table {
    rows: Vec<Row>,
    total: Row,
    /// Fault points that were passed.
    points: BTreeSet<&'static str>,
    /// Names of all fault points that are declared.
    declared_points: usize,
}

/// The sum of some runs.
#[derive(Debug, Clone, Default, Serialize)]
struct Row {
    scenario: String,
    runs: u64,
    /// Runs that did not end, or whose report differs.
    failed: u64,
    kills: u64,
    items: u64,
    lost: u64,
    twice: u64,
    regenerated: u64,
    unexplained: u64,
    asked_again: u64,
    tokens_again: u64,
    tokens_per_kill: f64,
    first_request_mean_seconds: Option<f64>,
    first_request_most_seconds: Option<f64>,
    wall_seconds: f64,
    #[serde(skip)]
    first_requests: Vec<f64>,
}

const HEADER: [&str; 14] = [
    "scenario",
    "runs",
    "failed",
    "kills",
    "items",
    "lost",
    "twice",
    "regenerated",
    "unexplained",
    "again",
    "tokens/kill",
    "to 1st request",
    "most",
    "wall",
];

impl Row {
    fn named(scenario: &str) -> Self {
        Self {
            scenario: scenario.to_owned(),
            ..Self::default()
        }
    }

    fn add(&mut self, outcome: Option<&Outcome>) {
        self.runs += 1;
        let Some(outcome) = outcome else {
            self.failed += 1;
            return;
        };
        self.failed += u64::from(!outcome.differences.is_empty());
        self.kills += outcome.kills;
        self.items += outcome.items;
        self.lost += outcome.lost;
        self.twice += outcome.twice;
        self.regenerated += outcome.regenerated;
        self.unexplained += outcome.unexplained;
        self.asked_again += outcome.asked_again;
        self.tokens_again += outcome.tokens_again;
        self.wall_seconds += outcome.wall_seconds;
        self.first_requests.extend(&outcome.seconds_to_first_request);
        self.tokens_per_kill = self.tokens_again as f64 / self.kills.max(1) as f64;
        let count = self.first_requests.len();
        if count > 0 {
            self.first_request_mean_seconds = Some(self.first_requests.iter().sum::<f64>() / count as f64);
            self.first_request_most_seconds = self.first_requests.iter().copied().reduce(f64::max);
        }
    }

    fn cells(&self) -> [String; 14] {
        let seconds = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.1} s"));
        [
            self.scenario.clone(),
            self.runs.to_string(),
            self.failed.to_string(),
            self.kills.to_string(),
            self.items.to_string(),
            self.lost.to_string(),
            self.twice.to_string(),
            self.regenerated.to_string(),
            self.unexplained.to_string(),
            self.asked_again.to_string(),
            format!("{:.1}", self.tokens_per_kill),
            seconds(self.first_request_mean_seconds),
            seconds(self.first_request_most_seconds),
            seconds(Some(self.wall_seconds)),
        ]
    }
}

impl Table {
    /// An empty table.
    #[must_use]
    pub fn new() -> Self {
        Self {
            total: Row::named("total"),
            declared_points: Point::ALL.iter().filter(|point| !point.is_after_end()).count(),
            ..Self::default()
        }
    }

    /// Adds a run; one that did not end has no outcome.
    pub fn add(&mut self, scenario: &str, outcome: Option<&Outcome>) {
        let index = self
            .rows
            .iter()
            .position(|row| row.scenario == scenario)
            .unwrap_or_else(|| {
                self.rows.push(Row::named(scenario));
                self.rows.len() - 1
            });
        self.rows[index].add(outcome);
        self.total.add(outcome);
        self.points
            .extend(outcome.into_iter().flat_map(|outcome| &outcome.points));
    }

    /// Nothing was lost, twice or asked for again without need, and every run ended in the undisturbed report.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        let Row {
            failed,
            lost,
            twice,
            regenerated,
            unexplained,
            ..
        } = self.total;
        failed + lost + twice + regenerated + unexplained == 0
    }
}

impl std::fmt::Display for Table {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut table = comfy_table::Table::new();
        table
            .load_style(presets::ASCII_BORDERS_ONLY_CONDENSED)
            .set_header(HEADER);
        for row in self.rows.iter().chain([&self.total]) {
            table.add_row(row.cells());
        }
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        writeln!(formatter, "{table}")?;
        write!(
            formatter,
            "{} of {} fault points passed",
            self.points.len(),
            self.declared_points
        )
    }
}
