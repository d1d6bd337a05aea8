//! Where rendered items go, a block at a time, so that a suite of any size is rendered in the memory of one block.

use std::collections::HashMap;

use tidemill_domain::{
    Block, BlockRef, ClusterColumn, ClustersRef, Columns, ColumnsRef, Digest, Item, Manifest, Outline, SubsetColumn,
    WeightColumn,
};

/// Takes in what is rendered.
pub trait Sink {
    /// Stores a block whose last item has the ordinal before `end`.
    ///
    /// # Errors
    /// [`Stopped`]; the sink itself knows why.
    fn block(&mut self, block: Block, end: u32) -> Result<BlockRef, Stopped>;

    /// Stores the outline of the block that was stored last.
    ///
    /// # Errors
    /// [`Stopped`]; the sink itself knows why.
    fn outline(&mut self, outline: Outline) -> Result<Digest, Stopped>;

    /// Stores what is known of a benchmark's items without them.
    ///
    /// # Errors
    /// [`Stopped`]; the sink itself knows why.
    fn columns(&mut self, columns: Columns) -> Result<ColumnsRef, Stopped>;
}

/// The sink takes nothing more: rendering ends at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("rendered items could not be stored")]
pub struct Stopped;

/// Keeps everything in memory: for small suites that are looked at where they are rendered.
#[derive(Debug, Default)]
pub struct Collected {
    blocks: HashMap<Digest, Block>,
    clusters: HashMap<Digest, ClusterColumn>,
    subsets: HashMap<Digest, SubsetColumn>,
    weights: HashMap<Digest, WeightColumn>,
    outlines: HashMap<Digest, Outline>,
}

impl Collected {
    /// All items of a benchmark of a manifest that was rendered into this.
    pub fn items<'a>(&'a self, manifest: &'a Manifest, benchmark: usize) -> impl Iterator<Item = &'a Item> {
        let blocks = manifest
            .benchmarks
            .get(benchmark)
            .map(|benchmark| benchmark.blocks.iter());
        let blocks = blocks
            .into_iter()
            .flatten()
            .filter_map(|place| self.blocks.get(&place.digest));
        blocks.flat_map(|block| &block.items)
    }

    /// The outlines of a benchmark's blocks.
    pub fn outlines<'a>(&'a self, manifest: &'a Manifest, benchmark: usize) -> impl Iterator<Item = &'a Outline> {
        let outlines = manifest
            .benchmarks
            .get(benchmark)
            .map(|benchmark| benchmark.outlines.iter());
        outlines
            .into_iter()
            .flatten()
            .filter_map(|digest| self.outlines.get(digest))
    }

    /// The clusters of a benchmark.
    #[must_use]
    pub fn column(&self, manifest: &Manifest, benchmark: usize) -> Option<&ClusterColumn> {
        let clusters = manifest.benchmarks.get(benchmark)?.clusters.as_ref()?;
        self.clusters.get(&clusters.digest)
    }

    /// The subsets of a benchmark.
    #[must_use]
    pub fn subsets(&self, manifest: &Manifest, benchmark: usize) -> Option<&SubsetColumn> {
        self.subsets.get(manifest.benchmarks.get(benchmark)?.subsets.as_ref()?)
    }

    /// The weights of a benchmark's items.
    #[must_use]
    pub fn weights(&self, manifest: &Manifest, benchmark: usize) -> Option<&WeightColumn> {
        self.weights.get(manifest.benchmarks.get(benchmark)?.weights.as_ref()?)
    }
}

impl Sink for Collected {
    fn block(&mut self, block: Block, end: u32) -> Result<BlockRef, Stopped> {
        let digest = named("block", end, self.blocks.len());
        self.blocks.insert(digest.clone(), block);
        Ok(BlockRef { digest, end })
    }

    fn outline(&mut self, outline: Outline) -> Result<Digest, Stopped> {
        let digest = named("outline", 0, self.outlines.len());
        self.outlines.insert(digest.clone(), outline);
        Ok(digest)
    }

    fn columns(&mut self, columns: Columns) -> Result<ColumnsRef, Stopped> {
        Ok(ColumnsRef {
            clusters: columns.clusters.map(|column| {
                let count = column.count;
                ClustersRef {
                    digest: kept("clusters", &mut self.clusters, column),
                    count,
                }
            }),
            subsets: columns.subsets.map(|column| kept("subsets", &mut self.subsets, column)),
            weights: columns.weights.map(|column| kept("weights", &mut self.weights, column)),
        })
    }
}

fn kept<T>(kind: &str, known: &mut HashMap<Digest, T>, column: T) -> Digest {
    let digest = named(kind, 0, known.len());
    known.insert(digest.clone(), column);
    digest
}

/// Names that differ are enough here: nothing is looked up by content.
fn named(kind: &str, end: u32, number: usize) -> Digest {
    Digest::of_parts([kind.as_bytes(), &end.to_le_bytes(), &number.to_le_bytes()])
}
