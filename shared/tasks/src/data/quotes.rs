//! Refuses quotes that a lenient CSV reader would repair in silence, swallowing rows as it does so.

use std::collections::VecDeque;
use std::io::{self, BufRead, ErrorKind, Read};

use super::MAX_ROW_BYTES;

/// A quote that breaks the row it stands in.
#[derive(Debug, Clone, Copy, thiserror::Error)]
pub(super) enum BrokenQuote {
    /// The value goes on after its closing quote.
    #[error("text after a closing quote")]
    TextAfter {
        /// The line, from 1.
        line: u64,
    },
    /// A row does not end.
    #[error("{}", super::too_long("is a quote never closed?"))]
    TooLong {
        /// Its first line, from 1.
        line: u64,
    },
    /// The file ends before the value.
    #[error("a quote is opened and never closed")]
    NeverClosed {
        /// The line of the opening quote, from 1.
        line: u64,
    },
}

impl BrokenQuote {
    /// The line to look at.
    pub(super) const fn line(self) -> u64 {
        match self {
            Self::TextAfter { line } | Self::TooLong { line } | Self::NeverClosed { line } => line,
        }
    }
}

/// Passes bytes through and fails at a quoted value that goes on after its closing quote, or that never closes.
///
/// A quote inside a value that does not begin with one is an ordinary character, as in other readers.
pub(super) struct Quotes {
    inner: Box<dyn BufRead>,
    state: State,
    line: u64,
    opened: u64,
    /// Bytes of the row so far, and the line it begins on.
    row: (u64, u64),
    starts: VecDeque<u64>,
    fault: Option<BrokenQuote>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Record,
    Value,
    Bare,
    Quoted,
    Closed,
}

impl Quotes {
    pub(super) fn new(inner: Box<dyn BufRead>) -> Self {
        Self {
            inner,
            state: State::Record,
            line: 1,
            opened: 1,
            row: (0, 1),
            starts: VecDeque::new(),
            fault: None,
        }
    }

    /// The line of the next record that passed through and was not asked for yet.
    ///
    /// The reader's own count goes astray at values of several lines and at blank lines.
    pub(super) fn next_record(&mut self) -> Option<u64> {
        self.starts.pop_front()
    }

    /// Follows one byte; an error when it cannot stand here.
    fn follow(&mut self, byte: u8) -> Result<(), BrokenQuote> {
        if self.state == State::Record && !matches!(byte, b'\n' | b'\r') {
            self.starts.push_back(self.line);
            self.row = (0, self.line);
        }
        self.row.0 += 1;
        if self.row.0 > MAX_ROW_BYTES {
            return Err(BrokenQuote::TooLong { line: self.row.1 });
        }
        self.state = match (self.state, byte) {
            (State::Quoted, b'"') => State::Closed,
            (State::Closed, b'"') => State::Quoted,
            (State::Quoted, _) => State::Quoted,
            (_, b'\n' | b'\r') => State::Record,
            (_, b',') => State::Value,
            (State::Closed, _) => return Err(BrokenQuote::TextAfter { line: self.line }),
            (State::Record | State::Value, b'"') => {
                self.opened = self.line;
                State::Quoted
            }
            (State::Record | State::Value | State::Bare, _) => State::Bare,
        };
        self.line += u64::from(byte == b'\n');
        Ok(())
    }

    fn at_end(&mut self) -> io::Result<usize> {
        if self.state == State::Quoted {
            let fault = BrokenQuote::NeverClosed { line: self.opened };
            return Err(io::Error::new(ErrorKind::InvalidData, fault));
        }
        Ok(0)
    }
}

impl Read for Quotes {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(fault) = self.fault.take() {
            return Err(io::Error::new(ErrorKind::InvalidData, fault));
        }
        let count = self.inner.read(buffer)?;
        if count == 0 && !buffer.is_empty() {
            return self.at_end();
        }
        for index in 0..count {
            if let Err(fault) = self.follow(buffer[index]) {
                // What came before is handed out first, so that earlier rows are still read.
                self.fault = Some(fault);
                return if index > 0 { Ok(index) } else { self.read(buffer) };
            }
        }
        Ok(count)
    }
}
