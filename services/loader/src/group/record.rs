//! What generators see of a group: its record and its consumer.

use tidemill_domain::ServerGroup;
use tidemill_service::fault::{self, Point};
use tidemill_service::now;
use tidemill_streams::{buckets, declared, durable, live};

use super::Runner;
use crate::engine::Engines;

impl Runner {
    /// Makes the group known to generators, or known anew when its replicas changed.
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
        let slots = record.slots();
        let consumer = durable::generator(&self.group, slots);
        live::ensure(self.context.jetstream(), &consumer)
            .await
            .map_err(|error| error.to_string())?;
        fault::point(Point::LoaderConsumerMade);
        let bytes = serde_json::to_vec(&record).map_err(|error| error.to_string())?;
        let groups = self.groups().await?;
        groups
            .put(self.group.as_str(), bytes.into())
            .await
            .map_err(|error| error.to_string())?;
        fault::point(Point::LoaderRecordWritten);
        self.dispatcher.set_slots(slots as usize);
        Ok(())
    }

    async fn groups(&self) -> Result<async_nats::jetstream::kv::Store, String> {
        self.context
            .jetstream()
            .get_key_value(buckets::GROUPS.name)
            .await
            .map_err(|error| error.to_string())
    }

    /// Takes the group's record away: generators send it nothing more and give waiting items back.
    pub(super) async fn withdraw(&self) {
        match self.groups().await {
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
        if !self.live.is_empty() {
            // Draining: another loader will go on where this one stopped.
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
