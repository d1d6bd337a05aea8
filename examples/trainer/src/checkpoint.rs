//! Checkpoints in the layout that Hugging Face's libraries and inference engines read.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use candle_core::{Device, Tensor, Var};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use serde_json::{Value, json};

use crate::model::{Model, Shape};
use crate::tokenizer;

/// Writes a checkpoint beside its place and renames it, so that whoever sees the directory sees all of it.
///
/// # Errors
/// The directory exists already with something in it, or cannot be written.
pub fn write(path: &Path, shape: &Shape, weights: &[Var]) -> Result<()> {
    let name = path
        .file_name()
        .and_then(|name| name.to_str())
        .context("a checkpoint needs a name")?;
    let unfinished = path.with_file_name(format!(".{name}.unfinished"));
    if unfinished.exists() {
        fs::remove_dir_all(&unfinished)?;
    }
    fs::create_dir_all(&unfinished)?;
    fs::write(unfinished.join("model.safetensors"), serialize(shape, weights)?)?;
    for (file, value) in [
        ("config.json", shape.config_json()),
        ("generation_config.json", generation_config()),
        ("tokenizer.json", tokenizer::tokenizer_json()),
        ("tokenizer_config.json", tokenizer::tokenizer_config_json(shape.context)),
    ] {
        fs::write(unfinished.join(file), serde_json::to_string_pretty(&value)? + "\n")?;
    }
    fs::write(unfinished.join("chat_template.jinja"), tokenizer::CHAT_TEMPLATE)?;
    fs::rename(&unfinished, path).context("move the finished checkpoint to its place")
}

/// Reads the weights of a checkpoint of a known shape.
///
/// # Errors
/// A weight is missing, or has another type or shape.
pub fn read(path: &Path, shape: &Shape) -> Result<Model> {
    let bytes = fs::read(path.join("model.safetensors")).with_context(|| format!("read {}", path.display()))?;
    let file = SafeTensors::deserialize(&bytes)?;
    let weight = |(name, dimensions): (String, Vec<usize>)| -> Result<Tensor> {
        let view = file.tensor(&name)?;
        if view.dtype() != Dtype::BF16 || view.shape() != dimensions {
            bail!(
                "{name} is {:?} {:?}, expected BF16 {dimensions:?}",
                view.dtype(),
                view.shape()
            );
        }
        Ok(Tensor::from_vec(from_bfloat16(view.data()), dimensions, &Device::Cpu)?)
    };
    let weights = shape.weights().into_iter().map(weight).collect::<Result<Vec<_>>>()?;
    Ok(Model::try_new(shape.clone(), weights)?)
}

fn generation_config() -> Value {
    json!({ "bos_token_id": tokenizer::BEGIN, "eos_token_id": tokenizer::END, "pad_token_id": tokenizer::PAD })
}

fn serialize(shape: &Shape, weights: &[Var]) -> Result<Vec<u8>> {
    let data = weights
        .iter()
        .map(|var| Ok(to_bfloat16(&var.flatten_all()?.to_vec1()?)))
        .collect::<Result<Vec<_>>>()?;
    let named = shape.weights().into_iter().zip(&data);
    let views = named
        .map(|((name, dimensions), bytes)| Ok((name, TensorView::new(Dtype::BF16, dimensions, bytes)?)))
        .collect::<Result<Vec<_>>>()?;
    let metadata = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    Ok(safetensors::serialize(views, Some(metadata))?)
}

/// Rounds to the nearest value of sixteen bits, ties to even; weights are never infinite or not a number.
fn to_bfloat16(values: &[f32]) -> Vec<u8> {
    let round = |bits: u32| ((bits + 0x7fff + ((bits >> 16) & 1)) >> 16) as u16;
    values
        .iter()
        .flat_map(|value| round(value.to_bits()).to_le_bytes())
        .collect()
}

fn from_bfloat16(bytes: &[u8]) -> Vec<f32> {
    let widen = |pair: &[u8]| f32::from_bits(u32::from(u16::from_le_bytes([pair[0], pair[1]])) << 16);
    bytes.chunks_exact(2).map(widen).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::training::{Recipe, Trainer};

    fn trainer(shape: Shape) -> Trainer {
        let recipe = Recipe {
            shape,
            seed: 1,
            steps: 1,
            checkpoints: vec![],
            rows: 1,
            length: 16,
            rate: 1e-3,
        };
        Trainer::try_new(recipe).unwrap()
    }

    #[test]
    fn a_checkpoint_holds_every_file_and_weight() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("step-0001");
        write(&path, &Shape::TINY, trainer(Shape::TINY).weights()).unwrap();
        let bytes = fs::read(path.join("model.safetensors")).unwrap();
        let file = SafeTensors::deserialize(&bytes).unwrap();
        let stored: BTreeMap<String, Vec<usize>> = file
            .tensors()
            .into_iter()
            .map(|(name, view)| (name, view.shape().to_vec()))
            .collect();
        assert_eq!(stored, Shape::TINY.weights().into_iter().collect());
        assert_eq!(stored["model.layers.3.self_attn.k_proj.weight"], [64, 128]);
        assert!(bytes.len() < 1_700_000);
        tokenizers::Tokenizer::from_file(path.join("tokenizer.json")).unwrap();
        let config: Value = serde_json::from_slice(&fs::read(path.join("config.json")).unwrap()).unwrap();
        assert_eq!(config["vocab_size"], tokenizer::VOCABULARY);
        assert_eq!(
            fs::read_dir(directory.path()).unwrap().count(),
            1,
            "nothing unfinished stays"
        );
    }

    #[test]
    fn shipped_checkpoints_are_what_this_trainer_writes() {
        let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../demo/checkpoints");
        let paths: Vec<_> = fs::read_dir(shipped)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        assert!(paths.len() >= 6);
        for path in paths {
            read(&path, &Shape::TINY).unwrap();
            let json = |file| serde_json::from_slice::<Value>(&fs::read(path.join(file)).unwrap()).unwrap();
            assert_eq!(json("config.json"), Shape::TINY.config_json());
            assert_eq!(json("tokenizer.json"), tokenizer::tokenizer_json());
            assert_eq!(json("generation_config.json"), generation_config());
        }
    }

    #[test]
    fn weights_survive_within_their_precision() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("step-0001");
        let trainer = trainer(Shape {
            layers: 1,
            ..Shape::TINY
        });
        write(
            &path,
            &Shape {
                layers: 1,
                ..Shape::TINY
            },
            trainer.weights(),
        )
        .unwrap();
        assert!(
            read(
                &path,
                &Shape {
                    layers: 1,
                    ..Shape::TINY
                }
            )
            .is_ok()
        );
        assert!(read(&path, &Shape::TINY).is_err());
        let values = [1.0, -0.3, 1.0 + 1.0 / 256.0, 1.0 + 3.0 / 256.0, 0.0];
        assert_eq!(
            from_bfloat16(&to_bfloat16(&values)),
            [1.0, -0.300_781_25, 1.0, 1.015_625, 0.0]
        );
    }
}
