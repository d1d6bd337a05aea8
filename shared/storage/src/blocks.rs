//! Blocks of items: written as a suite is rendered, read by who needs items, the ones in use kept within a bound of bytes.

use std::fmt;
use std::hash::RandomState;
use std::ops::Deref;
use std::sync::Arc;

use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{OptionsBuilder, Weighter};
use tidemill_codec::Wire;
use tidemill_domain::{
    Block, BlockRef, ClustersRef, Columns, ColumnsRef, Digest, Item, ItemKey, Manifest, Outline, counted,
};
use tokio::task::{JoinError, JoinSet};

use crate::objects::{Kind, sealed};
use crate::{Error, Store};

/// Bytes of blocks kept in memory. Items are released and graded in about their order, so a few blocks of each benchmark
/// are in use at a time; a block takes about a mebibyte.
const CACHED_BYTES: u64 = 64 << 20;

/// Blocks written at once: enough to hide a remote store's round trip, few enough to bound what waits in memory.
const WRITES_AT_ONCE: usize = 8;

/// Objects looked for at once.
const LOOKS_AT_ONCE: usize = 64;

/// The blocks in use.
pub(crate) struct Blocks(Cache<Digest, Held, Bytes, RandomState, DefaultLifecycle<Digest, Held>>);

#[derive(Debug, Clone)]
struct Held {
    block: Arc<Block>,
    bytes: u64,
}

#[derive(Debug, Clone)]
struct Bytes;

impl Weighter<Digest, Held> for Bytes {
    fn weight(&self, _digest: &Digest, held: &Held) -> u64 {
        held.bytes
    }
}

impl Default for Blocks {
    fn default() -> Self {
        Self::of(CACHED_BYTES)
    }
}

impl Blocks {
    fn of(bytes: u64) -> Self {
        // One shard: with several, each would hold its share of the bytes alone, and a large block fits in none.
        let options = OptionsBuilder::new()
            .shards(1)
            .estimated_items_capacity((bytes >> 20) as usize)
            .weight_capacity(bytes)
            .build();
        Self(match options {
            Ok(options) => Cache::with_options(options, Bytes, RandomState::new(), DefaultLifecycle::default()),
            Err(_) => Cache::with(
                (bytes >> 20) as usize,
                bytes,
                Bytes,
                RandomState::new(),
                DefaultLifecycle::default(),
            ),
        })
    }
}

impl fmt::Debug for Blocks {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Blocks")
            .field("blocks", &self.0.len())
            .field("bytes", &self.0.weight())
            .finish()
    }
}

/// An item with the block that holds it.
#[derive(Debug, Clone)]
pub struct StoredItem {
    block: Arc<Block>,
    index: usize,
}

impl From<Item> for StoredItem {
    /// An item alone, as where there is no store.
    fn from(item: Item) -> Self {
        Self {
            block: Arc::new(Block { items: vec![item] }),
            index: 0,
        }
    }
}

impl Deref for StoredItem {
    type Target = Item;

    fn deref(&self) -> &Item {
        &self.block.items[self.index]
    }
}

impl Store {
    /// The item of a key; `None` when the manifest does not declare the key.
    ///
    /// Reads the item's block unless it is kept; of several callers one reads, and the others wait for that.
    ///
    /// # Errors
    /// [`Error::Missing`], [`Error::Access`], [`Error::Damaged`] or [`Error::Codec`], naming the block.
    ///
    /// # Cancel safety
    /// Dropping it loses nothing; another caller that waits reads the block then.
    pub async fn item(&self, manifest: &Manifest, key: &ItemKey) -> Result<Option<StoredItem>, Error> {
        let located = manifest
            .benchmark_of(key)
            .and_then(|benchmark| benchmark.block_of(key.item));
        let Some((place, index)) = located else {
            return Ok(None);
        };
        let block = self.block(&place.digest).await?;
        if index < block.items.len() {
            return Ok(Some(StoredItem { block, index }));
        }
        Err(Error::Damaged {
            what: Kind::Block,
            digest: place.digest.clone(),
            detail: format!(
                "it holds {}, and its manifest looks for one beyond",
                counted(block.items.len() as u64, "item")
            ),
        })
    }

    /// The block of a digest.
    ///
    /// # Errors
    /// As [`Store::item`].
    async fn block(&self, digest: &Digest) -> Result<Arc<Block>, Error> {
        let read = async {
            let block: Block = self.sealed_object(Kind::Block, digest).await?;
            let bytes = block.bytes() as u64;
            Ok::<_, Error>(Held {
                block: Arc::new(block),
                bytes,
            })
        };
        Ok(self.blocks.0.get_or_insert_async(digest, read).await?.block)
    }

    /// The block of a digest for one who passes through all of them: read each time, and not kept.
    ///
    /// # Errors
    /// As [`Store::item`].
    pub async fn passing_block(&self, digest: &Digest) -> Result<Block, Error> {
        self.sealed_object(Kind::Block, digest).await
    }

    /// What is known of the items of each benchmark without them.
    ///
    /// # Errors
    /// As [`Store::item`], naming the column.
    pub async fn columns(&self, manifest: &Manifest) -> Result<Vec<Columns>, Error> {
        let mut all = Vec::with_capacity(manifest.benchmarks.len());
        for benchmark in &manifest.benchmarks {
            let clusters = benchmark.clusters.as_ref().map(|clusters| &clusters.digest);
            all.push(Columns {
                clusters: self.column(Kind::Clusters, clusters).await?,
                subsets: self.column(Kind::Subsets, benchmark.subsets.as_ref()).await?,
                weights: self.column(Kind::Weights, benchmark.weights.as_ref()).await?,
            });
        }
        Ok(all)
    }

