//! Items found in their blocks: by another process, within the bound on memory, and missing or damaged.

use super::*;
use crate::Address;
use tidemill_domain::{
    BenchmarkName, EvaluationId, GraderSpec, Prompt, Settings, SuiteName, SuiteRef, Tier, WholeBenchmark, WholeManifest,
};

fn item(index: u32, bytes: usize, cluster: Option<String>) -> Item {
    Item {
        id: format!("row-{index}"),
        prompt: Prompt::Text("x".repeat(bytes)),
        targets: vec![index.to_string()],
        choices: Vec::new(),
        correct_choice: None,
        cluster,
        subset: None,
        weight: 1.0,
        material: Vec::new(),
    }
}

fn whole(items: u32, bytes: usize) -> WholeManifest {
    let benchmark = |name: &str, items: Vec<Item>| WholeBenchmark {
        name: BenchmarkName::try_new(name).unwrap(),
        settings: Settings {
            max_tokens: 8,
            temperature: 0.0,
            top_p: 1.0,
            stop: Vec::new(),
            seed: 0,
            samples: 2,
        },
        grader: GraderSpec::Exact {
            ignore_case: false,
            ignore_punctuation: false,
        },
        items,
    };
    WholeManifest {
        suite: SuiteRef {
            name: SuiteName::try_new("s").unwrap(),
            version: "1".to_owned(),
            tier: Tier::Canary,
        },
        max_failure_rate: 0.0,
        benchmarks: vec![
            benchmark("plain", (0..items).map(|index| item(index, bytes, None)).collect()),
            benchmark(
                "clustered",
                (0..3)
                    .map(|index| item(index, bytes, Some(format!("c{}", index / 2))))
                    .collect(),
            ),
        ],
    }
}

fn key(benchmark: u32, item: u32, sample: u32) -> ItemKey {
    ItemKey {
        evaluation: EvaluationId::from_digest(&Digest::of(b"e")),
        benchmark,
        item,
        sample,
    }
}

fn open(folder: &tempfile::TempDir) -> Store {
    Store::open(Address::of_folder(folder.path())).unwrap()
}

#[tokio::test]
async fn every_declared_item_is_found_by_another_process_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let digest = open(&folder).put_whole(whole(2_500, 10)).await.unwrap();
    let other = open(&folder);
    let manifest = other.manifest(&digest).await.unwrap();
    assert_eq!(manifest.benchmarks[0].blocks.len(), 3);
    for index in [0, 1_023, 1_024, 2_499] {
        let item = other.item(&manifest, &key(0, index, 1)).await.unwrap().unwrap();
        assert_eq!(item.id, format!("row-{index}"));
    }
    for stranger in [key(0, 2_500, 0), key(0, 0, 2), key(2, 0, 0)] {
        assert!(other.item(&manifest, &stranger).await.unwrap().is_none(), "{stranger}");
    }
}

#[tokio::test]
async fn clusters_are_read_without_any_item() {
    let folder = tempfile::tempdir().unwrap();
    let digest = open(&folder).put_whole(whole(2, 10)).await.unwrap();
    std::fs::remove_dir_all(folder.path().join("blocks")).unwrap();
    let store = open(&folder);
    let manifest = store.manifest(&digest).await.unwrap();
    let clusters = store.columns(&manifest).await.unwrap();
    assert_eq!(clusters[0].clusters, None);
    assert_eq!(clusters[1].clusters.as_ref().unwrap().of_item, [0, 0, 1]);
    assert_eq!(manifest.benchmarks[1].clusters.as_ref().unwrap().count, 2);
}

#[tokio::test]
async fn a_missing_and_a_damaged_block_are_named_and_found_once_restored() {
    let folder = tempfile::tempdir().unwrap();
    let digest = open(&folder).put_whole(whole(2_500, 10)).await.unwrap();
    let store = open(&folder);
    let manifest = store.manifest(&digest).await.unwrap();
    let (first, second) = (
        &manifest.benchmarks[0].blocks[0].digest,
        &manifest.benchmarks[0].blocks[1].digest,
    );
    let path = |digest: &Digest| folder.path().join(Kind::Block.key(digest));
    let kept = std::fs::read(path(first)).unwrap();
    std::fs::remove_file(path(first)).unwrap();
    let missing = store.item(&manifest, &key(0, 0, 0)).await.unwrap_err();
    assert!(
        matches!(missing, Error::Missing { .. }) && missing.to_string().contains(first.hex()),
        "{missing}"
    );
    std::fs::copy(path(second), path(first)).unwrap();
    let damaged = store.item(&manifest, &key(0, 0, 0)).await.unwrap_err();
    assert!(
        matches!(damaged, Error::Damaged { .. }) && damaged.to_string().contains(first.hex()),
        "{damaged}"
    );
    assert_eq!(
        store.item(&manifest, &key(0, 1_024, 0)).await.unwrap().unwrap().id,
        "row-1024"
    );
    std::fs::write(path(first), kept).unwrap();
    assert_eq!(store.item(&manifest, &key(0, 0, 0)).await.unwrap().unwrap().id, "row-0");
}

#[tokio::test]
async fn blocks_in_memory_stay_within_the_bound() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(&folder);
    store.blocks = Arc::new(Blocks::of(4 << 20));
    let digest = store.put_whole(whole(64, 1 << 18)).await.unwrap();
    let manifest = store.manifest(&digest).await.unwrap();
    for index in 0..64 {
        store.item(&manifest, &key(0, index, 0)).await.unwrap().unwrap();
        assert!(store.blocks.0.weight() <= 4 << 20, "{:?}", store.blocks);
    }
    assert!(store.blocks.0.len() > 1, "{:?}", store.blocks);
}

/// The bytes are those that the release before blocks wrote.
#[tokio::test]
async fn a_manifest_of_version_1_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/../codec/tests/golden/manifest.v1.bin");
    let bytes = std::fs::read(golden).unwrap();
    let digest = Digest::of(&bytes);
    let store = open(&folder);
    store
        .put(&Kind::Manifest.key(&digest), zstd::bulk::compress(&bytes, 3).unwrap())
        .await
        .unwrap();
    for store in [open(&folder), open(&folder)] {
        let manifest = store.manifest(&digest).await.unwrap();
        assert_eq!(manifest.benchmarks[0].items, 2);
        assert_eq!(store.item(&manifest, &key(0, 1, 0)).await.unwrap().unwrap().id, "chat");
    }
}

#[tokio::test]
async fn an_outline_is_found_by_its_digest_and_nothing_waits_for_one_that_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let digest = store.put_whole(whole(2, 10)).await.unwrap();
    let outline = Outline::of(&[item(0, 10, None)]);
    let mut writer = store.block_writer();
    let named = writer.outline(&outline).await.unwrap();
    writer.finish().await.unwrap();
    let other = open(&folder);
    assert_eq!(other.outline(&named).await.unwrap(), outline);
    let mut manifest = Manifest::clone(&*other.manifest(&digest).await.unwrap());
    manifest.benchmarks[0].outlines = vec![named.clone()];
    std::fs::remove_dir_all(folder.path().join("outlines")).unwrap();
    assert!(matches!(other.outline(&named).await, Err(Error::Missing { .. })));
    other.prove_blocks(&manifest).await.unwrap();
}
