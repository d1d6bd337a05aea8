//! Proof that a Hugging Face safetensors checkpoint is complete.
//!
//! Writers are not atomic: `config.json` comes first, shards grow under their final names, the index follows, and the
//! tokenizer is a later call. So a checkpoint is complete when every file that the index names is there with the length
//! that its own header states, every tensor lies in the shard the index says, and configuration and tokenizer are there.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde::Deserialize;

/// A complete checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Complete {
    /// Its folder.
    pub folder: PathBuf,
    /// Every file that makes up its identity, relative to the folder, sorted.
    pub files: Vec<PathBuf>,
    /// Bytes of all weights.
    pub weight_bytes: u64,
}

/// What is not there yet, or not right. More writing may mend each of these.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("checkpoint {} is not complete: {what}", .folder.display())]
pub struct Incomplete {
    /// The folder.
    pub folder: PathBuf,
    /// What is missing or short.
    pub what: String,
}

/// Files beside the weights that decide what the model answers.
const SIDE_FILES: [&str; 7] = [
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
    "model.safetensors.index.json",
];

const INDEX: &str = "model.safetensors.index.json";
const SINGLE: &str = "model.safetensors";

/// Longest header that the format allows.
const MAX_HEADER_BYTES: u64 = 100_000_000;

/// Looks whether a checkpoint is complete. Reads headers and sizes, not the weights.
///
/// # Errors
/// [`Incomplete`], naming the file and what is wrong with it.
pub fn inspect(folder: &Path) -> Result<Complete, Incomplete> {
    let incomplete = |what: String| Incomplete {
        folder: folder.to_owned(),
        what,
    };
    if !folder.is_dir() {
        return Err(incomplete("there is no such folder, or it cannot be read".to_owned()));
    }
    if let Some(format) = other_format(folder) {
        return Err(incomplete(format!(
            "it is a {format}: convert it to Hugging Face safetensors first"
        )));
    }
    let config = read_json::<serde_json::Value>(folder, "config.json").map_err(incomplete)?;
    if !config.is_object() {
        return Err(incomplete("config.json is not an object".to_owned()));
    }
    let shards = if folder.join(INDEX).exists() {
        indexed_shards(folder).map_err(incomplete)?
    } else {
        single_file(folder).map_err(incomplete)?
    };
    if !folder.join("tokenizer.json").exists() {
        return Err(incomplete(
            "tokenizer.json is missing (it is often written last)".to_owned(),
        ));
    }
    read_json::<serde_json::Value>(folder, "tokenizer.json").map_err(incomplete)?;
    let weight_bytes = shards.iter().map(|shard| shard.tensor_bytes).sum();
    let mut files: BTreeSet<PathBuf> = shards.into_iter().map(|shard| PathBuf::from(shard.name)).collect();
    files.extend(
        SIDE_FILES
            .iter()
            .filter(|name| folder.join(name).exists())
            .map(PathBuf::from),
    );
    Ok(Complete {
        folder: folder.to_owned(),
        files: files.into_iter().collect(),
        weight_bytes,
    })
}

/// The format of a checkpoint that only its own tools can read, told by its files.
fn other_format(folder: &Path) -> Option<&'static str> {
    let has = |name: &str| folder.join(name).exists();
    if has("config.json") {
        return None;
    }
    if has("adapter_config.json") {
        return Some("LoRA adapter without its base model");
    }
    if has("latest_checkpointed_iteration.txt") || has("mp_rank_00") {
        return Some("Megatron checkpoint");
    }
    if has("latest") || has("mp_rank_00_model_states.pt") {
        return Some("DeepSpeed checkpoint");
    }
    let is_shard = |entry: std::fs::DirEntry| entry.path().extension().is_some_and(|extension| extension == "distcp");
    let has_shards = std::fs::read_dir(folder).ok()?.flatten().any(is_shard);
    has_shards.then_some("PyTorch distributed checkpoint")
}

struct Shard {
    name: String,
    tensors: BTreeSet<String>,
    tensor_bytes: u64,
}

