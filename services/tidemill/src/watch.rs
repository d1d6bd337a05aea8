//! Following results as they come.

use std::time::Duration;

use tidemill_domain::{RunId, counted};
use tokio::time::{MissedTickBehavior, interval};

use crate::arguments::Watch;
use crate::exit::Done;
use crate::held::Held;
use crate::session::{self, Need, Session};
use crate::stops::stop_signal;
use crate::view::{Following, News};
use crate::{output, table};

pub(crate) fn run(args: Watch) -> anyhow::Result<Done> {
    let config = session::configuration(&args.place, "warn")?;
    session::block_on(async {
        let session = Session::open(&args.place, config, Need::Others).await?;
        let mut following = Following::open(&session.context).await;
        output::note(&format!("following results at {}; Ctrl-C ends", session.url()));
        let (mut held, mut look) = (Held::default(), interval(LOOK_EVERY));
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let watched = loop {
            let news = tokio::select! {
                news = following.next() => news,
                _ = look.tick() => {
                    held.look(&session.context).await;
                    let known = following.view.evaluations().into_iter().map(|known| &known.event);
                    let wanted = known.filter(|event| is_wanted(&args, &event.run));
                    wanted.filter_map(|event| held.news(&event.evaluation)).for_each(|news| output::note(&news));
                    continue;
                }
                _ = stop_signal() => break Ok(()),
            };
            if let Err(error) = show(&args, &news) {
                break Err(error);
            }
        };
        session.close().await;
        watched.map(|()| Done::Valid)
    })
}

/// How often held items are looked for.
const LOOK_EVERY: Duration = Duration::from_secs(5);

fn is_wanted(args: &Watch, run: &RunId) -> bool {
    args.run.as_ref().is_none_or(|wanted| wanted == run)
}

fn show(args: &Watch, news: &News) -> anyhow::Result<()> {
    let is_wanted = |run| is_wanted(args, run);
    match news {
        News::Event(event) if is_wanted(&event.run) => {
            let reason = event
                .reason
                .as_deref()
                .map(|reason| format!(": {reason}"))
                .unwrap_or_default();
            let suite = &event.suite.name;
            output::note(&format!(
                "{} step {} {suite}: {}{reason}",
                event.run,
                event.step,
                event.state.label()
            ));
        }
        News::Result(message) if is_wanted(&message.result.run) && args.json => {
            output::data(&serde_json::to_string(message)?)?;
        }
        News::Result(message) if is_wanted(&message.result.run) => {
            let result = &message.result;
            for benchmark in &result.benchmarks {
                let kind = if message.provisional {
                    "provisional"
                } else {
                    result.state.label()
                };
                output::data(&format!(
                    "{} step {} {}: {} % of {}, {} truncated, {} failed or missing ({kind})",
                    result.run,
                    result.step,
                    benchmark.name,
                    table::standing(benchmark),
                    counted(benchmark.items, "item"),
                    benchmark.outcomes.truncated,
                    benchmark.outcomes.failed()
                ))?;
            }
        }
        _ => {}
    }
    Ok(())
}
