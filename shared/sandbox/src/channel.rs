//! Frames to and from a sandboxed process: eight hexadecimal digits of length, then that many bytes.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{ChildStdin, ChildStdout};

/// Both ends of ours, towards one process.
#[derive(Debug)]
pub(crate) struct Channel {
    pub(crate) sink: Option<ChildStdin>,
    pub(crate) source: BufReader<ChildStdout>,
    /// Bytes of the longest frame that is taken.
    longest: u64,
}

/// What came of a process.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Received {
    Frame(Vec<u8>),
    /// It closed the channel, or ended.
    Gone,
    /// A frame longer than is allowed.
    TooLong,
    /// No frame.
    Nonsense,
}

impl Channel {
    pub(crate) fn new(sink: ChildStdin, source: ChildStdout, longest: u64) -> Self {
        Self {
            sink: Some(sink),
            source: BufReader::new(source),
            longest,
        }
    }

    /// Sends a frame; one that nobody reads any more is no error, for then the next thing to be received is the end.
    pub(crate) async fn send(&mut self, frame: &[u8]) {
        let Some(sink) = &mut self.sink else { return };
        let head = format!("{:08x}", frame.len());
        let sent = async {
            sink.write_all(head.as_bytes()).await?;
            sink.write_all(frame).await?;
            sink.flush().await
        };
        if sent.await.is_err() {
            self.sink = None;
        }
    }

    /// Waits for a frame.
    pub(crate) async fn receive(&mut self) -> Received {
        let mut head = [0; 8];
        if self.source.read_exact(&mut head).await.is_err() {
            return Received::Gone;
        }
        let digits = std::str::from_utf8(&head).ok();
        let Some(size) = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()) else {
            return Received::Nonsense;
        };
        if u64::from(size) > self.longest {
            return Received::TooLong;
        }
        let mut frame = Vec::new();
        let read = (&mut self.source).take(u64::from(size)).read_to_end(&mut frame).await;
        match read {
            Ok(read) if read == size as usize => Received::Frame(frame),
            _ => Received::Gone,
        }
    }

    /// Reads what is not framed, at most `most` bytes; whether there was more.
    pub(crate) async fn rest(&mut self, most: u64) -> io::Result<(Vec<u8>, bool)> {
        let mut out = Vec::new();
        (&mut self.source).take(most).read_to_end(&mut out).await?;
        let more = out.len() as u64 == most && self.source.read(&mut [0]).await? > 0;
        Ok((out, more))
    }
}