fn single_file(folder: &Path) -> Result<Vec<Shard>, String> {
    if folder.join(SINGLE).exists() {
        return Ok(vec![read_shard(folder, SINGLE)?]);
    }
    let has_shards = std::fs::read_dir(folder)
        .map_err(|error| format!("the folder cannot be listed: {error}"))?
        .filter_map(Result::ok)
        .any(|entry| {
            entry
                .path()
                .extension()
                .is_some_and(|extension| extension == "safetensors")
        });
    if has_shards {
        Err(format!("there are shards, but no {INDEX} yet: still being written"))
    } else {
        Err(format!("there is neither {SINGLE} nor {INDEX}"))
    }
}

#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
    metadata: Option<IndexMetadata>,
}

#[derive(Deserialize)]
struct IndexMetadata {
    total_size: Option<u64>,
}

fn indexed_shards(folder: &Path) -> Result<Vec<Shard>, String> {
    let index: Index = read_json(folder, INDEX)?;
    let names: BTreeSet<&String> = index.weight_map.values().collect();
    if names.is_empty() {
        return Err(format!("{INDEX} names no weights"));
    }
    let mut shards = Vec::with_capacity(names.len());
    for name in names {
        if Path::new(name).components().count() != 1 {
            return Err(format!("{INDEX} names {name:?}, which lies outside the checkpoint"));
        }
        shards.push(read_shard(folder, name)?);
    }
    for (tensor, shard) in &index.weight_map {
        let found = shards.iter().find(|candidate| candidate.name == *shard);
        if !found.is_some_and(|shard| shard.tensors.contains(tensor)) {
            return Err(format!("{shard} does not hold {tensor}, which {INDEX} says it does"));
        }
    }
    let total: u64 = shards.iter().map(|shard| shard.tensor_bytes).sum();
    match index.metadata.and_then(|metadata| metadata.total_size) {
        Some(stated) if stated != total => Err(format!(
            "the shards hold {total} bytes of weights, {INDEX} states {stated}"
        )),
        _ => Ok(shards),
    }
}

fn read_shard(folder: &Path, name: &str) -> Result<Shard, String> {
    let path = folder.join(name);
    let size = std::fs::metadata(&path).map_err(|error| describe(name, &error))?.len();
    let mut file = File::open(&path).map_err(|error| describe(name, &error))?;
    let mut length = [0; 8];
    file.read_exact(&mut length)
        .map_err(|_| format!("{name} is shorter than its header's length: still growing"))?;
    let length = u64::from_le_bytes(length);
    if length > MAX_HEADER_BYTES {
        return Err(format!(
            "{name} is not a safetensors file: its header would have {length} bytes"
        ));
    }
    let mut header = Vec::new();
    file.take(length)
        .read_to_end(&mut header)
        .map_err(|error| describe(name, &error))?;
    if (header.len() as u64) < length {
        return Err(format!("{name} is shorter than its header: still growing"));
    }
    let header: BTreeMap<String, serde_json::Value> =
        serde_json::from_slice(&header).map_err(|error| format!("{name} has a header that is not JSON: {error}"))?;
    let (tensors, tensor_bytes) = tensors(name, &header)?;
    let expected = 8 + length + tensor_bytes;
    if size == expected {
        Ok(Shard {
            name: name.to_owned(),
            tensors,
            tensor_bytes,
        })
    } else {
        Err(format!("{name} has {size} bytes, its header states {expected}"))
    }
}

fn tensors(name: &str, header: &BTreeMap<String, serde_json::Value>) -> Result<(BTreeSet<String>, u64), String> {
    let mut names = BTreeSet::new();
    let mut end = 0;
    for (tensor, entry) in header.iter().filter(|(tensor, _)| *tensor != "__metadata__") {
        let offset = entry["data_offsets"][1].as_u64();
        end = end.max(offset.ok_or_else(|| format!("{name}: {tensor} has no data_offsets"))?);
        names.insert(tensor.clone());
    }
    if names.is_empty() {
        return Err(format!("{name} holds no tensors"));
    }
    Ok((names, end))
}

fn read_json<T: serde::de::DeserializeOwned>(folder: &Path, name: &str) -> Result<T, String> {
    let bytes = std::fs::read(folder.join(name)).map_err(|error| describe(name, &error))?;
    serde_json::from_slice(&bytes).map_err(|error| format!("{name} does not parse ({error}): half written or damaged"))
}

