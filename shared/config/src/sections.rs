//! The sections of the configuration file, with the default of each field.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::broker::{SyncInterval, engine_kind, replicas, some};
use crate::{duration, size};

/// The whole configuration: one file serves every service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// What all services share.
    pub service: Service,
    /// The broker.
    pub broker: Broker,
    /// The object store.
    pub storage: Storage,
    /// The loader.
    pub loader: Loader,
    /// The generator.
    pub generator: Generator,
    /// The grader.
    pub grader: Grader,
    /// The aggregator.
    pub aggregator: Aggregator,
    /// What happens to evaluations that ended.
    pub archive: Archive,
    /// The generation cache.
    pub cache: Cache,
}

/// What all services share.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Service {
    /// Address of the admin listener (`/livez`, `/readyz`, `/metrics`). Port 0 takes a free one. Default `127.0.0.1:0`.
    pub admin: String,
    /// How long a service may finish what is in flight after a signal. Default `20s`.
    #[serde(with = "duration")]
    pub shutdown_grace: Duration,
    /// How long a message that only a newer version understands is left to newer processes, before it is kept in the DEAD
    /// stream for `tidemill dead retry`. Default `2m`.
    #[serde(with = "duration")]
    pub newer_patience: Duration,
    /// Log lines as JSON instead of text. Default false.
    pub log_json: bool,
    /// Which log lines, in the syntax of `RUST_LOG`. Default `info`.
    pub log: String,
}

impl Default for Service {
    fn default() -> Self {
        Self {
            admin: "127.0.0.1:0".to_owned(),
            shutdown_grace: Duration::from_secs(20),
            newer_patience: Duration::from_secs(120),
            log_json: false,
            log: "info".to_owned(),
        }
    }
}

/// The broker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Broker {
    /// Addresses, comma separated. Empty: the command starts one of its own; services use `nats://127.0.0.1:4222`.
    pub url: String,
    /// A NATS credentials file. Default none.
    pub credentials: Option<PathBuf>,
    /// Copies of each stream and bucket, 1, 3 or 5. Needs as many servers in one cluster. Default 1.
    #[serde(deserialize_with = "replicas")]
    pub replicas: usize,
    /// How often the command's own broker makes the disk keep what it has acknowledged, or `always`: before each
    /// acknowledgement. Other brokers have their own configuration. Default `120s`.
    pub sync_interval: SyncInterval,
    /// How long to try to reach the broker at start. Default `10s`.
    #[serde(with = "duration")]
    pub connect_timeout: Duration,
}

impl Default for Broker {
    fn default() -> Self {
        Self {
            url: String::new(),
            credentials: None,
            replicas: 1,
            sync_interval: SyncInterval::Every(Duration::from_secs(120)),
            connect_timeout: Duration::from_secs(10),
        }
    }
}

/// The object store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub struct Storage {
    /// `file:///...` or `s3://bucket/prefix`. Empty: `objects` in the data directory. All services must use the same one.
    pub uri: String,
}

/// The loader.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Loader {
    /// Suite files, or folders of them, that announcements may name. Default none.
    pub suites: Vec<PathBuf>,
    /// Suites of an announcement that names none. Default none.
    pub default_suites: Vec<String>,
    /// The team of an announcement that names none. Default `default`.
    pub default_team: String,
    /// Server groups that one loader runs at once. Default 2.
    pub max_groups: usize,
    /// The most requests in flight for each attached endpoint, where the announcement says nothing: a bound. Below it the
    /// generators find the level that keeps the engine full. Default 1024.
    #[serde(deserialize_with = "some")]
    pub max_in_flight: u32,
    /// Sequences that a started engine computes at once. Default 16.
    #[serde(deserialize_with = "some")]
    pub engine_max_num_seqs: u32,
    /// The program that serves a checkpoint; it is run with `engine --checkpoint DIR --port N`. Empty: this program.
    pub engine_program: Option<PathBuf>,
    /// How long a checkpoint may stay incomplete before it is given up. Default `10m`.
    #[serde(with = "duration")]
    pub checkpoint_patience: Duration,
    /// How long an engine may take to answer its first request, and how long its return is waited for. Default `5m`.
    #[serde(with = "duration")]
    pub engine_patience: Duration,
    /// How long an endpoint that has never answered is waited for. Default `30s`.
    #[serde(with = "duration")]
    pub endpoint_patience: Duration,
    /// Completions that may wait for their grades, over all evaluations, before nothing more is released. They are never
    /// more than this, but for what other server groups have out at that moment (twice their slots). A hundred thousand
    /// answers of 4 KB take 400 MB of the DONE stream. Above 120,000 slow grades may hold others up. Default 100000.
    #[serde(deserialize_with = "some")]
    pub max_ungraded: u32,
    /// Starts of an engine that keeps dying, for one evaluation. Default 5.
    pub engine_starts: u32,
    /// Which engine the endpoints are: `openai`, `vllm`, `sglang`, `llamacpp` or `embedded`. Empty: found when one is attached.
    #[serde(deserialize_with = "engine_kind")]
    pub engine_kind: String,
}

