//! Results that count no longer: who reads the RESULT stream alone must see that a run went back.

use std::collections::HashSet;

use tidemill_service::{Context, Follow, Start};
use tidemill_streams::declared;

use crate::evaluation::Newest;
use crate::publish::{MESSAGE_ID, Outlet, id_of_retraction};

/// Publishes the results of evaluations that ended and are superseded since as superseded, each once.
///
/// Their events hold the results; what was said before, by this process or another, is told by the ids in the stream.
pub(crate) async fn retract(context: Context, superseded: Vec<Newest>) {
    let said = said(&context).await;
    let outlet = Outlet::new(context);
    for newest in superseded {
        let Some(result) = &newest.event.result else { continue };
        if !said.contains(&id_of_retraction(&newest, 0)) {
            outlet
                .superseded(&newest, &result.timeline, result.benchmarks.clone())
                .await;
        }
    }
}

async fn said(context: &Context) -> HashSet<String> {
    let filter = "tm.result.>".to_owned();
    let mut follow = Follow::open(context, declared::RESULT, filter, true, Start::Beginning).await;
    let mut said = HashSet::new();
    follow
        .each_known(|message| {
            let id = message.headers.as_ref().and_then(|headers| headers.get(MESSAGE_ID));
            said.extend(id.map(|id| id.as_str().to_owned()));
        })
        .await;
    said
}