fn describe(name: &str, error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => format!("{name} is missing"),
        std::io::ErrorKind::PermissionDenied => format!("{name} cannot be read: permission denied"),
        _ => format!("{name} cannot be read: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(length: u64) -> Vec<u8> {
        let json = format!(r#"{{"w":{{"dtype":"F32","shape":[1],"data_offsets":[0,{length}]}}}}"#);
        [&(json.len() as u64).to_le_bytes()[..], json.as_bytes()].concat()
    }

    /// A complete checkpoint of one file, in which `change` then breaks something.
    fn checkpoint(change: impl FnOnce(&Path)) -> Result<Complete, String> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("config.json"), "{}").unwrap();
        std::fs::write(folder.path().join("tokenizer.json"), "{}").unwrap();
        std::fs::write(folder.path().join(SINGLE), [header(4), vec![0; 4]].concat()).unwrap();
        change(folder.path());
        inspect(folder.path()).map_err(|incomplete| incomplete.what)
    }

    fn index(folder: &Path, map: &str) {
        std::fs::rename(folder.join(SINGLE), folder.join("a.safetensors")).unwrap();
        std::fs::write(folder.join(INDEX), format!(r#"{{"weight_map":{map}}}"#)).unwrap();
    }

    #[test]
    fn a_whole_checkpoint_lists_its_files() {
        let complete = checkpoint(|_| {}).unwrap();
        let files: Vec<_> = complete.files.iter().map(|file| file.display().to_string()).collect();
        assert_eq!(files, ["config.json", "model.safetensors", "tokenizer.json"]);
        assert_eq!(complete.weight_bytes, 4);
        assert!(checkpoint(|folder| index(folder, r#"{"w":"a.safetensors"}"#)).is_ok());
    }

    #[test]
    fn what_is_missing_short_or_misplaced_is_named() {
        type Case = (fn(&Path), &'static str);
        let cases: [Case; 11] = [
            (
                |folder| std::fs::remove_file(folder.join("config.json")).unwrap(),
                "config.json is missing",
            ),
            (
                |folder| std::fs::write(folder.join("config.json"), "{").unwrap(),
                "config.json does not parse",
            ),
            (
                |folder| std::fs::remove_file(folder.join("tokenizer.json")).unwrap(),
                "tokenizer.json is missing",
            ),
            (
                |folder| std::fs::remove_file(folder.join(SINGLE)).unwrap(),
                "neither model.safetensors nor",
            ),
            (
                |folder| std::fs::rename(folder.join(SINGLE), folder.join("b.safetensors")).unwrap(),
                "still being written",
            ),
            (
                |folder| std::fs::write(folder.join(SINGLE), "abc").unwrap(),
                "shorter than its header's length",
            ),
            (
                |folder| std::fs::write(folder.join(SINGLE), &header(4)[..20]).unwrap(),
                "shorter than its header",
            ),
            (
                |folder| std::fs::write(folder.join(SINGLE), header(4)).unwrap(),
                "its header states",
            ),
            (
                |folder| std::fs::write(folder.join(SINGLE), [0xff; 64]).unwrap(),
                "not a safetensors file",
            ),
            (
                |folder| index(folder, r#"{"w":"a.safetensors","v":"b.safetensors"}"#),
                "b.safetensors is missing",
            ),
            (|folder| index(folder, r#"{"v":"a.safetensors"}"#), "does not hold v"),
        ];
        for (change, part) in cases {
            let what = checkpoint(change).unwrap_err();
            assert!(what.contains(part), "{part:?} is not in {what:?}");
        }
        assert!(
            checkpoint(|folder| index(folder, r#"{"w":"../a.safetensors"}"#))
                .unwrap_err()
                .contains("outside")
        );
    }

    #[test]
    fn other_bytes_are_another_identity_and_a_copy_is_the_same() {
        let digest = |bytes: u8, name: &str| {
            let folder = tempfile::tempdir().unwrap();
            let at = folder.path().join(name);
            std::fs::create_dir(&at).unwrap();
            std::fs::write(at.join("config.json"), "{}").unwrap();
            std::fs::write(at.join("tokenizer.json"), "{}").unwrap();
            std::fs::write(at.join(SINGLE), [header(4), vec![bytes; 4]].concat()).unwrap();
            super::super::digest(&inspect(&at).unwrap()).unwrap()
        };
        assert_eq!(digest(1, "step-900"), digest(1, "copy"));
        assert_ne!(digest(1, "step-900"), digest(2, "step-900"));
    }
}
