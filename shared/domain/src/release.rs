//! What the dispatcher hands to generators.

use serde::{Deserialize, Serialize};

use crate::{Digest, ItemKey, Reuse};

/// One item released to a server group: keys only, about 150 bytes on the wire.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Release {
    /// What to generate.
    pub key: ItemKey,
    /// The manifest that holds its prompt and settings.
    pub manifest: Digest,
    /// The item may have been released before. Counted apart, and never relied on: a dispatcher that was suspended does not
    /// know, so generators look for the completion of every item.
    pub again: bool,
    /// Whether an earlier generation may answer it.
    pub reuse: Reuse,
    /// How many tokens the dispatcher expects the answer to have; 0 where it does not know.
    pub expected_tokens: u32,
    /// What items whose prompts begin with the same long text have in common; 0 where it is not known.
    pub prefix: u64,
}
