//! Taking out of the broker what an archive holds.

use tidemill_domain::EvaluationId;
use tidemill_service::Context;
use tidemill_service::fault::{self, Point};
use tidemill_streams::{Stream, declared, subject};
use tidemill_telemetry::Metric;

use crate::index::{read_file, read_index};
use crate::{Error, Stored};

/// Purges the messages of an evaluation that its archive holds, then the bodies that they claimed.
///
/// It never reaches past the places up to which the archive was made: what came later stays. Repeating it, at any time and
/// by anyone, removes nothing else.
///
/// # Errors
/// [`Error::Broker`] and [`Error::Storage`]; what was removed before stays removed.
pub async fn purge(context: &Context, evaluation: &EvaluationId, stored: &Stored) -> Result<(), Error> {
    let done = subject::done_of_evaluation(evaluation);
    let grade = subject::grade_of_evaluation(evaluation);
    purge_stream(context, declared::DONE, done, stored.done_through).await?;
    fault::point(Point::ArchiveDonePurged);
    purge_stream(context, declared::GRADE, grade, stored.grade_through).await?;
    fault::point(Point::ArchiveGradePurged);
    forget_claims(context, stored).await
}

async fn purge_stream(context: &Context, stream: Stream, filter: String, through: u64) -> Result<(), Error> {
    let name = stream.name;
    let found = context.jetstream().get_stream_no_info(name).await;
    let found = found.map_err(|error| Error::broker("look up stream", name, &error))?;
    let purged = found.purge().sequence(through + 1).filter(filter).await;
    let purged = purged.map_err(|error| Error::broker("purge from stream", name, &error))?;
    tidemill_telemetry::add(Metric::Purged, purged.purged, [("stream", name)]);
    Ok(())
}

async fn forget_claims(context: &Context, stored: &Stored) -> Result<(), Error> {
    let index = read_index(&context.store, &stored.folder, Some(&stored.index)).await?;
    for entry in &index.claims {
        let keys = read_file(&context.store, &stored.folder, entry).await?;
        for key in String::from_utf8_lossy(&keys).lines() {
            context.store.delete(key).await?;
        }
    }
    Ok(())
}
