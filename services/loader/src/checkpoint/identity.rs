//! The identity of weights: their content.

use std::path::Path;

use tidemill_domain::Digest;

use super::Complete;

/// Digests every file of a checkpoint with its name. A step that comes back with other bytes has another digest, and a copy
/// elsewhere has the same. Reads all weights: call it on a blocking thread.
///
/// # Errors
/// When a file cannot be read any more.
pub fn digest(checkpoint: &Complete) -> std::io::Result<Digest> {
    let mut parts = Vec::with_capacity(2 * checkpoint.files.len());
    for file in &checkpoint.files {
        parts.push(file.as_os_str().as_encoded_bytes().to_vec());
        parts.push(hash(&checkpoint.folder.join(file))?.as_bytes().to_vec());
    }
    Ok(Digest::of_parts(parts.iter().map(Vec::as_slice)))
}

fn hash(path: &Path) -> std::io::Result<blake3::Hash> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_mmap_rayon(path)?;
    Ok(hasher.finalize())
}