impl Default for Loader {
    fn default() -> Self {
        Self {
            suites: Vec::new(),
            default_suites: Vec::new(),
            default_team: "default".to_owned(),
            max_groups: 2,
            max_in_flight: 1_024,
            engine_max_num_seqs: 16,
            engine_program: None,
            checkpoint_patience: Duration::from_secs(600),
            engine_patience: Duration::from_secs(300),
            endpoint_patience: Duration::from_secs(30),
            max_ungraded: 100_000,
            engine_starts: 5,
            engine_kind: String::new(),
        }
    }
}

/// The generator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Generator {
    /// The most requests that one generator has in flight over all engines. Default 4096.
    #[serde(deserialize_with = "some")]
    pub max_in_flight: u32,
    /// Tries of one item at an engine that answers, but answers badly; about 7 seconds pass before the last of them. Default 5.
    #[serde(deserialize_with = "some")]
    pub attempts: u32,
    /// How long one request may take that is not streamed, and how long a streamed one may wait for its first token.
    /// Default `30m`.
    #[serde(with = "duration::positive")]
    pub request_timeout: Duration,
    /// Answers whose cap is above so many tokens are streamed, so that their progress is seen. Default 64.
    pub stream_above: u32,
    /// A streamed answer that has begun is given up when no token comes for so long; one that is merely long never is.
    /// Default `2m`.
    #[serde(with = "duration::positive")]
    pub stall_timeout: Duration,
    /// A streamed answer is saved each time that it has so many more tokens, so that a kill loses no more. Default 1024.
    pub park_every_tokens: u32,
    /// Prompts that begin alike go to the replica that had their beginning last, while that costs no balance. False: they
    /// go anywhere, to measure what the other is worth. Default true.
    pub prefix_affinity: bool,
}

impl Default for Generator {
    fn default() -> Self {
        Self {
            max_in_flight: 4_096,
            attempts: 5,
            request_timeout: Duration::from_secs(1_800),
            stream_above: 64,
            stall_timeout: Duration::from_secs(120),
            park_every_tokens: 1_024,
            prefix_affinity: true,
        }
    }
}

/// The grader.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Grader {
    /// Completions that one grader holds at once. Of these a fifth each, being graded or waiting, are for long answers and
    /// costly families on threads, for programs, for judges and for other commands; what is beyond is given back to the
    /// broker for a while, so that a slow family holds no other one up. At least 5 for that to hold. Default 256.
    #[serde(deserialize_with = "some")]
    pub max_in_flight: u32,
    /// Threads for grades that take more than half a millisecond; at most a fifth of `max_in_flight`. 0: as many as cores.
    /// Default 0.
    pub threads: u32,
    /// Every grade blocks a thread for so long besides, as a slow grader would: to measure what that does to the rest.
    /// Default `0s`.
    #[serde(with = "duration")]
    pub delay: Duration,
    /// Where generated programs run.
    pub sandbox: Sandbox,
    /// The programs that suites may have run here to grade answers, each as a list of the program and its arguments, exactly as
    /// suites write it. They run as the grader does, outside of any sandbox. Default none.
    pub commands: Vec<Vec<String>>,
    /// Processes of each such program at once, at least 1. Default 2.
    #[serde(deserialize_with = "some")]
    pub command_processes: u32,
    /// The models that judge answers, by the name that suites know them by: `[grader.judge.NAME]`. Default none.
    pub judge: BTreeMap<String, Judge>,
}

impl Default for Grader {
    fn default() -> Self {
        Self {
            max_in_flight: 256,
            threads: 0,
            delay: Duration::ZERO,
            sandbox: Sandbox::default(),
            commands: Vec::new(),
            command_processes: 2,
            judge: BTreeMap::new(),
        }
    }
}

