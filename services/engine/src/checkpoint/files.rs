//! Finding the safetensors files of a checkpoint and checking them by their headers alone.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io::Read,
    path::{Path, PathBuf},
};

use safetensors::tensor::{Dtype, Metadata, TensorInfo};
use serde::{Deserialize, de::DeserializeOwned};

use crate::Error;

/// Longest header that is believed; a larger number means that the file is no safetensors file.
const MAX_HEADER_BYTES: u64 = 100_000_000;

/// The shards of one checkpoint, each of full length.
#[derive(Debug)]
pub(crate) struct ShardSet {
    directory: PathBuf,
    shards: Vec<Shard>,
}

/// One safetensors file and its header.
#[derive(Debug)]
pub(crate) struct Shard {
    pub(crate) path: PathBuf,
    /// Where the tensor bytes start.
    pub(crate) data_start: u64,
    pub(crate) tensors: BTreeMap<String, TensorInfo>,
}

impl ShardSet {
    /// Reads the headers of all shards in `directory`: the single file, or those that the index names.
    pub(crate) fn open(directory: &Path) -> Result<Self, Error> {
        let index = directory.join("model.safetensors.index.json");
        let single = directory.join("model.safetensors");
        let paths = if index.is_file() {
            shards_of_index(directory, &index)?
        } else if single.is_file() {
            vec![single]
        } else {
            let remedy = "weights must be safetensors; convert the checkpoint, or wait until it is written";
            return Err(Error::MissingFile { path: single, remedy });
        };
        let shards = paths.into_iter().map(Shard::open).collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            directory: directory.to_owned(),
            shards,
        })
    }

    /// The shards, ordered by name.
    pub(crate) fn shards(&self) -> &[Shard] {
        &self.shards
    }

    /// The shard that holds `tensor`, with the tensor's type, shape and place.
    pub(crate) fn find(&self, tensor: &str) -> Result<(&Shard, &TensorInfo), Error> {
        self.shards
            .iter()
            .find_map(|shard| shard.tensors.get(tensor).map(|info| (shard, info)))
            .ok_or_else(|| Error::MissingTensor {
                path: self.directory.clone(),
                tensor: tensor.to_owned(),
            })
    }

    /// Checks that `tensor` is there in the given shape and in a floating-point type.
    pub(crate) fn require(&self, tensor: &str, expected: &[usize]) -> Result<(&Shard, &TensorInfo), Error> {
        let (shard, info) = self.find(tensor)?;
        if info.shape != expected {
            return Err(Error::WrongShape {
                path: shard.path.clone(),
                tensor: tensor.to_owned(),
                expected: expected.to_vec(),
                actual: info.shape.clone(),
            });
        }
        match info.dtype {
            Dtype::F32 | Dtype::F16 | Dtype::BF16 => Ok((shard, info)),
            other => Err(Error::unsupported(
                &shard.path,
                format!("weights of type {other:?} in {tensor}"),
            )),
        }
    }
}

impl Shard {
    fn open(path: PathBuf) -> Result<Self, Error> {
        let mut file = File::open(&path).map_err(|error| Error::read(&path, error))?;
        let actual = file.metadata().map_err(|error| Error::read(&path, error))?.len();
        let mut length = [0; 8];
        if actual < 8 {
            return Err(Error::Truncated {
                path,
                expected: 8,
                actual,
            });
        }
        file.read_exact(&mut length)
            .map_err(|error| Error::read(&path, error))?;
        let header_bytes = u64::from_le_bytes(length);
        if header_bytes > MAX_HEADER_BYTES {
            return Err(Error::malformed(
                &path,
                "the header length is absurd, so this is no safetensors file",
            ));
        }
        let data_start = 8 + header_bytes;
        if actual < data_start {
            return Err(Error::Truncated {
                path,
                expected: data_start,
                actual,
            });
        }
        let mut header = vec![0; usize::try_from(header_bytes).unwrap_or_default()];
        file.read_exact(&mut header)
            .map_err(|error| Error::read(&path, error))?;
        let metadata: Metadata = serde_json::from_slice(&header).map_err(|error| Error::malformed(&path, error))?;
        let expected = data_start + metadata.data_len() as u64;
        if actual != expected {
            return Err(Error::Truncated { path, expected, actual });
        }
        let tensors = metadata
            .tensors()
            .into_iter()
            .map(|(name, info)| (name, info.clone()))
            .collect();
        Ok(Self {
            path,
            data_start,
            tensors,
        })
    }
}

fn shards_of_index(directory: &Path, index: &Path) -> Result<Vec<PathBuf>, Error> {
    #[derive(Deserialize)]
    struct Index {
        weight_map: BTreeMap<String, String>,
    }
    let index_content: Index = read_json(index)?;
    let names: BTreeSet<String> = index_content.weight_map.into_values().collect();
    if names.is_empty() {
        return Err(Error::malformed(index, "weight_map is empty"));
    }
    names
        .into_iter()
        .map(|name| shard_path(directory, index, &name))
        .collect()
}

fn shard_path(directory: &Path, index: &Path, name: &str) -> Result<PathBuf, Error> {
    if name.contains(['/', '\\']) {
        return Err(Error::malformed(
            index,
            format!("weight_map names {name:?}, which is not a plain file name"),
        ));
    }
    let path = directory.join(name);
    if path.is_file() {
        return Ok(path);
    }
    let index = index.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Err(Error::MissingShard { path, index })
}

/// Reads and parses a JSON file.
pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, Error> {
    let bytes = std::fs::read(path).map_err(|error| Error::read(path, error))?;
    serde_json::from_slice(&bytes).map_err(|error| Error::malformed(path, error))
}

/// Like [`read_json`], with `None` when there is no such file.
pub(crate) fn read_optional_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, Error> {
    if path.is_file() {
        read_json(path).map(Some)
    } else {
        Ok(None)
    }
}
