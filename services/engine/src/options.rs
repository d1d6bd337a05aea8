//! What the engine is started with.

use std::{
    net::{IpAddr, Ipv4Addr},
    path::PathBuf,
    time::Duration,
};

/// Options of the embedded engine, as a library and on the command line.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Checkpoint directory: config.json, safetensors, tokenizer.json and, for chat, a chat template.
    #[arg(long, value_name = "DIR")]
    pub checkpoint: PathBuf,
    /// Address to listen on.
    #[arg(long, default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    pub host: IpAddr,
    /// Port to listen on; 0 takes any free one.
    #[arg(long, default_value_t = 8000)]
    pub port: u16,
    /// Name that requests use for the model; by default the checkpoint directory's name.
    #[arg(long, value_name = "NAME")]
    pub served_model_name: Option<String>,
    /// Most sequences computed at once; others wait.
    #[arg(long, value_name = "COUNT", default_value_t = 16)]
    pub max_num_seqs: usize,
    /// Longest sequence in tokens, prompt and output together; by default, and at most, the checkpoint's own.
    #[arg(long, value_name = "TOKENS")]
    pub max_model_len: Option<usize>,
    /// Time that running requests get to finish after SIGTERM or SIGINT.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = humantime::parse_duration)]
    pub shutdown_grace: Duration,
    /// Shut down when the process that started this one ends.
    #[arg(long)]
    pub exit_with_parent: bool,
    /// Threads to compute with; by default 1 for models below 50 million parameters, else one per processor.
    #[arg(long, value_name = "COUNT")]
    pub threads: Option<usize>,
}

/// The command-line spelling of [`Options`].
pub type EngineArgs = Options;

impl Options {
    /// The defaults, for a checkpoint.
    #[must_use]
    pub fn new(checkpoint: impl Into<PathBuf>) -> Self {
        Self {
            checkpoint: checkpoint.into(),
            host: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: 0,
            served_model_name: None,
            max_num_seqs: 16,
            max_model_len: None,
            shutdown_grace: Duration::from_secs(30),
            exit_with_parent: false,
            threads: None,
        }
    }
}
