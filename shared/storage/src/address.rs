//! Addresses of object stores.

use std::path::Path;
use std::sync::Arc;

use object_store::ObjectStore;
use object_store::aws::AmazonS3Builder;
use object_store::local::LocalFileSystem;
use object_store::path::Path as Key;
use object_store::prefix::PrefixStore;

use crate::Error;

/// An address as configured: `file:///path` or `s3://bucket/prefix`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address(String);

impl Address {
    /// The store in a folder of this machine.
    #[must_use]
    pub fn of_folder(folder: &Path) -> Self {
        Self(format!("file://{}", folder.display()))
    }

    /// Takes a configured address; it is checked when the store is opened.
    #[must_use]
    pub fn parse(address: &str) -> Self {
        Self(address.trim_end_matches('/').to_owned())
    }

    /// The address as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn open(&self) -> Result<Arc<dyn ObjectStore>, Error> {
        let invalid = |detail: String| Error::Address {
            address: self.0.clone(),
            detail,
        };
        if let Some(folder) = self.0.strip_prefix("file://") {
            std::fs::create_dir_all(folder).map_err(|error| invalid(format!(" ({error})")))?;
            let store = LocalFileSystem::new_with_prefix(folder).map_err(|error| invalid(format!(" ({error})")))?;
            return Ok(Arc::new(store.with_automatic_cleanup(true)));
        }
        let url = url::Url::parse(&self.0).map_err(|error| invalid(format!(" ({error})")))?;
        if url.scheme() != "s3" {
            return Err(invalid(String::new()));
        }
        // Credentials and endpoint come from the usual AWS_* variables. A provider may be installed already.
        drop(rustls::crypto::ring::default_provider().install_default());
        let store = AmazonS3Builder::from_env()
            .with_url(url.as_str())
            .build()
            .map_err(|error| invalid(format!(" ({error})")))?;
        Ok(Arc::new(PrefixStore::new(store, Key::from(url.path()))))
    }
}