/// A model that judges answers. A suite names it; where answers are sent is decided here alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Judge {
    /// The base address of a server with the OpenAI API. Needed.
    pub url: String,
    /// The model's name there. It is part of what verdicts are known by, so a new model has a new name. Needed.
    pub model: String,
    /// The environment variable that holds the server's key. Default none: no key is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_variable: Option<String>,
    /// Most requests that one grader has there at once; how many of them there are is found. Default 16.
    #[serde(default = "judge::concurrency", deserialize_with = "some")]
    pub concurrency: u32,
    /// Most requests of one grader a minute, 0 for any number. Grades beyond wait. Default 0.
    #[serde(default)]
    pub requests_per_minute: u32,
    /// Most tokens of one grader an hour, prompts and replies together, 0 for any number. Grades beyond wait. Default 0.
    #[serde(default)]
    pub tokens_per_hour: u64,
    /// Replies that are asked for until one holds a verdict; then the sample is ungraded. Default 3.
    #[serde(default = "judge::attempts")]
    #[serde(deserialize_with = "some")]
    pub attempts: u32,
    /// How long a reply may take. Default `2m`.
    #[serde(default = "judge::request_timeout", with = "duration::positive")]
    pub request_timeout: Duration,
    /// How long one grader waits for a judge that is away until a sample is ungraded. Default `1day`.
    #[serde(default = "judge::patience", with = "duration")]
    pub patience: Duration,
}

mod judge {
    use std::time::Duration;

    pub(super) const fn concurrency() -> u32 {
        16
    }

    pub(super) const fn attempts() -> u32 {
        3
    }

    pub(super) const fn request_timeout() -> Duration {
        Duration::from_secs(120)
    }

    pub(super) const fn patience() -> Duration {
        Duration::from_secs(24 * 60 * 60)
    }
}

/// Where generated programs run. It is set up when the first item needs it; where it cannot be, no program runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sandbox {
    /// The weakest containment that will do. Default `namespaces`.
    pub level: SandboxLevel,
    /// Programs that run at a time, 0 for as many as there are cores. More make CPU limits unfair. Default 0.
    pub concurrency: u32,
    /// The program `bwrap`. Default where systems have it.
    pub bubblewrap: Option<PathBuf>,
    /// The Python interpreter of programs and tests, whose packages they may use. Default `/usr/bin/python3`, else that of `PATH`.
    pub python: Option<PathBuf>,
    /// Folders that programs may read beside /usr and the interpreter's. Default none.
    pub readable: Vec<PathBuf>,
    /// A folder of a control group (version 2) that is delegated to the grader and holds no process. Default none.
    pub cgroup: Option<PathBuf>,
    /// The user that programs run as where the grader is a superuser. Default 65534.
    pub user: u32,
}

/// How well a sandbox contains, weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SandboxLevel {
    /// Namespaces, a list of system calls, limits of each process, and a watch over all.
    Namespaces,
    /// Also Landlock.
    Landlock,
    /// Also a control group.
    Cgroup,
}

impl Default for Sandbox {
    fn default() -> Self {
        Self {
            level: SandboxLevel::Namespaces,
            concurrency: 0,
            bubblewrap: None,
            python: None,
            readable: Vec::new(),
            cgroup: None,
            user: 65_534,
        }
    }
}

/// The aggregator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Aggregator {
    /// Shortest time between two provisional results of a benchmark. Default `1s`.
    #[serde(with = "duration::positive")]
    pub publish_interval: Duration,
}

impl Default for Aggregator {
    fn default() -> Self {
        Self {
            publish_interval: Duration::from_secs(1),
        }
    }
}

/// What happens to evaluations that ended: their items go to the object store, then leave the broker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Archive {
    /// Archive at all. Without it completions and grades stay in the broker for good. Default true.
    pub enabled: bool,
    /// How long after its end an evaluation is archived. Default `30s`.
    #[serde(with = "duration")]
    pub after: Duration,
    /// How long completions and grades stay in the broker once they are archived. Default `1h`.
    #[serde(with = "duration")]
    pub keep: Duration,
}

impl Default for Archive {
    fn default() -> Self {
        Self {
            enabled: true,
            after: Duration::from_secs(30),
            keep: Duration::from_secs(3_600),
        }
    }
}

/// The generation cache, which all evaluations of a broker share.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Cache {
    /// Take over what earlier evaluations generated from the same weights, and leave what is generated for later ones.
    /// False: every evaluation asks for itself. Default true.
    pub enabled: bool,
    /// Most bytes that the broker keeps of it, at least `64KiB`; the oldest generations go first. Bodies above 256 KiB lie
    /// in the object store and count with their key alone. An own broker takes the size at each start, another one with
    /// `streams apply`. Default `1GiB`.
    #[serde(with = "size")]
    pub max_bytes: u64,
}

impl Default for Cache {
    fn default() -> Self {
        Self {
            enabled: true,
            max_bytes: 1 << 30,
        }
    }
}
