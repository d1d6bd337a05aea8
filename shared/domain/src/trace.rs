//! Trace context of one item, carried in message headers from the dispatcher to the aggregator.

use std::fmt;

use crate::ItemKey;

/// A W3C trace context: which trace a message belongs to, and which span caused it.
///
/// The trace id is made from the item's key, so all work on one item is one trace, whatever was killed between.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceContext {
    trace: u128,
    span: u64,
}

impl TraceContext {
    /// The name of the header that carries it.
    pub const HEADER: &str = "traceparent";

    /// The trace of an item, at the span of the stage `stage`.
    #[must_use]
    pub fn of_item(key: &ItemKey, stage: &str) -> Self {
        let hash = blake3::hash(key.to_string().as_bytes());
        let mut trace = [0; 16];
        trace.copy_from_slice(&hash.as_bytes()[..16]);
        Self {
            trace: u128::from_be_bytes(trace) | 1,
            span: 0,
        }
        .child(stage)
    }

    /// A span of the same trace, made from its stage's name.
    #[must_use]
    pub fn child(self, stage: &str) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher
            .update(&self.trace.to_be_bytes())
            .update(&self.span.to_be_bytes())
            .update(stage.as_bytes());
        let mut span = [0; 8];
        span.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
        Self {
            trace: self.trace,
            span: u64::from_be_bytes(span) | 1,
        }
    }

    /// The trace id as 32 hexadecimal digits.
    #[must_use]
    pub fn trace_id(self) -> String {
        format!("{:032x}", self.trace)
    }

    /// The span id as 16 hexadecimal digits.
    #[must_use]
    pub fn span_id(self) -> String {
        format!("{:016x}", self.span)
    }

    /// Reads a `traceparent` header; `None` where it is not one.
    #[must_use]
    pub fn parse(header: &str) -> Option<Self> {
        let mut fields = header.split('-');
        let (_version, trace, span) = (fields.next()?, fields.next()?, fields.next()?);
        if trace.len() != 32 || span.len() != 16 {
            return None;
        }
        Some(Self {
            trace: u128::from_str_radix(trace, 16).ok()?,
            span: u64::from_str_radix(span, 16).ok()?,
        })
    }
}

impl fmt::Display for TraceContext {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "00-{:032x}-{:016x}-01", self.trace, self.span)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Digest, EvaluationId};

    #[test]
    fn one_item_is_one_trace_over_all_stages() {
        let key = ItemKey {
            evaluation: EvaluationId::from_digest(&Digest::of(b"e")),
            benchmark: 1,
            item: 2,
            sample: 0,
        };
        let release = TraceContext::of_item(&key, "release");
        let generate = TraceContext::parse(&release.to_string()).unwrap().child("generate");
        assert_eq!(release.trace_id(), generate.trace_id());
        assert_ne!(release.span_id(), generate.span_id());
        assert_eq!(TraceContext::of_item(&key, "release"), release);
        assert!(TraceContext::parse("00-12-34-01").is_none());
    }
}
