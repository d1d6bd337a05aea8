//! Dead letters: what could not be processed, kept with its reason until an operator decides.
//!
//! A letter holds the message's bytes as they came, and in its headers where it came from and why it is here. Where an
//! outcome was recorded the letter is for people alone. Where none was, the item is *held*: its evaluation stays open, nothing
//! releases it again while the letter lies here, and an operator retries or drops it.
//!
//! The stream also keeps the broker's advisories of messages that were delivered as often as is allowed. Those stay in their
//! streams, so an advisory is read as a letter whose bytes lie there.

mod advisory;
mod letter;
mod operate;

pub(crate) use letter::bury;
pub use letter::{Held, Letter, Origin, held, letter, letters};
pub use operate::{Dropped, Retried, discard, retry};