    async fn column<T: Wire + Send + Sync + 'static>(
        &self,
        kind: Kind,
        digest: Option<&Digest>,
    ) -> Result<Option<T>, Error> {
        match digest {
            Some(digest) => self.sealed_object(kind, digest).await.map(Some),
            None => Ok(None),
        }
    }

    /// The outline of a block.
    ///
    /// # Errors
    /// As [`Store::item`], naming the outline. Nothing but order depends on it.
    pub async fn outline(&self, digest: &Digest) -> Result<Outline, Error> {
        self.sealed_object(Kind::Outline, digest).await
    }

    /// Proves that every object that a manifest names and a result needs is there, without reading any.
    ///
    /// # Errors
    /// [`Error::Missing`] with the key of one that is not, or [`Error::Access`].
    pub async fn prove_blocks(&self, manifest: &Manifest) -> Result<(), Error> {
        let mut named = Vec::new();
        for benchmark in &manifest.benchmarks {
            named.extend(benchmark.blocks.iter().map(|block| Kind::Block.key(&block.digest)));
            let clusters = benchmark.clusters.iter();
            named.extend(clusters.map(|clusters| Kind::Clusters.key(&clusters.digest)));
            named.extend(benchmark.subsets.iter().map(|digest| Kind::Subsets.key(digest)));
            named.extend(benchmark.weights.iter().map(|digest| Kind::Weights.key(digest)));
        }
        let mut looks = JoinSet::new();
        for key in named {
            while looks.len() >= LOOKS_AT_ONCE {
                settled(looks.join_next().await)?;
            }
            let store = self.clone();
            looks.spawn(async move { store.prove(&key).await });
        }
        while settled(looks.join_next().await)? {}
        Ok(())
    }

    /// Begins to write blocks.
    #[must_use]
    pub fn block_writer(&self) -> BlockWriter {
        BlockWriter {
            store: self.clone(),
            writing: JoinSet::new(),
        }
    }
}

/// Writes blocks while more are made: a few at once, whose ends [`BlockWriter::finish`] waits for.
#[derive(Debug)]
pub struct BlockWriter {
    store: Store,
    writing: JoinSet<Result<(), Error>>,
}

impl BlockWriter {
    /// Writes a block that ends at an ordinal, and names it.
    ///
    /// # Errors
    /// [`Error::Access`], of this block or of one before.
    pub async fn block(&mut self, block: &Block, end: u32) -> Result<BlockRef, Error> {
        let (digest, object) = sealed(Kind::Block, block)?;
        self.write(Kind::Block, &digest, object).await?;
        Ok(BlockRef { digest, end })
    }

    /// Writes a benchmark's columns, and names them.
    ///
    /// # Errors
    /// As [`BlockWriter::block`].
    pub async fn columns(&mut self, columns: &Columns) -> Result<ColumnsRef, Error> {
        let clusters = match &columns.clusters {
            Some(column) => Some(ClustersRef {
                digest: self.column(Kind::Clusters, column).await?,
                count: column.count,
            }),
            None => None,
        };
        let subsets = match &columns.subsets {
            Some(column) => Some(self.column(Kind::Subsets, column).await?),
            None => None,
        };
        let weights = match &columns.weights {
            Some(column) => Some(self.column(Kind::Weights, column).await?),
            None => None,
        };
        Ok(ColumnsRef {
            clusters,
            subsets,
            weights,
        })
    }

    async fn column<T: Wire + Sync>(&mut self, kind: Kind, column: &T) -> Result<Digest, Error> {
        let (digest, object) = sealed(kind, column)?;
        self.write(kind, &digest, object).await?;
        Ok(digest)
    }

    /// Writes the outline of a block, and names it.
    ///
    /// # Errors
    /// As [`BlockWriter::block`].
    pub async fn outline(&mut self, outline: &Outline) -> Result<Digest, Error> {
        let (digest, object) = sealed(Kind::Outline, outline)?;
        self.write(Kind::Outline, &digest, object).await?;
        Ok(digest)
    }

    /// Waits until everything is stored.
    ///
    /// # Errors
    /// As [`BlockWriter::block`].
    pub async fn finish(mut self) -> Result<(), Error> {
        while self.settle_one().await? {}
        Ok(())
    }

    async fn write(&mut self, kind: Kind, digest: &Digest, object: Vec<u8>) -> Result<(), Error> {
        while self.writing.len() >= WRITES_AT_ONCE {
            self.settle_one().await?;
        }
        let (store, key) = (self.store.clone(), kind.key(digest));
        self.writing.spawn(async move { store.put(&key, object).await });
        Ok(())
    }

    /// False when nothing is being written.
    async fn settle_one(&mut self) -> Result<bool, Error> {
        settled(self.writing.join_next().await)
    }
}

/// How a task ended; false when there was none.
fn settled(ended: Option<Result<Result<(), Error>, JoinError>>) -> Result<bool, Error> {
    match ended {
        None => Ok(false),
        Some(Ok(result)) => result.map(|()| true),
        Some(Err(error)) => Err(Error::Interrupted(error.to_string())),
    }
}

#[cfg(test)]
#[path = "blocks_tests.rs"]
mod tests;
