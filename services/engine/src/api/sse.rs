//! Answers as server-sent events.

use std::{collections::VecDeque, convert::Infallible};

use axum::response::{IntoResponse, Response, Sse, sse};
use futures::{Stream, stream};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::{error::ApiError, router::App};
use crate::schedule::{Ending, Event};

/// How an endpoint writes events.
pub(super) trait Frames: Send + 'static {
    /// Number of sequences that must end before the answer does.
    fn sequences(&self) -> usize;

    /// The chunks of one event.
    fn event(&mut self, event: &Event) -> Vec<Value>;

    /// A chunk after all others.
    fn close(&mut self) -> Option<Value>;
}

struct State<F> {
    events: mpsc::Receiver<Event>,
    frames: F,
    left: usize,
    ready: VecDeque<String>,
    is_closed: bool,
    /// Keeps a drain waiting until the last chunk was handed over.
    _in_flight: TaskTrackerToken,
}

/// Streams `events` until every sequence has ended, then `[DONE]`.
///
/// When the client goes away the stream is dropped, with it the receiver, and the engine frees the slots.
pub(super) fn respond<F: Frames>(app: &App, events: mpsc::Receiver<Event>, frames: F) -> Response {
    let state = State {
        events,
        left: frames.sequences(),
        frames,
        ready: VecDeque::new(),
        is_closed: false,
        _in_flight: app.in_flight.token(),
    };
    Sse::new(chunks(state)).into_response()
}

fn chunks<F: Frames>(state: State<F>) -> impl Stream<Item = Result<sse::Event, Infallible>> {
    stream::unfold(state, |mut state| async move {
        while state.ready.is_empty() && !state.is_closed {
            state.advance().await;
        }
        let data = state.ready.pop_front()?;
        Some((Ok(sse::Event::default().data(data)), state))
    })
}

impl<F: Frames> State<F> {
    async fn advance(&mut self) {
        match self.events.recv().await {
            Some(Event {
                end: Some(Ending::Failed(reason)),
                ..
            }) => self.fail(reason),
            Some(event) => {
                self.left -= usize::from(event.end.is_some());
                self.ready
                    .extend(self.frames.event(&event).iter().map(Value::to_string));
                if self.left == 0 {
                    self.ready.extend(self.frames.close().map(|chunk| chunk.to_string()));
                    self.done();
                }
            }
            None => self.fail("the engine's thread has ended".to_owned()),
        }
    }

    fn fail(&mut self, reason: String) {
        self.ready.push_back(ApiError::internal(reason).to_json().to_string());
        self.done();
    }

    fn done(&mut self) {
        self.ready.push_back("[DONE]".to_owned());
        self.is_closed = true;
        self.events.close();
    }
}
