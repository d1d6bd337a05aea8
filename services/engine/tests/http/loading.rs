//! What a damaged checkpoint is refused with.

use std::{fs, path::Path};

use serde_json::{Value, json};
use tempfile::TempDir;
use tidemill_engine::{Error, Options, serve, validate};
use tokio_util::sync::CancellationToken;

use crate::support::data;

/// A copy of a sample that a test may damage.
pub(crate) fn copy_of(sample: &str) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(data().join(sample)).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), directory.path().join(entry.file_name())).unwrap();
    }
    directory
}

fn edit(directory: &Path, file: &str, change: impl FnOnce(&mut Value)) {
    let path = directory.join(file);
    let mut value: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    change(&mut value);
    fs::write(path, value.to_string()).unwrap();
}

/// The error that loading gives, which `validate` must give too unless it is about the weights themselves.
async fn refusal(directory: &Path) -> Error {
    serve(Options::new(directory), CancellationToken::new(), |_| {
        panic!("served a bad checkpoint")
    })
    .await
    .unwrap_err()
}

async fn assert_refused(directory: &Path, parts: &[&str]) {
    for text in [
        refusal(directory).await.one_line(),
        validate(directory).unwrap_err().one_line(),
    ] {
        for part in parts {
            assert!(text.contains(part), "no {part:?} in {text:?}");
        }
        assert!(!text.contains('\n'));
    }
}

async fn assert_damage_refused(sample: &str, damage: impl FnOnce(&Path), parts: &[&str]) {
    let directory = copy_of(sample);
    damage(directory.path());
    assert_refused(directory.path(), parts).await;
}

#[tokio::test]
async fn missing_pieces_are_named() {
    assert_refused(
        Path::new("/nonexistent/step-100"),
        &["no checkpoint directory", "step-100"],
    )
    .await;
    assert_refused(
        &data().join("broken/hf-missing-shard"),
        &["model-00002-of-00003.safetensors", "incomplete"],
    )
    .await;
    for file in ["config.json", "model.safetensors", "tokenizer.json"] {
        let damage = |directory: &Path| fs::remove_file(directory.join(file)).unwrap();
        assert_damage_refused("hf-single", damage, &[file, "is missing"]).await;
    }
}

#[tokio::test]
async fn a_truncated_shard_is_refused_by_its_length() {
    let name = "model-00003-of-00003.safetensors";
    let damage = |directory: &Path| {
        let bytes = fs::read(directory.join(name)).unwrap();
        fs::write(directory.join(name), &bytes[..bytes.len() - 1000]).unwrap();
    };
    assert_damage_refused("hf-sharded", damage, &[name, "49272", "48272"]).await;
}

#[tokio::test]
async fn shapes_that_disagree_with_the_configuration_are_refused() {
    let damage = |directory: &Path| edit(directory, "config.json", |config| config["vocab_size"] = json!(640));
    assert_damage_refused(
        "hf-single",
        damage,
        &["model.embed_tokens.weight", "[384, 32]", "[640, 32]"],
    )
    .await;
    let damage = |directory: &Path| {
        edit(directory, "config.json", |config| {
            config["num_hidden_layers"] = json!(3)
        })
    };
    assert_damage_refused("hf-single", damage, &["model.layers.2.", "lacks"]).await;
}

#[tokio::test]
async fn models_of_another_kind_are_refused() {
    for (key, value, said) in [
        ("architectures", json!(["GPT2LMHeadModel"]), "GPT2LMHeadModel"),
        (
            "rope_parameters",
            json!({"rope_type": "yarn", "rope_theta": 1e4}),
            "rope_type yarn",
        ),
    ] {
        let damage = |directory: &Path| edit(directory, "config.json", |config| config[key] = value);
        assert_damage_refused("hf-single", damage, &["config.json", said, "vLLM"]).await;
    }
}

#[tokio::test]
async fn files_that_are_not_what_they_should_be_are_refused() {
    for file in [
        "config.json",
        "tokenizer.json",
        "model.safetensors",
        "chat_template.jinja",
    ] {
        let damage = |directory: &Path| fs::write(directory.join(file), "{% nothing of the kind").unwrap();
        assert_damage_refused("hf-single", damage, &[file]).await;
    }
}

#[tokio::test]
async fn weights_that_are_not_finite_are_refused_by_name() {
    let error = refusal(&data().join("broken/hf-nan")).await;
    assert!(
        matches!(&error, Error::NonFinite { tensor, .. } if tensor.starts_with("model.")),
        "{error}"
    );
}

#[tokio::test]
async fn a_taken_port_is_refused() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut options = Options::new(data().join("hf-single"));
    options.port = taken.local_addr().unwrap().port();
    let error = serve(options, CancellationToken::new(), |_| panic!("served"))
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Listen { .. }), "{error}");
    assert!(error.one_line().contains("in use"), "{}", error.one_line());
}

#[tokio::test]
async fn options_that_make_no_sense_are_refused() {
    let mut options = Options::new(data().join("hf-single"));
    options.max_model_len = Some(1024);
    let error = serve(options, CancellationToken::new(), |_| panic!("served"))
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("1024") && error.to_string().contains("512"),
        "{error}"
    );
}

#[test]
fn validate_sums_a_checkpoint_up() {
    let summary = validate(&data().join("hf-sharded")).unwrap();
    assert_eq!(
        (summary.parameters, summary.context_length, summary.vocab_size),
        (49_312, 512, 384)
    );
    assert!(summary.has_chat_template);
}

#[tokio::test]
async fn either_spelling_of_the_rope_base_gives_the_same_scores() {
    use crate::support::Server;
    let older = copy_of("hf-single");
    edit(older.path(), "config.json", |config| {
        config.as_object_mut().unwrap().remove("rope_parameters");
        config["rope_theta"] = json!(500_000.0);
    });
    let newer = copy_of("hf-single");
    edit(newer.path(), "config.json", |config| {
        config["rope_parameters"]["rope_theta"] = json!(500_000.0)
    });
    let mut answers = Vec::new();
    for directory in [older.path(), newer.path(), &data().join("hf-single")] {
        let server = Server::start_with(Options::new(directory)).await;
        let body = json!({"prompt": "You may reproduce", "max_tokens": 0, "echo": true, "logprobs": 0});
        answers.push(server.complete(&body).await["choices"][0]["logprobs"]["token_logprobs"].clone());
        server.stop().await;
    }
    assert_eq!(answers[0], answers[1]);
    assert_ne!(answers[0], answers[2], "the base matters");
}

#[tokio::test]
async fn the_head_may_be_tied_to_the_embeddings() {
    use crate::support::Server;
    let tied = copy_of("hf-single");
    edit(tied.path(), "config.json", |config| {
        config["tie_word_embeddings"] = json!(true)
    });
    let server = Server::start_with(Options::new(tied.path())).await;
    let answer = server.complete(&json!({"prompt": "Copyright", "temperature": 0})).await;
    assert_eq!(answer["usage"]["completion_tokens"], 16);
    server.stop().await;
}
