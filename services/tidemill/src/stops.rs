//! Signals to stop. None is lost that comes while nobody waits for one: each is kept for who waits next.

use std::sync::OnceLock;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Semaphore;

/// The signals that came and that nobody has taken yet, as permits; or why none can be heard.
static KEPT: OnceLock<Result<(), String>> = OnceLock::new();
static CAME: Semaphore = Semaphore::const_new(0);

/// Waits for a signal to stop: what is finished stays, and the same command goes on from there. Before the first call a signal
/// ends the process at once.
///
/// # Cancel safety
/// A signal that comes after the future was dropped is given to the next call.
pub(crate) async fn stop_signal() -> anyhow::Error {
    if let Err(error) = KEPT.get_or_init(|| listen().map_err(|error| error.to_string())) {
        return anyhow::anyhow!("signals cannot be heard: {error}");
    }
    if let Ok(came) = CAME.acquire().await {
        came.forget();
    }
    anyhow::anyhow!("stopped by a signal; nothing finished is lost: the same command goes on from here")
}

/// What the body gives, unless a signal comes first: signals are heard from here on.
///
/// # Errors
/// The body's, or the signal.
pub(crate) async fn unless_stopped<T>(body: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::select! { biased;
        stopped = stop_signal() => Err(stopped),
        done = body => done,
    }
}

fn listen() -> std::io::Result<()> {
    let (terminate, interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::spawn(keep(terminate));
    tokio::spawn(keep(interrupt));
    Ok(())
}

async fn keep(mut signals: Signal) {
    while signals.recv().await.is_some() {
        CAME.add_permits(1);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::FutureExt as _;
    use rustix::process::{Signal, getpid, kill_process};

    use super::*;

    #[tokio::test]
    async fn a_signal_that_comes_while_nobody_waits_is_given_to_who_waits_next() {
        assert!(stop_signal().now_or_never().is_none());
        for signal in [Signal::INT, Signal::TERM] {
            kill_process(getpid(), signal).unwrap();
            while CAME.available_permits() == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            assert!(stop_signal().now_or_never().is_some());
            assert!(stop_signal().now_or_never().is_none(), "one signal is one stop");
        }
    }
}
