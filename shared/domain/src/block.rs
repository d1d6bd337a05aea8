//! Where a manifest's items lie: blocks of neighbouring items, and the clusters of a benchmark as one column.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::{Digest, Item};

/// A block ends with so many items.
pub const BLOCK_ITEMS: usize = 1_024;

/// A block ends once its items take so many bytes, so that long prompts make short blocks.
pub const BLOCK_BYTES: usize = 1 << 20;

/// Neighbouring items of one benchmark, stored under their digest in the object store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Block {
    /// In the order of the benchmark, at least one.
    pub items: Vec<Item>,
}

/// A block as the manifest names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockRef {
    /// Its digest, which is its key in the object store.
    pub digest: Digest,
    /// The ordinal after that of its last item; its first item follows the end of the block before.
    pub end: u32,
}

/// The clusters of a benchmark as the manifest names them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClustersRef {
    /// The column's digest, which is its key in the object store.
    pub digest: Digest,
    /// How many clusters there are.
    pub count: u32,
}

/// The cluster of every item of a benchmark, without the items: what an aggregator needs to group them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterColumn {
    /// One number an item, from 0, in the order of first appearance. An item that names no cluster has its own.
    pub of_item: Vec<u32>,
    /// How many numbers there are.
    pub count: u32,
}

/// The parts of a benchmark that are also reported apart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubsetColumn {
    /// One number an item, from 0, in the order of first appearance; `u32::MAX` for an item of none.
    pub of_item: Vec<u32>,
    /// Their names, by number.
    pub names: Vec<String>,
}

/// How much each item of a benchmark counts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WeightColumn {
    /// One weight an item, above 0.
    pub of_item: Vec<f64>,
}

/// What is known of all items of a benchmark without the items.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Columns {
    /// Which belong together; `None` where no item names a cluster.
    pub clusters: Option<ClusterColumn>,
    /// Which are reported apart; `None` where no item names a subset.
    pub subsets: Option<SubsetColumn>,
    /// How much they count; `None` where all count 1.
    pub weights: Option<WeightColumn>,
}

/// Where the columns of a benchmark are stored.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ColumnsRef {
    /// The clusters.
    pub clusters: Option<ClustersRef>,
    /// The digest of the [`SubsetColumn`].
    pub subsets: Option<Digest>,
    /// The digest of the [`WeightColumn`].
    pub weights: Option<Digest>,
}

impl Block {
    /// About how many bytes it takes in memory.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.items.iter().map(Item::bytes).sum()
    }
}

/// Cuts a benchmark's items into blocks as they come. Equal items give equal blocks.
#[derive(Debug, Default)]
pub struct Packer {
    items: Vec<Item>,
    bytes: usize,
    packed: u32,
    clusters: Numbering,
    subsets: Naming,
    weights: Vec<f64>,
    is_weighted: bool,
}

impl Packer {
    /// Takes an item in. The block that it fills, with the ordinal at which that ends.
    pub fn push(&mut self, item: Item) -> Option<(Block, u32)> {
        self.clusters.push(item.cluster.as_deref());
        self.subsets.push(item.subset.as_deref());
        self.weights.push(item.weight);
        self.is_weighted |= item.weight != 1.0;
        self.bytes += item.bytes();
        self.items.push(item);
        self.packed += 1;
        (self.items.len() >= BLOCK_ITEMS || self.bytes >= BLOCK_BYTES).then(|| self.cut())
    }

    /// The last block, unless the one before holds everything.
    pub fn rest(&mut self) -> Option<(Block, u32)> {
        (!self.items.is_empty()).then(|| self.cut())
    }

    /// How many items were taken in.
    #[must_use]
    pub const fn packed(&self) -> u32 {
        self.packed
    }

    /// What is known of all items without them.
    #[must_use]
    pub fn columns(self) -> Columns {
        Columns {
            clusters: self.clusters.column(),
            subsets: self.subsets.column(),
            weights: self.is_weighted.then_some(WeightColumn { of_item: self.weights }),
        }
    }

    fn cut(&mut self) -> (Block, u32) {
        self.bytes = 0;
        let items = std::mem::take(&mut self.items);
        (Block { items }, self.packed)
    }
}

/// Numbers clusters. Names are kept as 16 bytes of their hash: a suite may name as many as it has items.
#[derive(Debug, Default)]
struct Numbering {
    numbers: HashMap<[u8; 16], u32>,
    of_item: Vec<u32>,
    count: u32,
}

impl Numbering {
    fn push(&mut self, cluster: Option<&str>) {
        let next = self.count;
        let number = match cluster {
            Some(name) => *self.numbers.entry(short_hash(name)).or_insert(next),
            None => next,
        };
        self.count += u32::from(number == next);
        self.of_item.push(number);
    }

    fn column(self) -> Option<ClusterColumn> {
        (!self.numbers.is_empty()).then_some(ClusterColumn {
            of_item: self.of_item,
            count: self.count,
        })
    }
}

/// Numbers subsets and keeps their names, of which a benchmark has few.
#[derive(Debug, Default)]
struct Naming {
    numbers: HashMap<String, u32>,
    of_item: Vec<u32>,
    names: Vec<String>,
}

