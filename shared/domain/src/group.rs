//! Server groups: which engines answer for a checkpoint.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Digest, GroupId, Timestamp};

/// One engine that serves the group's checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Replica {
    /// Base address without `/v1`, for instance `http://127.0.0.1:8000`.
    pub url: String,
    /// The model name that requests must carry.
    pub model: String,
    /// The most requests this engine is sent at once.
    pub max_in_flight: u32,
}

/// The record of a server group in the `groups` bucket: written by the loader that holds the group's lease, watched by
/// generators. It is there exactly while the group may be sent requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServerGroup {
    /// Version of this shape; 1.
    pub schema: u32,
    /// The group.
    pub group: GroupId,
    /// Identity of the weights that its replicas hold.
    pub checkpoint: Digest,
    /// The replicas that passed their warm-up.
    pub replicas: Vec<Replica>,
    /// The longest prompt plus answer in tokens, where the engine says.
    pub context_length: Option<u32>,
    /// When this record was written.
    pub updated: Timestamp,
}

impl ServerGroup {
    /// The most requests in flight over all replicas.
    #[must_use]
    pub fn slots(&self) -> u32 {
        self.replicas.iter().map(|replica| replica.max_in_flight).sum()
    }
}
