//! What can keep the engine from starting or serving.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

/// A failure to load a checkpoint or to serve it. Each names the file at fault and, where there is one, the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The checkpoint directory does not exist or is not a directory.
    #[error("no checkpoint directory at {}", .0.display())]
    NoDirectory(PathBuf),
    /// A file that every checkpoint must have is absent.
    #[error("{} is missing: {remedy}", path.display())]
    MissingFile {
        /// The file that was looked for.
        path: PathBuf,
        /// What to do about it.
        remedy: &'static str,
    },
    /// A file is there and cannot be read.
    #[error("read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A file was read and its content is not what its name promises.
    #[error("{} is malformed: {reason}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The model is of a kind that this engine does not compute.
    #[error("{} asks for {what}, which the embedded engine cannot compute; serve it with vLLM or SGLang", path.display())]
    Unsupported {
        /// The file that asks for it, usually config.json.
        path: PathBuf,
        /// The architecture or setting.
        what: String,
    },
    /// The index names a shard that is not there.
    #[error("{} is missing though {index} names it: the checkpoint is incomplete", path.display())]
    MissingShard {
        /// The absent shard.
        path: PathBuf,
        /// The index that names it.
        index: String,
    },
    /// A safetensors file is shorter or longer than its header says.
    #[error("{} holds {actual} bytes where its header needs {expected}: still being written, or cut", path.display())]
    Truncated {
        /// The shard.
        path: PathBuf,
        /// Bytes that the header calls for.
        expected: u64,
        /// Bytes that the file has.
        actual: u64,
    },
    /// A tensor that the configuration calls for is in no shard.
    #[error("{} lacks tensor {tensor}, which its config.json calls for", path.display())]
    MissingTensor {
        /// The checkpoint directory.
        path: PathBuf,
        /// The tensor's name.
        tensor: String,
    },
    /// A tensor's shape disagrees with the configuration.
    #[error("tensor {tensor} in {} has shape {actual:?} where config.json calls for {expected:?}", path.display())]
    WrongShape {
        /// The shard that holds the tensor.
        path: PathBuf,
        /// The tensor's name.
        tensor: String,
        /// Shape by the configuration.
        expected: Vec<usize>,
        /// Shape in the file.
        actual: Vec<usize>,
    },
    /// A weight is NaN or infinite.
    #[error("tensor {tensor} in {} holds a weight that is not a finite number", path.display())]
    NonFinite {
        /// The shard that holds the tensor.
        path: PathBuf,
        /// The tensor's name.
        tensor: String,
    },
    /// The tensor library refused an operation.
    #[error("compute")]
    Compute(#[from] candle_core::Error),
    /// The address cannot be listened on.
    #[error("listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's reason, for instance that the port is in use.
        source: std::io::Error,
    },
    /// An option's value makes no sense for this checkpoint.
    #[error("{0}")]
    Option(String),
    /// The engine's thread ended while it was needed, which is a fault of the engine.
    #[error("the engine's thread has ended")]
    EngineEnded,
    /// The process could not get a thread, a signal handler or the like.
    #[error("set up the process")]
    System(#[from] std::io::Error),
}

impl Error {
    /// Wraps an error of reading `path`.
    pub(crate) fn read(path: &Path, source: std::io::Error) -> Self {
        Self::Read {
            path: path.to_owned(),
            source,
        }
    }

    /// Says what is wrong with the content of `path`.
    pub(crate) fn malformed(path: &Path, reason: impl ToString) -> Self {
        Self::Malformed {
            path: path.to_owned(),
            reason: reason.to_string(),
        }
    }

    /// Says what the file at `path` asks for in vain.
    pub(crate) fn unsupported(path: &Path, what: impl Into<String>) -> Self {
        Self::Unsupported {
            path: path.to_owned(),
            what: what.into(),
        }
    }

    /// The error and its causes in one line, for a person.
    #[must_use]
    pub fn one_line(&self) -> String {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            text = format!("{text}: {error}");
            cause = error.source();
        }
        text
    }
}
