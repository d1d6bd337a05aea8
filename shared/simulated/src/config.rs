//! The file that sets an engine up.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Deserializer};

use crate::answers::Answers;
use crate::complaint::{Complaint, Table};
use crate::faults::Fault;
use crate::model::Limits;

/// Everything that is set; each field's default is that of the published mock engine, or neutral.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Name of the model served; requests for another get 404.
    pub model: String,
    /// Stands for the weights: other answers, and other lengths as far as `answers.correlation` leaves them free.
    pub checkpoint: u64,
    /// Another checkpoint, by whose lengths the bound `by_history` is ordered.
    pub earlier: Option<u64>,
    /// Address to listen on.
    pub host: IpAddr,
    /// Port of the first replica, the others take the following ones; 0 takes any that are free.
    pub port: u16,
    /// Replicas, each with its own port, batch and cache.
    pub replicas: u16,
    /// How many virtual seconds pass in one of the wall's; 0 does not wait at all.
    pub speed: f64,
    /// What `/v1/models` says, by which clients tell engines apart.
    pub owned_by: String,
    /// Under whose names `/metrics` gives its figures.
    pub metrics: Names,
    /// How long after its start a replica begins to listen; wall time.
    #[serde(deserialize_with = "time")]
    pub ready_after: Duration,
    /// Streamed answers come in chunks of so many tokens.
    pub stream_interval: u32,
    /// Text prompts get a begin token in front, as tokenizers of Llama models do.
    pub add_begin: bool,
    /// Status of a refusal because the queue is full: 503 or 429.
    pub full_status: u16,
    /// Keeps what the bounds are computed from: about 100 bytes a request, and eight a KV block of its prompt.
    pub keep_work: bool,
    /// Time and room.
    pub engine: Limits,
    /// What it says.
    pub answers: Answers,
    /// What goes wrong.
    #[serde(rename = "fault")]
    pub faults: Vec<Fault>,
}

/// No engine takes longer to start.
const LONGEST_START: Duration = Duration::from_secs(24 * 3_600);

/// Whose metric names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum Names {
    /// `vllm:...`
    #[serde(rename = "vllm")]
    Vllm,
    /// `sglang:...`
    #[serde(rename = "sglang")]
    Sglang,
    /// `llamacpp:...`
    #[serde(rename = "llama.cpp")]
    LlamaCpp,
    /// `/metrics` is not there.
    #[serde(rename = "none")]
    None,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            model: "simulated".to_owned(),
            checkpoint: 1,
            earlier: None,
            host: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: 0,
            replicas: 1,
            speed: 1.0,
            owned_by: "vllm".to_owned(),
            metrics: Names::Vllm,
            ready_after: Duration::ZERO,
            stream_interval: 1,
            add_begin: false,
            full_status: 503,
            keep_work: true,
            engine: Limits::default(),
            answers: Answers::default(),
            faults: Vec::new(),
        }
    }
}

/// Why a file sets no engine up. The message names the file, and the line where there is one.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// It cannot be read.
    #[error("read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is not what is expected here: broken TOML, an unknown key, a value of another type.
    #[error("{}: {source}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// What is wrong and where.
        source: Box<toml::de::Error>,
    },
    /// A value makes no sense.
    #[error("{}: line {line}: {complaint}", path.display())]
    Value {
        /// The file.
        path: PathBuf,
        /// Where the value stands, from 1.
        line: usize,
        /// What is wrong with which.
        complaint: Complaint,
    },
}

impl Config {
    /// Reads a file; an empty one is the default engine.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let path = path.to_owned();
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(source) => return Err(ConfigError::Read { path, source }),
        };
        let config: Self = match toml::from_str(&text) {
            Ok(config) => config,
            Err(source) => {
                return Err(ConfigError::Parse {
                    path,
                    source: Box::new(source),
                });
            }
        };
        match config.complaint() {
            Some(complaint) => Err(ConfigError::Value {
                path,
                line: complaint.line(&text).unwrap_or(1),
                complaint,
            }),
            None => Ok(config),
        }
    }

    /// What is wrong with the values, if anything.
    #[must_use]
    pub fn complaint(&self) -> Option<Complaint> {
        if self.replicas == 0 {
            return Some(Complaint::new(&["replicas"], "must be at least 1"));
        }
        if self.port > 0 && self.port.checked_add(self.replicas - 1).is_none() {
            let rule = format!(
                "is {}: there is no room for {} replicas from it on",
                self.port, self.replicas
            );
            return Some(Complaint::new(&["port", "replicas"], rule));
        }
        if let Some(complaint) = Complaint::of_range("speed", self.speed, 0.0, 1e6) {
            return Some(complaint);
        }
        if self.ready_after > LONGEST_START {
            return Some(Complaint::new(&["ready_after"], "is longer than a day"));
        }
        if self.stream_interval == 0 {
            return Some(Complaint::new(&["stream_interval"], "must be at least 1"));
        }
        if ![429, 503].contains(&self.full_status) {
            let rule = format!("is {}, which is neither 503 nor 429", self.full_status);
            return Some(Complaint::new(&["full_status"], rule));
        }
        let of_engine = || Some(self.engine.complaint()?.within(Table::Named("engine")));
        let of_answers = || Some(self.answers.complaint()?.within(Table::Named("answers")));
        of_engine()
            .or_else(of_answers)
            .or_else(|| complaint_of(&self.faults, self.replicas))
    }
}

