//! A comparison for people.

use tidemill_domain::counted;

use crate::compare::groups::GroupRow;
use crate::compare::report::{Half, Named, Report, Row};
use crate::sheet::{self, Sheet};

/// How figures are written: scores as percent, metrics as they are.
#[derive(Debug, Clone, Copy)]
struct Unit {
    scale: f64,
    digits: usize,
}

impl Unit {
    const fn of(metric: Option<&String>) -> Self {
        match metric {
            None => Self {
                scale: 100.0,
                digits: 1,
            },
            Some(_) => Self { scale: 1.0, digits: 3 },
        }
    }

    fn plain(self, figure: Option<f64>) -> String {
        let digits = self.digits;
        figure.map_or("-".to_owned(), |figure| format!("{:.digits$}", self.scale * figure))
    }

    fn signed(self, figure: f64) -> String {
        let digits = self.digits;
        format!("{:+.digits$}", self.scale * figure)
    }

    fn with_error(self, difference: Option<f64>, error: Option<f64>) -> String {
        match (difference, error) {
            (None, _) => "-".to_owned(),
            // Where nothing varies the error is 0, which is no proof: the interval says what is open.
            (Some(difference), None | Some(0.0)) => self.signed(difference),
            (Some(difference), error) => format!("{} ±{}", self.signed(difference), self.plain(error)),
        }
    }

    fn interval(self, interval: Option<[f64; 2]>) -> String {
        interval.map_or("-".to_owned(), |[low, high]| {
            format!("{}..{}", self.signed(low), self.signed(high))
        })
    }
}

const HEADER: [&str; 12] = [
    "benchmark",
    "first",
    "second",
    "difference",
    "95 %",
    "p",
    "p (Holm)",
    "won/lost/tied",
    "discordant",
    "detectable",
    "items",
    "not compared",
];

/// The table, and below it what is not to be overlooked.
pub(crate) fn text(report: &Report) -> String {
    within(report, sheet::width_of_data())
}

/// As [`text`], of so many columns. A narrow terminal does without what can be told from the rest, the first of it first.
pub(crate) fn within(report: &Report, width: Option<usize>) -> String {
    let unit = Unit::of(report.metric.as_ref());
    let header = HEADER.map(|name| match (name, &report.metric) {
        ("first" | "second", None) => format!("{name} %"),
        _ => name.to_owned(),
    });
    let of_benchmarks = report.benchmarks.iter().map(|row| cells(row, unit));
    let of_groups = report
        .groups
        .iter()
        .map(|group| of_group(group, report.metric.is_none()));
    let table = Sheet {
        header: header.to_vec(),
        rows: of_benchmarks.chain(of_groups).collect(),
        numbers: &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11],
        whole: &[3, 4],
        spare: &[8, 11, 10, 6, 7, 9],
    }
    .draw(width);
    let named = |side: &crate::compare::report::Compared| {
        let regrade = side.regrade.map(|number| format!(", regrade {number}"));
        format!(
            "{} step {}, evaluation {}{} ({})",
            side.run,
            side.step,
            side.evaluation,
            regrade.unwrap_or_default(),
            side.state
        )
    };
    let mut text = format!("first:  {}\nsecond: {}\n", named(&report.first), named(&report.second));
    if let Some(metric) = &report.metric {
        let is_smaller_better = report.benchmarks.iter().any(|row| !row.higher_is_better);
        let hint = if is_smaller_better {
            ", of which less is better"
        } else {
            ""
        };
        text.push_str(&format!("metric: {metric}{hint}\n"));
    }
    text.push_str(&table.text);
    for note in notes(report) {
        text.push('\n');
        text.push_str(&note);
    }
    text
}

fn cells(row: &Row, unit: Unit) -> Vec<String> {
    let half = |half: &Half| unit.plain(half.mean);
    let [won, discordant] = match row.of_corpus {
        true => ["-", "-"].map(str::to_owned),
        false => [
            format!("{}/{}/{}", row.wins, row.losses, row.ties),
            (row.wins + row.losses).to_string(),
        ],
    };
    let left_out = row.only_in_first.count + row.only_in_second.count + row.without_score.count;
    vec![
        row.benchmark.clone(),
        half(&row.first),
        half(&row.second),
        unit.with_error(row.difference, row.standard_error),
        unit.interval(row.interval),
        probability(row.p),
        probability(row.p_holm),
        won,
        discordant,
        unit.plain(row.minimum_detectable),
        row.items.to_string(),
        left_out.to_string(),
    ]
}