impl Naming {
    fn push(&mut self, subset: Option<&str>) {
        let number = subset.map_or(u32::MAX, |name| match self.numbers.get(name) {
            Some(number) => *number,
            None => {
                let number = self.numbers.len() as u32;
                self.numbers.insert(name.to_owned(), number);
                self.names.push(name.to_owned());
                number
            }
        });
        self.of_item.push(number);
    }

    fn column(self) -> Option<SubsetColumn> {
        (!self.names.is_empty()).then_some(SubsetColumn {
            of_item: self.of_item,
            names: self.names,
        })
    }
}

fn short_hash(name: &str) -> [u8; 16] {
    let mut short = [0; 16];
    short.copy_from_slice(&blake3::hash(name.as_bytes()).as_bytes()[..16]);
    short
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BenchmarkName, GraderSpec, Prompt, Settings, WholeBenchmark};

    fn item(id: usize, prompt_bytes: usize, cluster: Option<&str>) -> Item {
        Item {
            id: id.to_string(),
            prompt: Prompt::Text("x".repeat(prompt_bytes)),
            targets: Vec::new(),
            choices: Vec::new(),
            correct_choice: None,
            cluster: cluster.map(str::to_owned),
            subset: None,
            weight: 1.0,
            material: Vec::new(),
        }
    }

    fn pack(items: impl Iterator<Item = Item>) -> (Vec<(Block, u32)>, Option<ClusterColumn>) {
        let mut packer = Packer::default();
        let mut blocks: Vec<_> = items.filter_map(|item| packer.push(item)).collect();
        blocks.extend(packer.rest());
        (blocks, packer.columns().clusters)
    }

    #[test]
    fn blocks_end_by_items_or_by_bytes_and_hold_every_item_in_order() {
        let (short, _) = pack((0..2_500).map(|id| item(id, 10, None)));
        let ends: Vec<u32> = short.iter().map(|(_, end)| *end).collect();
        assert_eq!(ends, [1_024, 2_048, 2_500]);
        let (long, _) = pack((0..10).map(|id| item(id, BLOCK_BYTES / 2, None)));
        assert_eq!(long.len(), 5);
        let (huge, _) = pack((0..2).map(|id| item(id, 2 * BLOCK_BYTES, None)));
        assert_eq!(huge.len(), 2);
        let ids = short
            .iter()
            .flat_map(|(block, _)| block.items.iter().map(|item| item.id.clone()));
        assert!(ids.eq((0..2_500).map(|id| id.to_string())));
    }

    #[test]
    fn an_ordinal_leads_to_its_block_and_place() {
        let (blocks, _) = pack((0..2_500).map(|id| item(id, 10, None)));
        let refs = blocks.iter().map(|(block, end)| BlockRef {
            digest: Digest::of(block.items[0].id.as_bytes()),
            end: *end,
        });
        let benchmark = WholeBenchmark {
            name: BenchmarkName::try_new("b").unwrap(),
            settings: Settings {
                max_tokens: 1,
                temperature: 0.0,
                top_p: 1.0,
                stop: Vec::new(),
                seed: 0,
                samples: 1,
            },
            grader: GraderSpec::Exact {
                ignore_case: false,
                ignore_punctuation: false,
            },
            items: Vec::new(),
        }
        .located(refs.collect(), 2_500, ColumnsRef::default());
        for ordinal in [0, 1_023, 1_024, 2_047, 2_048, 2_499] {
            let (found, index) = benchmark.block_of(ordinal).unwrap();
            let block = benchmark.blocks.iter().position(|block| block == found).unwrap();
            assert_eq!(blocks[block].0.items[index].id, ordinal.to_string());
        }
        assert_eq!(benchmark.block_of(2_500), None);
    }

    #[test]
    fn subsets_and_weights_are_columns_only_where_an_item_names_them() {
        let mut plain = Packer::default();
        plain.push(item(0, 1, None));
        assert_eq!(plain.columns(), Columns::default());
        let mut packer = Packer::default();
        for (id, subset, weight) in [
            (0, Some("law"), 1.0),
            (1, None, 0.5),
            (2, Some("art"), 1.0),
            (3, Some("law"), 2.0),
        ] {
            packer.push(Item {
                subset: subset.map(str::to_owned),
                weight,
                ..item(id, 1, None)
            });
        }
        let columns = packer.columns();
        let subsets = columns.subsets.unwrap();
        assert_eq!(subsets.of_item, [0, u32::MAX, 1, 0]);
        assert_eq!(subsets.names, ["law", "art"]);
        assert_eq!(columns.weights.unwrap().of_item, [1.0, 0.5, 1.0, 2.0]);
    }

    #[test]
    fn clusters_are_numbered_as_they_appear_and_an_item_without_one_is_its_own() {
        let names = [Some("x"), None, Some("y"), Some("x"), None];
        let (_, column) = pack(names.iter().enumerate().map(|(id, name)| item(id, 1, *name)));
        let expected = ClusterColumn {
            of_item: vec![0, 1, 2, 0, 3],
            count: 4,
        };
        assert_eq!(column, Some(expected));
        let (_, none) = pack((0..3).map(|id| item(id, 1, None)));
        assert_eq!(none, None);
    }
}
