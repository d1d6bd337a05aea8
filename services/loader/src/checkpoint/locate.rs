//! From a URI to a folder.

use std::path::{Path, PathBuf};

/// Why a URI names no folder here.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum LocateError {
    /// Another scheme.
    #[error(
        "checkpoint {uri}: only file:// addresses and paths can be loaded; copy or mount it, then announce the path"
    )]
    Scheme {
        /// The address.
        uri: String,
    },
    /// A relative path means another folder to each reader.
    #[error("checkpoint {uri}: the path must be absolute")]
    Relative {
        /// The address.
        uri: String,
    },
}

/// The folder that a checkpoint's URI names: `file:///path` or an absolute path.
///
/// # Errors
/// [`LocateError`].
pub fn locate(uri: &str) -> Result<PathBuf, LocateError> {
    let path = match uri.split_once("://") {
        Some(("file", path)) => decode(path),
        Some(_) => return Err(LocateError::Scheme { uri: uri.to_owned() }),
        None => uri.to_owned(),
    };
    if Path::new(&path).is_absolute() {
        Ok(PathBuf::from(path))
    } else {
        Err(LocateError::Relative { uri: uri.to_owned() })
    }
}

/// Percent-encoded bytes of a file URI; anything else stays as it is.
fn decode(path: &str) -> String {
    tidemill_streams::subject::name_of_token(path).unwrap_or_else(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_uris_and_absolute_paths_name_folders() {
        assert_eq!(locate("file:///a/step%20900").unwrap(), Path::new("/a/step 900"));
        assert_eq!(locate("/a/b").unwrap(), Path::new("/a/b"));
        assert!(matches!(locate("s3://bucket/step"), Err(LocateError::Scheme { .. })));
        assert!(matches!(locate("step-900"), Err(LocateError::Relative { .. })));
    }
}