/// `is_of_scores`: it stands among scores, so a metric's name is said.
fn of_group(group: &GroupRow, is_of_scores: bool) -> Vec<String> {
    let unit = Unit::of(group.metric.as_ref());
    let metric = group.metric.as_ref().filter(|_| is_of_scores);
    let metric = metric.map(|metric| format!(" {metric}"));
    vec![
        format!("{} ({}){}", group.group, group.mean, metric.unwrap_or_default()),
        unit.plain(group.first),
        unit.plain(group.second),
        unit.with_error(group.difference, group.standard_error),
        unit.interval(group.interval),
        probability(group.p),
        String::new(),
        String::new(),
        String::new(),
        unit.plain(group.minimum_detectable),
        group.items.to_string(),
        String::new(),
    ]
}

/// Ids that are shown of each kind; the JSON has more.
const SHOWN: usize = 5;

fn notes(report: &Report) -> Vec<String> {
    let mut notes: Vec<String> = report
        .allowed
        .iter()
        .map(|unlike| format!("NOT ALIKE, allowed: {}", unlike.sentence()))
        .collect();
    for row in &report.benchmarks {
        let kinds = [
            ("only in the first", &row.only_in_first),
            ("only in the second", &row.only_in_second),
            ("without a figure on either side", &row.without_score),
        ];
        for (kind, named) in kinds.into_iter().filter(|(_, named)| named.count > 0) {
            notes.push(format!(
                "{}: {} {kind}: {}",
                row.benchmark,
                counted(named.count, "item"),
                ids(named)
            ));
        }
        for (side, half) in [("first", &row.first), ("second", &row.second)] {
            if half.truncated + half.failed + half.missing > 0 {
                notes.push(format!(
                    "{}, the {side}: {} truncated (wrong), {} failed, {} missing (left out)",
                    row.benchmark,
                    counted(half.truncated, "sample"),
                    half.failed,
                    half.missing
                ));
            }
        }
    }
    let alike = report
        .benchmarks
        .iter()
        .filter(|row| row.method == Some("unseen_share"));
    let alike: Vec<&str> = alike.map(|row| row.benchmark.as_str()).collect();
    if !alike.is_empty() {
        notes.push(format!(
            "nothing varies between the items of {}: the 95 % is what their number leaves open",
            alike.join(", ")
        ));
    }
    if !report.groups_not_compared.is_empty() {
        notes.push(format!(
            "groups that are not compared, since both do not define them alike or a benchmark has no figure: {}",
            report.groups_not_compared.join(", ")
        ));
    }
    for (side, names) in [("first", &report.only_in_first), ("second", &report.only_in_second)] {
        if !names.is_empty() {
            notes.push(format!("benchmarks only in the {side}: {}", names.join(", ")));
        }
    }
    if !report.without_metric.is_empty() {
        notes.push(format!("without this metric: {}", report.without_metric.join(", ")));
    }
    if let Some(most) = report.max_drop {
        let most = match report.metric {
            None => format!("{:.1} points", 100.0 * most),
            Some(_) => most.to_string(),
        };
        notes.push(if report.dropped.is_empty() {
            format!("none dropped by more than {most}")
        } else {
            format!("DROPPED by more than {most}: {}", report.dropped.join(", "))
        });
    }
    notes
}

fn ids(named: &Named) -> String {
    let shown: Vec<&str> = named.items.iter().take(SHOWN).map(String::as_str).collect();
    let more = named.count - shown.len() as u64;
    match more {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

fn probability(p: Option<f64>) -> String {
    match p {
        None => "-".to_owned(),
        Some(p) if p < 0.000_1 => "<0.0001".to_owned(),
        Some(p) => format!("{p:.4}"),
    }
}
