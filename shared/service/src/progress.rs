//! Telling the broker that work goes on, and stopping work of which it could not be told.
//!
//! One task does it for all that a worker has in flight, so that nothing else the worker waits for can hold it up. After a
//! report the broker is asked for an answer: what was sent before has then arrived.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

struct Entry<A> {
    acker: Arc<A>,
    /// The broker counts from here at the latest.
    confirmed: Instant,
    stop: CancellationToken,
}

type Entries<A> = Arc<Mutex<HashMap<u64, Entry<A>>>>;

/// What a worker has in flight, reported every third of `ack_wait` until this is dropped.
pub(crate) struct Progress<A> {
    entries: Entries<A>,
    next: u64,
    _end: DropGuard,
}

/// A message that is reported in progress until this is dropped.
pub(crate) struct Reported<A> {
    entries: Entries<A>,
    id: u64,
}

impl<A> Drop for Reported<A> {
    fn drop(&mut self) {
        lock(&self.entries).remove(&self.id);
    }
}

fn lock<A>(entries: &Entries<A>) -> std::sync::MutexGuard<'_, HashMap<u64, Entry<A>>> {
    entries.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<A: Send + Sync + 'static> Progress<A> {
    /// Begins to report. `report` sends for all that it is given, and is true when the broker has confirmed it.
    pub(crate) fn start<R, F>(ack_wait: Duration, report: R) -> Self
    where
        R: Fn(Vec<Arc<A>>) -> F + Send + Sync + 'static,
        F: Future<Output = bool> + Send,
    {
        let entries = Entries::default();
        let end = CancellationToken::new();
        let (reported, ended) = (Arc::clone(&entries), end.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = ended.cancelled() => {}
                () = run(reported, ack_wait, report) => {}
            }
        });
        Self {
            entries,
            next: 0,
            _end: end.drop_guard(),
        }
    }

    /// Reports a message that was delivered now. `stop` is cancelled when the broker could not be told for `ack_wait`: it
    /// gives the message to another then.
    pub(crate) fn add(&mut self, acker: Arc<A>, stop: CancellationToken) -> Reported<A> {
        self.next += 1;
        let entry = Entry {
            acker,
            confirmed: Instant::now(),
            stop,
        };
        lock(&self.entries).insert(self.next, entry);
        Reported {
            entries: Arc::clone(&self.entries),
            id: self.next,
        }
    }
}

async fn run<A, R, F>(entries: Entries<A>, ack_wait: Duration, report: R)
where
    R: Fn(Vec<Arc<A>>) -> F,
    F: Future<Output = bool>,
{
    let every = ack_wait / 3;
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        // Before the report: a process that was suspended has lost its messages already.
        stop_overdue(&entries, ack_wait);
        let sent = Instant::now();
        let (ids, ackers): (Vec<u64>, Vec<Arc<A>>) = lock(&entries)
            .iter()
            .map(|(id, entry)| (*id, Arc::clone(&entry.acker)))
            .unzip();
        if ids.is_empty() {
            continue;
        }
        if timeout(every, report(ackers)).await.unwrap_or(false) {
            let mut entries = lock(&entries);
            for id in ids {
                if let Some(entry) = entries.get_mut(&id) {
                    entry.confirmed = sent;
                }
            }
        } else {
            tracing::debug!(in_flight = ids.len(), "the broker did not confirm that work goes on");
        }
    }
}

fn stop_overdue<A>(entries: &Entries<A>, ack_wait: Duration) {
    let mut stopped = 0;
    for entry in lock(entries).values() {
        if entry.confirmed.elapsed() >= ack_wait && !entry.stop.is_cancelled() {
            entry.stop.cancel();
            stopped += 1;
        }
    }
    if stopped > 0 {
        tracing::warn!(
            stopped,
            "work is stopped: the broker could not be told that it goes on, and gives it to others"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    const ACK_WAIT: Duration = Duration::from_secs(30);

    struct Bench {
        progress: Progress<u32>,
        answers: Arc<AtomicBool>,
        reports: Arc<AtomicUsize>,
    }

    fn bench() -> Bench {
        let (answers, reports) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicUsize::new(0)));
        let (answering, counted) = (Arc::clone(&answers), Arc::clone(&reports));
        let progress = Progress::start(ACK_WAIT, move |ackers| {
            counted.fetch_add(ackers.len(), Ordering::SeqCst);
            let answers = answering.load(Ordering::SeqCst);
            async move { answers }
        });
        Bench {
            progress,
            answers,
            reports,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn work_is_reported_every_third_of_the_wait_while_it_runs() {
        let mut bench = bench();
        let stop = CancellationToken::new();
        let reported = bench.progress.add(Arc::new(1), stop.clone());
        tokio::time::sleep(ACK_WAIT * 3 + Duration::from_secs(1)).await;
        assert_eq!(bench.reports.load(Ordering::SeqCst), 10);
        assert!(!stop.is_cancelled());
        drop(reported);
        tokio::time::sleep(ACK_WAIT * 3).await;
        assert_eq!(bench.reports.load(Ordering::SeqCst), 10);
    }

    #[tokio::test(start_paused = true)]
    async fn work_is_stopped_when_its_progress_was_not_confirmed_for_the_whole_wait() {
        let mut bench = bench();
        let (old, young) = (CancellationToken::new(), CancellationToken::new());
        let _old = bench.progress.add(Arc::new(1), old.clone());
        tokio::time::sleep(Duration::from_secs(1)).await;
        bench.answers.store(false, Ordering::SeqCst);
        tokio::time::sleep(ACK_WAIT - Duration::from_secs(10)).await;
        let _young = bench.progress.add(Arc::new(2), young.clone());
        assert!(!old.is_cancelled());
        tokio::time::timeout(Duration::from_secs(10), old.cancelled())
            .await
            .expect("the old one is stopped");
        assert!(!young.is_cancelled());
        bench.answers.store(true, Ordering::SeqCst);
        tokio::time::sleep(ACK_WAIT * 2).await;
        assert!(!young.is_cancelled(), "it was confirmed in time");
    }

    #[tokio::test(start_paused = true)]
    async fn a_report_that_hangs_is_no_confirmation() {
        let mut progress = Progress::start(ACK_WAIT, |_: Vec<Arc<u32>>| std::future::pending());
        let stop = CancellationToken::new();
        let _reported = progress.add(Arc::new(1), stop.clone());
        tokio::time::timeout(ACK_WAIT * 2, stop.cancelled())
            .await
            .expect("it is stopped");
    }
}
