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
/// Releases that were left over go first: a generator that found one and no completion would ask again.
///
/// It never reaches past the places up to which the archive was made: what came later stays. Repeating it, at any time and
/// by anyone, removes nothing else, but for releases of an evaluation that is served again: its dispatcher makes them anew.
///
/// # Errors
/// [`Error::Broker`] and [`Error::Storage`]; what was removed before stays removed.
pub async fn purge(context: &Context, evaluation: &EvaluationId, stored: &Stored) -> Result<(), Error> {
    let done = subject::done_of_evaluation(evaluation);
    let grade = subject::grade_of_evaluation(evaluation);
    purge_stream(
        context,
        declared::READY,
        subject::ready_of_evaluation_to_any(evaluation),
        None,
    )
    .await?;
    purge_stream(context, declared::DONE, done, Some(stored.done_through)).await?;
    fault::point(Point::ArchiveDonePurged);
    purge_stream(context, declared::GRADE, grade, Some(stored.grade_through)).await?;
    fault::point(Point::ArchiveGradePurged);
    forget_claims(context, stored).await
}

/// Purges up to and with a place in the stream; at 0 the archive saw nothing there.
async fn purge_stream(context: &Context, stream: Stream, filter: String, through: Option<u64>) -> Result<(), Error> {
    let name = stream.name;
    if through == Some(0) {
        return Ok(());
    }
    let found = context.jetstream().get_stream_no_info(name).await;
    let found = found.map_err(|error| Error::broker("look up stream", name, &error))?;
    let purge = found.purge().filter(filter);
    let purged = match through {
        Some(through) => purge.sequence(through + 1).await,
        None => purge.await,
    };
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
