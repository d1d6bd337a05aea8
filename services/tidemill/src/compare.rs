//! Two evaluations compared item by item.

mod groups;
mod report;
mod show;
mod side;
mod unlike;
mod value;

use anyhow::bail;

pub(crate) use side::Operand;
pub(crate) use unlike::{key, keys};

use crate::arguments::Compare;
use crate::compare::report::Report;
use crate::exit::Done;
use crate::output;
use crate::session::{self, Need, Session};
use crate::view::Following;

pub(crate) fn run(args: Compare) -> anyhow::Result<Done> {
    let config = session::configuration(&args.place, "warn")?;
    let report = session::block_on(async {
        let session = Session::open(&args.place, config, Need::Any).await?;
        let report = Box::pin(compare(&session, &args)).await;
        session.close().await;
        report
    })?;
    output::data(&if args.json {
        serde_json::to_string_pretty(&report)?
    } else {
        show::text(&report)
    })?;
    Ok(if report.dropped.is_empty() {
        Done::Valid
    } else {
        Done::Invalid
    })
}

async fn compare(session: &Session, args: &Compare) -> anyhow::Result<Report> {
    let following = Following::open(&session.context).await;
    let suite = args.suite.as_deref();
    let (first, second) = (&args.first, &args.second);
    let known = (
        side::find(&following, &first.name, suite)?,
        side::find(&following, &second.name, suite)?,
    );
    let may_be_one = first.regrade != second.regrade;
    let known = side::pair(&known.0, &known.1, may_be_one)?;
    let (context, metric) = (&session.context, args.metric.as_deref());
    let first = Box::pin(side::read(context, known.0, first.regrade, metric)).await?;
    let second = Box::pin(side::read(context, known.1, second.regrade, metric)).await?;
    if let Some(metric) = metric {
        report::require(metric, &first, &second)?;
    }
    let (refused, allowed) = unlike::sorted(unlike::unlike(&first, &second), &args.allow);
    if !refused.is_empty() {
        bail!(unlike::refusal(&refused, &first, &second));
    }
    let report = report::compare(&first, &second, metric, allowed, args.max_drop);
    if report.benchmarks.iter().all(|row| row.items == 0) {
        bail!(
            "{} and {} have no item that both have a figure of",
            report.first.evaluation,
            report.second.evaluation
        );
    }
    Ok(report)
}
