//! What a trainer announces.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{RunId, Step, TeamId, Timestamp};

/// The body of `tm.checkpoint.<run>.written`: a checkpoint is (or is about to be) complete at `uri`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Written {
    /// Version of this shape; 1.
    pub schema: u32,
    /// The training run.
    pub run: RunId,
    /// The training step.
    pub step: Step,
    /// Where the checkpoint lies (`file:///...`), or the address of a server that already holds it (`http://host:port`).
    pub uri: String,
    /// When the writer finished. Without it the time of the announcement counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written_at: Option<Timestamp>,
    /// The team that pays; `default` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub team: Option<TeamId>,
    /// Names of suites the loader knows, or paths of suite files. Empty: the loader's default suites.
    #[serde(default)]
    pub suites: Vec<String>,
    /// How much a decision waits for this checkpoint; larger is more urgent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision_value: Option<u32>,
    /// The model name that the server at `uri` serves; needed for `http` addresses alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Further servers that hold the same checkpoint.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replicas: Vec<String>,
    /// The most requests in flight over all replicas; the loader's default when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_in_flight: Option<u32>,
    /// Draw every sample anew: no generation of another evaluation is taken over, and none is left for others. Such an
    /// evaluation is one of its own, beside that of the same checkpoint and suite without this.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_cache: bool,
}

/// The body of `tm.checkpoint.<run>.rolled_back`: steps after `to_step` are void.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RolledBack {
    /// Version of this shape; 1.
    pub schema: u32,
    /// The training run.
    pub run: RunId,
    /// The last step that still counts.
    pub to_step: Step,
}

/// An event of the CHECKPOINT stream.
#[derive(Debug, Clone, PartialEq)]
pub enum CheckpointEvent {
    /// A checkpoint was written.
    Written(Written),
    /// The run went back.
    RolledBack(RolledBack),
}

/// Where the weights of an evaluation come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// A checkpoint in files; the loader starts engines for it.
    Checkpoint {
        /// Its location.
        uri: String,
    },
    /// Servers that already run; the loader attaches to them.
    Endpoint {
        /// Base addresses of the replicas, without `/v1`.
        urls: Vec<String>,
        /// The served model name.
        model: String,
    },
}
