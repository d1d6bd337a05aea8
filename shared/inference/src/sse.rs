//! Server-sent events, taken apart as the bytes arrive.
//!
//! Chunks may be cut anywhere, also inside a character: only bytes are looked at here. What an event holds is handed over once
//! it is whole; comments, which servers send to keep a connection open, are dropped.
//!
//! Source: WHATWG HTML, section 9.2.6 (a lone carriage return, which no engine sends, ends no line here).

use std::ops::ControlFlow;

/// The longest line or event that is kept: an event holds a few tokens, and an endless one must not fill the memory.
pub(crate) const MOST_BYTES: usize = 64 << 20;

/// Splits a stream into the data of its events. Its buffers are used over and over.
#[derive(Debug, Default)]
pub(crate) struct Events {
    /// The beginning of a line whose end has not arrived.
    line: Vec<u8>,
    /// The data of an event whose end has not arrived.
    data: Vec<u8>,
    has_data: bool,
}

/// An event that never ends.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

impl Events {
    /// Takes the next bytes and hands each event that they complete to `each`, until that breaks off.
    pub(crate) fn feed<B>(
        &mut self,
        mut bytes: &[u8],
        mut each: impl FnMut(&[u8]) -> ControlFlow<B>,
    ) -> Result<ControlFlow<B>, TooLong> {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            let (line, rest) = (&bytes[..end], &bytes[end + 1..]);
            bytes = rest;
            let is_over = if self.line.is_empty() {
                Self::take(&mut self.data, &mut self.has_data, line)
            } else {
                self.line.extend_from_slice(line);
                let is_over = Self::take(&mut self.data, &mut self.has_data, &self.line);
                self.line.clear();
                is_over
            };
            if is_over && self.has_data {
                let flow = each(&self.data);
                self.data.clear();
                self.has_data = false;
                if flow.is_break() {
                    return Ok(flow);
                }
            }
        }
        self.line.extend_from_slice(bytes);
        if self.line.len() + self.data.len() > MOST_BYTES {
            return Err(TooLong);
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Adds a line to an event; true for the empty line that ends one.
    fn take(data: &mut Vec<u8>, has_data: &mut bool, line: &[u8]) -> bool {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            return true;
        }
        if let Some(value) = line.strip_prefix(b"data:") {
            if *has_data {
                data.push(b'\n');
            }
            data.extend_from_slice(value.strip_prefix(b" ").unwrap_or(value));
            *has_data = true;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(chunks: &[&[u8]]) -> Vec<Vec<u8>> {
        let (mut events, mut found) = (Events::default(), Vec::new());
        for chunk in chunks {
            let flow = events.feed(chunk, |data| {
                found.push(data.to_vec());
                ControlFlow::<()>::Continue(())
            });
            assert_eq!(flow, Ok(ControlFlow::Continue(())));
        }
        found
    }

    #[test]
    fn cuts_at_any_byte_change_nothing() {
        let stream = "data: {\"a\":\"é\u{1f600}\"}\n\n: keep-alive\n\ndata:two\r\n\r\nevent: x\ndata: three\ndata: lines\nid: 7\n\n\n\ndata: cut"
            .as_bytes();
        let expected = [
            "{\"a\":\"é\u{1f600}\"}".as_bytes().to_vec(),
            b"two".to_vec(),
            b"three\nlines".to_vec(),
        ];
        assert_eq!(events(&[stream]), expected);
        for cut in 1..stream.len() {
            assert_eq!(events(&[&stream[..cut], &stream[cut..]]), expected, "cut at {cut}");
        }
        let single: Vec<&[u8]> = stream.chunks(1).collect();
        assert_eq!(events(&single), expected);
    }

    #[test]
    fn who_has_enough_gets_no_more() {
        let mut seen = 0;
        let flow = Events::default().feed(b"data: 1\n\ndata: 2\n\n", |_| {
            seen += 1;
            ControlFlow::Break("enough")
        });
        assert_eq!((flow, seen), (Ok(ControlFlow::Break("enough")), 1));
    }

    #[test]
    fn an_endless_event_is_refused() {
        let mut events = Events::default();
        let half = vec![b'x'; MOST_BYTES / 2 + 1];
        let mut feed = || events.feed(&half, |_| ControlFlow::<()>::Continue(()));
        assert!(feed().is_ok());
        assert_eq!(feed(), Err(TooLong));
    }
}
