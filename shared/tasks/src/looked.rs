//! Sinks for looking at a suite: what it amounts to, and single items of it. Nothing is kept beyond that.

use tidemill_domain::{Block, BlockRef, ClustersRef, Columns, ColumnsRef, Digest, Item, Outline, Prompt};

use crate::sink::{Sink, Stopped};

/// What a benchmark amounts to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Extent {
    /// Its items.
    pub items: u64,
    /// The bytes of all prompts, examples included.
    pub prompt_bytes: u64,
    /// Those of the longest prompt.
    pub longest_prompt_bytes: u64,
    /// Choices whose likelihoods are asked for, or that are options, over all items.
    pub choices: u64,
    /// Its clusters; 0 where it names none.
    pub clusters: u64,
    /// Its subsets.
    pub subsets: u64,
}

/// Counts what is rendered, benchmark by benchmark in the order of the suite.
#[derive(Debug, Default)]
pub struct Counted {
    done: Vec<Extent>,
    current: Extent,
}

impl Counted {
    /// One for each benchmark that was rendered whole.
    #[must_use]
    pub fn extents(&self) -> &[Extent] {
        &self.done
    }
}

impl Sink for Counted {
    fn block(&mut self, block: Block, end: u32) -> Result<BlockRef, Stopped> {
        for item in &block.items {
            let bytes = prompt_bytes(&item.prompt);
            self.current.items += 1;
            self.current.prompt_bytes += bytes;
            self.current.longest_prompt_bytes = self.current.longest_prompt_bytes.max(bytes);
            self.current.choices += item.choices.len() as u64;
        }
        Ok(unstored(end))
    }

    fn outline(&mut self, _: Outline) -> Result<Digest, Stopped> {
        Ok(nowhere())
    }

    fn columns(&mut self, columns: Columns) -> Result<ColumnsRef, Stopped> {
        self.current.clusters = columns.clusters.as_ref().map_or(0, |column| u64::from(column.count));
        self.current.subsets = columns.subsets.as_ref().map_or(0, |column| column.names.len() as u64);
        self.done.push(std::mem::take(&mut self.current));
        Ok(unstored_columns(&columns))
    }
}

/// Keeps one item of each benchmark: the one that is wanted, else the first.
#[derive(Debug)]
pub struct Picked {
    wanted: Option<String>,
    done: Vec<Option<(u32, Item)>>,
    current: Option<(u32, Item)>,
    is_by_id: bool,
    seen: u32,
}

impl Picked {
    /// Looks for an item by its id, else by its number from 0; without a wish for the first one.
    #[must_use]
    pub fn new(wanted: Option<String>) -> Self {
        Self {
            wanted,
            done: Vec::new(),
            current: None,
            is_by_id: false,
            seen: 0,
        }
    }

    /// The item of a benchmark, with its number; `None` where the benchmark has none that was wanted.
    #[must_use]
    pub fn item(&self, benchmark: usize) -> Option<&(u32, Item)> {
        self.done.get(benchmark)?.as_ref()
    }

    fn look(&mut self, item: Item) {
        let number = self.seen;
        self.seen += 1;
        let (is_id, is_number) = match &self.wanted {
            None => (false, number == 0),
            Some(wanted) => (item.id == *wanted, number.to_string() == *wanted),
        };
        if is_id || (is_number && !self.is_by_id) {
            self.is_by_id |= is_id;
            self.current = Some((number, item));
        }
    }
}

impl Sink for Picked {
    fn block(&mut self, block: Block, end: u32) -> Result<BlockRef, Stopped> {
        for item in block.items {
            self.look(item);
        }
        Ok(unstored(end))
    }

    fn outline(&mut self, _: Outline) -> Result<Digest, Stopped> {
        Ok(nowhere())
    }

    fn columns(&mut self, columns: Columns) -> Result<ColumnsRef, Stopped> {
        self.done.push(self.current.take());
        (self.is_by_id, self.seen) = (false, 0);
        Ok(unstored_columns(&columns))
    }
}

fn prompt_bytes(prompt: &Prompt) -> u64 {
    let bytes = match prompt {
        Prompt::Text(text) => text.len(),
        Prompt::Chat(turns) => turns.iter().map(|turn| turn.content.len()).sum(),
    };
    bytes as u64
}

/// Stands for what nobody will look up.
fn nowhere() -> Digest {
    Digest::of_parts([b"not stored".as_slice()])
}

fn unstored(end: u32) -> BlockRef {
    BlockRef { digest: nowhere(), end }
}

fn unstored_columns(columns: &Columns) -> ColumnsRef {
    ColumnsRef {
        clusters: columns.clusters.as_ref().map(|column| ClustersRef {
            digest: nowhere(),
            count: column.count,
        }),
        subsets: columns.subsets.as_ref().map(|_| nowhere()),
        weights: columns.weights.as_ref().map(|_| nowhere()),
    }
}
