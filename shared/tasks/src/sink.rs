//! Where rendered items go, a block at a time, so that a suite of any size is rendered in the memory of one block.

use std::collections::HashMap;

use tidemill_domain::{Block, BlockRef, ClusterColumn, ClustersRef, Digest, Item, Manifest, Outline};

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

    /// Stores the clusters of a benchmark.
    ///
    /// # Errors
    /// [`Stopped`]; the sink itself knows why.
    fn clusters(&mut self, column: ClusterColumn) -> Result<ClustersRef, Stopped>;
}

/// The sink takes nothing more: rendering ends at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("rendered items could not be stored")]
pub struct Stopped;

/// Keeps everything in memory: for small suites that are looked at where they are rendered.
#[derive(Debug, Default)]
pub struct Collected {
    blocks: HashMap<Digest, Block>,
    columns: HashMap<Digest, ClusterColumn>,
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
        self.columns.get(&clusters.digest)
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

    fn clusters(&mut self, column: ClusterColumn) -> Result<ClustersRef, Stopped> {
        let (digest, count) = (named("clusters", column.count, self.columns.len()), column.count);
        self.columns.insert(digest.clone(), column);
        Ok(ClustersRef { digest, count })
    }
}

/// Names that differ are enough here: nothing is looked up by content.
fn named(kind: &str, end: u32, number: usize) -> Digest {
    Digest::of_parts([kind.as_bytes(), &end.to_le_bytes(), &number.to_le_bytes()])
}
