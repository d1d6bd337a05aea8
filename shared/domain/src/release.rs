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
    /// The item may have been released before: whoever takes it looks for its completion first.
    pub again: bool,
    /// Whether an earlier generation may answer it.
    pub reuse: Reuse,
}
