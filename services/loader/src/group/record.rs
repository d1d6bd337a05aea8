//! What generators see of a group: its record and its consumer.

use tidemill_domain::ServerGroup;
use tidemill_service::fault::{self, Point};
use tidemill_service::{leader, now};
use tidemill_streams::{buckets, declared, durable, live};

use super::Runner;
use crate::engine::Engines;

impl Runner {
    /// Makes the group known to generators, or known anew when its replicas changed.
    ///
    /// An error may pass: the same again is right.
    pub(super) async fn open(&mut self, engines: &Engines) -> Result<(), String> {
        let event = self.live.last().ok_or("no evaluation is left")?;
        let record = ServerGroup {
            schema: 1,
            group: self.group.clone(),
            checkpoint: event.checkpoint.clone(),
            replicas: engines.replicas(),
            context_length: engines.context_length(),
            updated: now(),
        };
        self.offer(&record).await
    }

    async fn offer(&mut self, record: &ServerGroup) -> Result<(), String> {
        let slots = record.slots();
        let consumer = durable::generator(&self.group, slots);
        live::ensure(self.context.jetstream(), &consumer)
            .await
            .map_err(|error| error.to_string())?;
        fault::point(Point::LoaderConsumerMade);
        let bytes = serde_json::to_vec(record).map_err(|error| error.to_string())?;
        self.write(&bytes).await?;
        self.record = Some(bytes);
        fault::point(Point::LoaderRecordWritten);
        self.bound = slots as usize;
        self.apply_capacity();
        Ok(())
    }

    async fn write(&self, record: &[u8]) -> Result<(), String> {
        let groups = self.groups().await?;
        // Last, so that nothing lies between it and the write but the write itself.
        if !self.context.may_act() {
            return Err("the group's lease may be another loader's".to_owned());
        }
        let written = groups.put(self.group.as_str(), record.to_vec().into()).await;
        written.map(drop).map_err(|error| error.to_string())
    }

    /// Writes the record again where it is not there as this runner wrote it: a loader that had the lease before and did
    /// not know yet that it lost it may have written over it, or taken it away.
    pub(super) async fn keep_record(&self) {
        let Some(record) = self.record.as_deref().filter(|_| self.context.may_act()) else {
            return;
        };
        let kept = async {
            let entry = leader::entry(&self.groups().await?, self.group.as_str()).await;
            let entry = entry.map_err(|error| error.to_string())?;
            if entry.is_some_and(|entry| entry.value == record) {
                return Ok(());
            }
            tracing::warn!(group = %self.group, "the group's record is not the one that was written; writing it again");
            self.write(record).await
        };
        if let Err(reason) = kept.await {
            tracing::debug!(group = %self.group, reason, "the group's record is not known to be right");
        }
    }

    async fn groups(&self) -> Result<async_nats::jetstream::kv::Store, String> {
        self.context
            .jetstream()
            .get_key_value(buckets::GROUPS.name)
            .await
            .map_err(|error| error.to_string())
    }

    /// Takes the group's record away: generators send it nothing more and give waiting items back. It stays where it may be
    /// another loader's by now.
    pub(super) async fn withdraw(&mut self) {
        self.record = None;
        match self.groups().await {
            Ok(_) if !self.context.may_act() => {}
            Ok(groups) => {
                if let Err(error) = groups.delete(self.group.as_str()).await {
                    tracing::warn!(group = %self.group, %error, "record not withdrawn");
                }
            }
            Err(error) => tracing::warn!(group = %self.group, error, "record not withdrawn"),
        }
    }

    /// Leaves nothing of the group behind, while nobody else runs it.
    pub(super) async fn close(&mut self) {
        if !self.live.is_empty() || !self.context.may_act() {
            // Draining, or it may be run elsewhere: another loader will go on where this one stopped.
            return;
        }
        let name = durable::generator(&self.group, 1).name;
        if let Err(error) = self
            .context
            .jetstream()
            .delete_consumer_from_stream(&name, declared::READY.name)
            .await
        {
            tracing::debug!(consumer = name, %error, "consumer not deleted");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use tidemill_config::Config;
    use tidemill_domain::{EvaluationEvent, EvaluationState, GroupId};
    use tidemill_service::{Context, acquire, connect, prepare};
    use tidemill_storage::{Address, Store};
    use tidemill_testkit::Broker;
    use tokio::sync::Semaphore;

    use super::*;
    use crate::inbox::Inbox;

    fn event() -> EvaluationEvent {
        let digest = format!("blake3:{}", "0".repeat(64));
        serde_json::from_value(serde_json::json!({
            "schema": 1, "evaluation": "0".repeat(16), "state": "queued", "at": "2024-01-01T00:00:00Z", "run": "r",
            "step": 1, "team": "t", "checkpoint": digest, "manifest": digest, "group": "0".repeat(16),
            "suite": {"name": "s", "version": "1", "tier": "canary"}, "samples": 1,
            "source": {"checkpoint": {"uri": "/c"}}, "timeline": {},
        }))
        .unwrap()
    }

    fn record(group: &GroupId, context_length: u32) -> ServerGroup {
        ServerGroup {
            schema: 1,
            group: group.clone(),
            checkpoint: event().checkpoint,
            replicas: Vec::new(),
            context_length: Some(context_length),
            updated: now(),
        }
    }

    /// The group's record, and how many events of evaluations there are.
    async fn seen(runner: &Runner) -> (Option<ServerGroup>, u64) {
        let groups = runner.groups().await.unwrap();
        let entry = leader::entry(&groups, runner.group.as_str()).await.unwrap();
        let record = entry.map(|entry| serde_json::from_slice(&entry.value).unwrap());
        let jetstream = runner.context.jetstream();
        let stream = jetstream.get_stream(declared::EVALUATION.name).await.unwrap();
        (record, stream.cached_info().state.messages)
    }

    #[tokio::test]
    async fn a_runner_that_is_not_certain_of_its_lease_leaves_the_group_alone() {
        let (broker, folder) = (Broker::start().unwrap(), tempfile::tempdir().unwrap());
        let config = Config::default();
        let connection = connect(&config, &broker.url(), "test").await.unwrap();
        let store = Store::open(Address::of_folder(folder.path())).unwrap();
        prepare(&connection, &config, &store, true).await.unwrap();
        let context = Context::new("loader", connection, store, Arc::new(config));
        let lease = acquire(&context, "group.test").await.unwrap();
        let group = event().group;
        let room = Arc::new(Semaphore::new(1));
        let mut runner = Runner::new(context.under(&lease), group.clone(), Arc::<Inbox>::default(), room);
        runner.live.push(event());
        let (first, second) = (record(&group, 1), record(&group, 2));
        runner.offer(&first).await.unwrap();
        runner.announce(EvaluationState::Admitted).await;
        assert_eq!(seen(&runner).await, (Some(first.clone()), 1));

        // As a process that stood still for longer than its lease.
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(60)).await;
        tokio::time::resume();
        assert!(!runner.context.may_act());
        assert!(runner.offer(&second).await.is_err());
        runner.announce(EvaluationState::Serving).await;
        runner.give_up("a reason").await;
        let event = runner.live[0].clone();
        runner.abandon(&event, "a reason").await;
        assert_eq!(runner.live.len(), 1, "it may be served on under another turn");
        runner.withdraw().await;
        assert_eq!(seen(&runner).await, (Some(first), 1));
    }
}