/// What is wrong with one of several faults, if anything, where there are so many replicas.
pub(crate) fn complaint_of(faults: &[Fault], replicas: u16) -> Option<Complaint> {
    let mut faults = faults.iter().enumerate();
    faults.find_map(|(index, fault)| Some(fault.complaint(replicas)?.within(Table::Fault(index))))
}

/// A duration as `150ms`, `7s` or `1m 30s`.
pub(crate) fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    struct Time;
    impl serde::de::Visitor<'_> for Time {
        type Value = Duration;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("a time as \"150ms\" or \"7s\"")
        }

        fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Duration, E> {
            humantime::parse_duration(text).map_err(|error| E::custom(format!("{text:?} is no time: {error}")))
        }
    }
    deserializer.deserialize_str(Time)
}

/// [`time`], where it may be left out.
pub(crate) fn some_time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    time(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Config, String> {
        let folder = std::env::temp_dir().join(format!("tidemill-simulated-{}-{:p}", std::process::id(), &text));
        std::fs::write(&folder, text).unwrap();
        let config = Config::read(&folder).map_err(|error| error.to_string());
        std::fs::remove_file(&folder).unwrap();
        config
    }

    #[test]
    fn an_empty_file_is_the_published_engine() {
        let config = read("").unwrap();
        assert_eq!(config, Config::default());
        assert_eq!(config.engine.step_time(256, 0), Duration::from_micros(28_480));
    }

    #[test]
    fn everything_can_be_set() {
        let text = "model = \"m\"\nspeed = 20.0\nmetrics = \"llama.cpp\"\n[engine]\nstep = \"4ms\"\nmax_waiting = 9\n\
                    [answers]\nform = \"bare\"\n[[fault]]\nkind = \"overloaded\"\nretry_after = \"7s\"\nrequests = [100, 300]\n";
        let config = read(text).unwrap();
        assert_eq!(config.engine.max_waiting, Some(9));
        assert_eq!(config.faults[0].requests, Some([100, 300]));
    }

    #[test]
    fn the_commented_example_is_the_default_and_every_key_in_it_exists() {
        let example = include_str!("../../../ops/bench/engine.toml");
        assert_eq!(read(example).unwrap(), Config::default());
        let uncommented: String = example
            .lines()
            .map(|line| match line.strip_prefix("# ") {
                Some(set) if set.contains(" = ") || set.starts_with('[') => format!("{set}\n"),
                _ => format!("{line}\n"),
            })
            .collect();
        let config = read(&uncommented).unwrap();
        assert_eq!(config.engine, Limits::default());
        assert_eq!(config.answers, Answers::default());
        // What reads a kind names all there are when it meets another.
        let all = read("[[fault]]\nkind = \"explode\"\n").unwrap_err();
        let (_, all) = all.split_once("expected one of ").unwrap();
        let all: Vec<&str> = all.split('`').skip(1).step_by(2).collect();
        let shown = config
            .faults
            .iter()
            .map(|fault| serde_json::to_value(fault.kind).unwrap());
        let shown: Vec<String> = shown.map(|kind| kind.as_str().unwrap().to_owned()).collect();
        assert_eq!(shown.len(), all.len(), "each kind once");
        assert!(
            all.iter().all(|kind| shown.iter().any(|shown| shown == kind)),
            "{all:?}"
        );
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        for (text, expected) in [
            ("speed = 1.0\n[engine]\nmax_num_seq = 3\n", ["line 3", "max_num_seq"]),
            ("[answers]\nmedian_tokens = \"x\"\n", ["line 2", "median_tokens"]),
            ("[engine]\nstep = \"fast\"\n", ["line 2", "\"fast\" is no time"]),
            ("[[fault]]\nkind = \"explode\"\n", ["line 2", "explode"]),
            (
                "[engine]\n\nkv_blocks = 1\n",
                ["line 3: engine.kv_blocks x", "is 16 tokens"],
            ),
            (
                "[engine]\nmax_model_len = 9999999\n",
                ["line 2: engine.kv_blocks", "(9999999)"],
            ),
            (
                "[engine]\nmax_num_seqs = 9000\n",
                ["line 2: engine.max_batched_tokens", "(9000)"],
            ),
            (
                "[engine]\nblock_size = 0\n",
                ["line 2: engine.block_size", "at least 1"],
            ),
            (
                "[engine]\nstep_per_sequence = \"0s\"\nstep = \"0s\"\n",
                ["line 3: engine.step and", "both 0"],
            ),
            (
                "[answers]\ncorrect = 2.0\n",
                ["line 2: answers.correct", "is 2, which is not from 0 to 1"],
            ),
            (
                "[answers]\nspread = 1.0\ncorrect = nan\n",
                ["line 3: answers.correct", "is NaN"],
            ),
            (
                "[answers]\nmedian_tokens = 0.0\n",
                ["line 2: answers.median_tokens", "is 0"],
            ),
            ("[answers]\nspread = -0.5\n", ["line 2: answers.spread", "is -0.5"]),
            (
                "[answers]\nspread = 900.0\n",
                ["line 2: answers.spread", "from 0 to 10"],
            ),
            (
                "model = \"m\"\nready_after = \"2y\"\n",
                ["line 2: ready_after", "longer than a day"],
            ),
            ("[answers]\nmarker = \"\"\n", ["line 2: answers.marker", "empty"]),
            ("speed = -1.0\n", ["line 1: speed", "is -1"]),
            ("model = \"m\"\nspeed = inf\n", ["line 2: speed", "is inf"]),
            ("stream_interval = 0\n", ["line 1: stream_interval", "at least 1"]),
            ("full_status = 500\n", ["line 1: full_status", "neither 503 nor 429"]),
            ("replicas = 0\n", ["line 1: replicas", "at least 1"]),
            (
                "replicas = 9\nport = 65530\n",
                ["line 2: port", "no room for 9 replicas"],
            ),
            (
                "[[fault]]\nkind = \"die\"\nshare = 3.0\n",
                ["line 3: fault 1: share", "is 3"],
            ),
            (
                "[[fault]]\nkind = \"die\"\nshare = 0.0\n",
                ["line 3: fault 1: share", "is 0"],
            ),
            (
                "[[fault]]\nkind = \"die\"\nshare = nan\n",
                ["line 3: fault 1: share", "is NaN"],
            ),
            (
                "[[fault]]\nkind = \"die\"\n[[fault]]\nkind = \"empty\"\ntimes = 0\n",
                ["line 5: fault 2: times", "never"],
            ),
            (
                "[[fault]]\nkind = \"empty\"\nfor = \"0s\"\n",
                ["line 3: fault 1: for", "never"],
            ),
            (
                "replicas = 2\n[[fault]]\nkind = \"die\"\nreplica = 7\n",
                ["line 4: fault 1: replica", "is 7, and there are 2, from 0 to 1"],
            ),
            ("[[fault]]\nkind = \"die\"\nreplica = -1\n", ["line 3", "replica = -1"]),
            (
                "[[fault]]\nkind = \"empty\"\nrequests = [5, 2]\n",
                ["line 3: fault 1: requests", "5 to 2"],
            ),
            (
                "[[fault]]\nkind = \"empty\"\nrequests = [0, 2]\n",
                ["line 3: fault 1: requests", "0 to 2"],
            ),
            (
                "[[fault]]\nkind = \"empty\"\nretry_after = \"1s\"\n",
                ["line 3: fault 1: retry_after", "belongs to"],
            ),
            (
                "[[fault]]\nkind = \"overloaded\"\nas_date = true\n",
                ["line 3: fault 1: as_date", "not set"],
            ),
            (
                "[[fault]]\nkind = \"empty\"\nafter_tokens = 4\n",
                ["line 3: fault 1: after_tokens", "belongs to"],
            ),
            (
                "[[fault]]\nkind = \"empty\"\nfor = \"-1s\"\n",
                ["line 3", "\"-1s\" is no time"],
            ),
        ] {
            let error = read(text).unwrap_err();
            assert!(expected.iter().all(|part| error.contains(part)), "{text:?}: {error}");
            assert!(error.contains("tidemill-simulated-"), "the file: {error}");
        }
        assert!(
            Config::read(Path::new("/nowhere"))
                .unwrap_err()
                .to_string()
                .starts_with("read /nowhere")
        );
    }
}
