//! Items one by one in the manifest's order, from the archive or from the streams.

use std::sync::Arc;

use bytes::Bytes;
use tidemill_domain::{Completion, EvaluationEvent, Grade, ItemKey, Manifest};
use tidemill_service::Context;

use crate::reader::Reader;
use crate::{Error, Layout, Live, Records, Stored};

/// A declared sample with its messages as they were published; bodies that were too large for a message are in them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// Which one.
    pub key: ItemKey,
    /// Its completion's message; `None` while it has none.
    pub completion: Option<Bytes>,
    /// Its grade's message; `None` while it has none.
    pub grade: Option<Bytes>,
}

impl Sample {
    /// The completion, or why it cannot be read.
    ///
    /// # Errors
    /// When its message does not decode.
    pub fn completion(&self) -> Result<Option<Completion>, tidemill_codec::Error> {
        self.completion.as_deref().map(tidemill_codec::decode).transpose()
    }

    /// The grade, or why it cannot be read.
    ///
    /// # Errors
    /// When its message does not decode.
    pub fn grade(&self) -> Result<Option<Grade>, tidemill_codec::Error> {
        self.grade.as_deref().map(tidemill_codec::decode).transpose()
    }
}

enum Source {
    Live(Box<Live>),
    Archive(Box<Reader>),
}

/// The samples of an evaluation. It keeps a few of them in memory, or one group of rows of its archive.
pub struct Samples {
    context: Context,
    event: EvaluationEvent,
    layout: Layout,
    position: u64,
    source: Source,
}

impl Samples {
    /// Opens the samples of an evaluation whose newest event this is.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn open(context: &Context, event: &EvaluationEvent, manifest: &Arc<Manifest>) -> Result<Self, Error> {
        let layout = Layout::new(&event.evaluation, manifest);
        let source = match archived(context, event).await? {
            Some(stored) => Source::Archive(Box::new(
                Reader::open(&context.store, &stored.folder, &stored.index).await?,
            )),
            None => {
                let live = Live::open(context, &layout, &event.evaluation).await?;
                // What is purged while it is looked for is in an archive that was committed before.
                match archived(context, event).await? {
                    Some(stored) => Source::Archive(Box::new(
                        Reader::open(&context.store, &stored.folder, &stored.index).await?,
                    )),
                    None => Source::Live(Box::new(live)),
                }
            }
        };
        Ok(Self {
            context: context.clone(),
            event: event.clone(),
            layout,
            position: 0,
            source,
        })
    }

    /// Opens the rows of a folder that holds an index.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn of_folder(
        context: &Context,
        event: &EvaluationEvent,
        manifest: &Arc<Manifest>,
        folder: &str,
    ) -> Result<Self, Error> {
        Ok(Self {
            context: context.clone(),
            event: event.clone(),
            layout: Layout::new(&event.evaluation, manifest),
            position: 0,
            source: Source::Archive(Box::new(Reader::open_unchecked(&context.store, folder).await?)),
        })
    }

    /// Where the samples are read: the archive's folder, or `None` for the streams.
    #[must_use]
    pub fn folder(&self) -> Option<&str> {
        match &self.source {
            Source::Live(_) => None,
            Source::Archive(reader) => Some(reader.folder()),
        }
    }

    /// The next sample; `None` after the last.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn next(&mut self) -> Result<Option<Sample>, Error> {
        let Some(key) = self.layout.key(self.position) else {
            return Ok(None);
        };
        let (completion, grade) = loop {
            let read = match &mut self.source {
                Source::Live(live) => live.messages(self.position).await,
                Source::Archive(reader) => reader.messages(&key, self.position).await,
            };
            match read {
                Ok(messages) => break messages,
                Err(Error::Vanished { evaluation }) => {
                    let stored = archived(&self.context, &self.event).await?;
                    let stored = stored.ok_or(Error::Vanished { evaluation })?;
                    let reader = Reader::open(&self.context.store, &stored.folder, &stored.index).await?;
                    self.source = Source::Archive(Box::new(reader));
                }
                Err(error) => return Err(error),
            }
        };
        self.position += 1;
        Ok(Some(Sample { key, completion, grade }))
    }
}

async fn archived(context: &Context, event: &EvaluationEvent) -> Result<Option<Stored>, Error> {
    let records = Records::open(context).await?;
    let known = records.get(&event.evaluation).await?;
    Ok(known.and_then(|known| known.record.counts(event).cloned()))
}
