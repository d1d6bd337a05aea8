//! Reads a streamed answer: waits for its pieces, each in its time, and hands them to the assembly.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use crate::assembly::{Assembly, Flow};
use crate::classify::settle;
use crate::http::{Next, Stream};
use crate::sse::{Events, MOST_BYTES};
use crate::{Answer, HttpOutcome, Verdict, Watch};

/// How long the end of a stream is waited for once the answer is whole, so that its connection can be used again.
const LAST_BYTES: Duration = Duration::from_secs(2);

/// Reads `stream` to its end, adds its tokens to `streamed` as they arrive, and shows what there is after each piece that
/// brought more.
///
/// # Cancel safety
/// What has arrived is in the assembly's partial answer; dropping the future closes the connection.
pub(crate) async fn read(
    mut stream: Stream,
    assembly: Assembly<'_>,
    streamed: &AtomicU64,
    watch: Watch<'_>,
) -> Verdict<Answer> {
    if stream.is_events {
        read_events(stream, assembly, streamed, watch).await
    } else {
        read_document(&mut stream, assembly).await
    }
}

/// A server that does not stream sends the whole answer at once.
async fn read_document(stream: &mut Stream, mut assembly: Assembly<'_>) -> Verdict<Answer> {
    let mut body = Vec::new();
    loop {
        match stream.next(stream.first_by).await {
            Next::Bytes(_) if body.len() > MOST_BYTES => {
                return Verdict::retry_on_new_connection("the answer does not end");
            }
            Next::Bytes(bytes) => body.extend_from_slice(&bytes),
            Next::End => break,
            Next::Cut(why) => return failed(HttpOutcome::Cut(why)),
            Next::Late => return failed(HttpOutcome::TimedOut(stream.timeout)),
        }
    }
    assembly.event(&body);
    assembly.conclude()
}

async fn read_events(
    mut stream: Stream,
    mut assembly: Assembly<'_>,
    streamed: &AtomicU64,
    watch: Watch<'_>,
) -> Verdict<Answer> {
    let stall_timeout = assembly.stall_timeout();
    let mut events = Events::default();
    let mut last_token: Option<Instant> = None;
    loop {
        let until = last_token.map_or(stream.first_by, |at| at + stall_timeout);
        let bytes = match stream.next(until).await {
            Next::Bytes(bytes) => bytes,
            // The answer is whole; its counts or its last bytes are not worth a failure.
            _ if assembly.has_ended() => return assembly.conclude(),
            Next::End => return cut("the stream ended before the answer did"),
            Next::Cut(why) => return cut(&why),
            Next::Late if last_token.is_none() => return failed(HttpOutcome::TimedOut(stream.timeout)),
            Next::Late => {
                return Verdict::Stalled {
                    why: format!("no token within {stall_timeout:?} after {} of them", assembly.tokens()),
                };
            }
        };
        let mut has_progressed = false;
        let before = assembly.tokens();
        let flow = events.feed(&bytes, |data| match assembly.event(data) {
            Flow::Idle => ControlFlow::Continue(()),
            Flow::Progress | Flow::Ended => {
                has_progressed = true;
                ControlFlow::Continue(())
            }
            Flow::Over => ControlFlow::Break(()),
        });
        if has_progressed {
            streamed.fetch_add(assembly.tokens().saturating_sub(before).max(1), Ordering::Relaxed);
            watch(assembly.partial());
            let now = Instant::now();
            if last_token.replace(now).is_none() {
                assembly.note_first_token(now - stream.begun);
            }
        }
        match flow {
            Ok(ControlFlow::Continue(())) => {}
            Ok(ControlFlow::Break(())) => {
                if assembly.is_whole() {
                    finish(&mut stream).await;
                }
                return assembly.conclude();
            }
            Err(_) => return Verdict::retry_on_new_connection("an event of the stream does not end"),
        }
    }
}

/// Takes what follows the last event: mostly the end, without which the connection could not be used again.
async fn finish(stream: &mut Stream) {
    let until = Instant::now() + LAST_BYTES;
    while let Next::Bytes(_) = stream.next(until).await {}
}

/// Whatever sent the answer is gone, and may be gone because of it.
fn cut(why: &str) -> Verdict<Answer> {
    Verdict::Down {
        why: format!("the answer was cut: {why}"),
        sent: true,
    }
}

fn failed(outcome: HttpOutcome) -> Verdict<Answer> {
    settle(&outcome, |_| Verdict::retry("an outcome without a body"))
}
