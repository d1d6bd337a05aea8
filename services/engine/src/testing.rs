//! What several unit tests need.

use std::path::{Path, PathBuf};

/// A sample checkpoint.
pub(crate) fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}
