//! Suites are rendered a block at a time, whatever their size.

use tidemill_domain::{Block, BlockRef, ClustersRef, Columns, ColumnsRef, Digest, Outline};
use tidemill_tasks::{Collected, LoadError, Sink, Stopped, load};

use crate::support::{Folder, question_suite};

/// Keeps ordinals and sizes alone, and takes so many blocks.
struct Counting {
    left: usize,
    ends: Vec<u32>,
    largest: usize,
}

impl Counting {
    fn taking(left: usize) -> Self {
        Self {
            left,
            ends: Vec::new(),
            largest: 0,
        }
    }
}

impl Sink for Counting {
    fn block(&mut self, block: Block, end: u32) -> Result<BlockRef, Stopped> {
        self.left = self.left.checked_sub(1).ok_or(Stopped)?;
        self.ends.push(end);
        self.largest = self.largest.max(block.bytes());
        let digest = Digest::of(&end.to_le_bytes());
        Ok(BlockRef { digest, end })
    }

    fn outline(&mut self, outline: Outline) -> Result<Digest, Stopped> {
        Ok(Digest::of(&outline.prompts))
    }

    fn columns(&mut self, columns: Columns) -> Result<ColumnsRef, Stopped> {
        let clusters = columns.clusters.map(|column| ClustersRef {
            digest: Digest::of(b"column"),
            count: column.count,
        });
        Ok(ColumnsRef {
            clusters,
            ..ColumnsRef::default()
        })
    }
}

fn rows(count: usize, broken: Option<usize>) -> String {
    let row = |row| match broken {
        Some(broken) if row == broken => "{broken\n".to_owned(),
        _ => format!(
            "{{\"q\": \"{row} and more\", \"a\": {row}, \"c\": \"c{}\"}}\n",
            row / 10
        ),
    };
    (0..count).map(row).collect()
}

fn folder(fields: &str, rows: &str) -> Folder {
    Folder::new()
        .with("suite.toml", question_suite(fields))
        .with("rows.jsonl", rows)
}

#[test]
fn items_leave_in_blocks_of_bounded_size() {
    let mut sink = Counting::taking(usize::MAX);
    let loaded = load(&folder("", &rows(5_000, None)).path(), &mut sink).unwrap();
    assert_eq!(sink.ends, [1_024, 2_048, 3_072, 4_096, 5_000]);
    assert_eq!(loaded.manifest.benchmarks[0].items, 5_000);
    let long = "x".repeat(100_000);
    let rows: String = (0..200)
        .map(|row| format!("{{\"q\": \"{row} {long}\", \"a\": 1}}\n"))
        .collect();
    let mut sink = Counting::taking(usize::MAX);
    load(&folder("", &rows).path(), &mut sink).unwrap();
    assert!(
        sink.largest < (1 << 20) + 200_000 && sink.ends.len() > 15,
        "{} {:?}",
        sink.largest,
        sink.ends
    );
}

#[test]
fn clusters_of_all_blocks_make_one_column() {
    let mut sink = Collected::default();
    let loaded = load(&folder("cluster = \"c\"", &rows(3_000, None)).path(), &mut sink).unwrap();
    let column = sink.column(&loaded.manifest, 0).unwrap();
    assert_eq!((column.count, column.of_item.len()), (300, 3_000));
    assert_eq!(
        (column.of_item[0], column.of_item[1_029], column.of_item[2_999]),
        (0, 102, 299)
    );
}

#[test]
fn every_block_has_an_outline_and_the_same_suite_gives_the_same_manifest() {
    let shots = rows(30, None);
    let folder =
        folder("few_shot = 20\nfew_shot_data = \"shots.jsonl\"", &rows(2_000, None)).with("shots.jsonl", shots);
    let mut sink = Collected::default();
    let loaded = load(&folder.path(), &mut sink).unwrap();
    let outlines: Vec<_> = sink.outlines(&loaded.manifest, 0).collect();
    assert_eq!(
        outlines.iter().map(|outline| outline.prompts.len()).sum::<usize>(),
        2_000
    );
    assert_eq!((outlines.len(), loaded.manifest.benchmarks[0].blocks.len()), (2, 2));
    // All questions but those that are examples themselves stand behind the same examples, in both blocks.
    let shared = outlines[1].prefixes[0];
    assert!(shared != 0);
    let of_all = outlines.iter().flat_map(|outline| &outline.prefixes);
    assert!(of_all.filter(|prefix| **prefix == shared).count() >= 1_970);
    let again = load(&folder.path(), &mut Collected::default()).unwrap();
    assert_eq!(again.manifest, loaded.manifest);
}

#[test]
fn nothing_more_of_a_benchmark_is_stored_once_a_row_is_wrong() {
    let mut sink = Counting::taking(usize::MAX);
    let error = load(&folder("", &rows(5_000, Some(1_500))).path(), &mut sink).unwrap_err();
    assert!(matches!(error, LoadError::Suite(_)), "{error}");
    assert_eq!(sink.ends, [1_024]);
}

#[test]
fn a_sink_that_takes_nothing_more_ends_the_rendering() {
    let mut sink = Counting::taking(2);
    let error = load(&folder("", &rows(5_000, None)).path(), &mut sink).unwrap_err();
    assert_eq!(error, LoadError::Stopped(Stopped));
}
