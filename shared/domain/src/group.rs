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
    /// Which engine it is.
    #[serde(default)]
    pub kind: EngineKind,
    /// The longest prompt plus answer in tokens that it named when it joined; absent where it named none. One that comes back
    /// with a shorter one is sent nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_length: Option<u32>,
    /// The owner of its model that it named when it joined; absent where it named none. One that comes back with another one
    /// is sent nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owned_by: Option<String>,
}

/// Which engine answers: what is asked of it, and how, depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EngineKind {
    /// Any server with the OpenAI API, of which nothing more is known.
    #[default]
    OpenAi,
    /// vLLM.
    Vllm,
    /// SGLang.
    Sglang,
    /// llama.cpp's server.
    LlamaCpp,
    /// Tidemill's own.
    Embedded,
}

impl EngineKind {
    /// Every kind.
    pub const ALL: [Self; 5] = [Self::OpenAi, Self::Vllm, Self::Sglang, Self::LlamaCpp, Self::Embedded];

    /// The kind's name in JSON, configuration and records.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Vllm => "vllm",
            Self::Sglang => "sglang",
            Self::LlamaCpp => "llamacpp",
            Self::Embedded => "embedded",
        }
    }
}

/// What one generator can take of a group: an entry of the `capacity` bucket, written every few seconds and gone soon after its
/// writer. The dispatcher adds them up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Capacity {
    /// Version of this shape; 1.
    pub schema: u32,
    /// Items that it takes at once at present: the requests that it would have in flight, and what it keeps at hand.
    pub slots: u32,
    /// Requests that it has in flight.
    pub in_flight: u32,
    /// Replica by replica, as this generator sees them.
    pub replicas: Vec<ReplicaLoad>,
}

/// One replica as one generator sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReplicaLoad {
    /// Its address.
    pub url: String,
    /// Requests that this generator would have in flight there at present.
    pub allowed: u32,
    /// Requests that it has in flight there.
    pub in_flight: u32,
    /// Sequences that the engine says it runs, of all its clients; null where it does not say.
    pub running: Option<u32>,
    /// Requests that wait in the engine; null where it does not say.
    pub waiting: Option<u32>,
    /// Share of its key-value cache in use, 0 to 1; null where it does not say.
    pub kv_use: Option<f64>,
    /// It is away, and sent nothing.
    pub is_away: bool,
    /// Why it takes nothing at present; absent while it takes requests, or where its generator does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<Trouble>,
}

/// Why a replica takes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Trouble {
    /// What is wrong.
    pub kind: TroubleKind,
    /// Seconds since it took nothing any more.
    pub since_seconds: u64,
    /// Seconds until it is asked again; absent while an answer is awaited, or where that depends on something else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_seconds: Option<u64>,
    /// What it says, where that is more than its status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What is wrong with a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TroubleKind {
    /// Nobody answers, or nothing of use.
    Away,
    /// It says that it would refuse every request.
    Refusing,
    /// It turns every request away for now: status 503.
    Unavailable,
    /// It says that there are too many: status 429.
    Overloaded,
}

impl TroubleKind {
    /// What it means, behind "it".
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Away => "is away",
            Self::Refusing => "refuses everything",
            Self::Unavailable => "turns everything away (HTTP 503)",
            Self::Overloaded => "turns everything away as too much (HTTP 429)",
        }
    }
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
