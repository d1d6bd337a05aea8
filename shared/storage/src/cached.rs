//! Bodies of the generation cache that are too large for a message.
//!
//! Unlike everything else here they lie under what was asked instead of under their content: whoever generates the same
//! anew replaces them, and each can be told from its name whether the cache still knows it.

use std::time::Duration;

use futures::TryStreamExt as _;
use object_store::path::Path as Key;
use object_store::{ObjectStore as _, ObjectStoreExt as _};
use tidemill_domain::{GenerationKey, GroupId};

use crate::{Error, Store};

const PREFIX: &str = "cache";

/// A body that lies in the object store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachedBody {
    /// The server group of its weights.
    pub group: GroupId,
    /// What it is known by.
    pub key: GenerationKey,
    /// Its size.
    pub bytes: u64,
    /// How long ago it was written, by the store's clock and ours.
    pub age: Duration,
}

/// The key of a generation's body in the object store.
#[must_use]
pub fn cached_body(group: &GroupId, key: &GenerationKey) -> String {
    format!("{PREFIX}/{group}/{key}")
}

impl Store {
    /// Every body of the generation cache, or those of one group.
    ///
    /// # Errors
    /// [`Error::Access`].
    pub async fn cached_bodies(&self, group: Option<&GroupId>) -> Result<Vec<CachedBody>, Error> {
        let prefix = group.map_or_else(|| PREFIX.to_owned(), |group| format!("{PREFIX}/{group}"));
        let listed = self
            .inner
            .list(Some(&Key::from(prefix.as_str())))
            .try_collect::<Vec<_>>()
            .await;
        let listed = listed.map_err(|source| Error::Access {
            action: "list",
            key: prefix,
            source,
        })?;
        let body = |object: object_store::ObjectMeta| {
            let mut parts = object.location.as_ref().rsplit('/');
            let key = parts.next()?.parse().ok()?;
            let group = parts.next()?.parse().ok()?;
            let age = std::time::SystemTime::now().duration_since(object.last_modified.into());
            Some(CachedBody {
                group,
                key,
                bytes: object.size,
                age: age.unwrap_or_default(),
            })
        };
        Ok(listed.into_iter().filter_map(body).collect())
    }

    /// Removes a body of the generation cache; one that is not there is fine.
    ///
    /// # Errors
    /// [`Error::Access`].
    pub async fn remove_cached_body(&self, group: &GroupId, key: &GenerationKey) -> Result<(), Error> {
        let key = cached_body(group, key);
        match self.inner.delete(&Key::from(key.as_str())).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(source) => Err(Error::Access {
                action: "remove",
                key,
                source,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Address;
    use tidemill_domain::Digest;

    #[tokio::test]
    async fn bodies_are_listed_by_group_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(Address::of_folder(folder.path())).unwrap();
        assert_eq!(store.cached_bodies(None).await.unwrap(), []);
        let groups = [b"a", b"b"].map(|name| GroupId::from_digest(&Digest::of(name)));
        let key: GenerationKey = "00112233445566778899aabbccddeeff".parse().unwrap();
        for group in &groups {
            store.put(&cached_body(group, &key), b"body".to_vec()).await.unwrap();
        }
        store.put("cache/strange", b"x".to_vec()).await.unwrap();
        assert_eq!(store.cached_bodies(None).await.unwrap().len(), 2);
        let found = store.cached_bodies(Some(&groups[1])).await.unwrap();
        assert_eq!((&found[0].group, found[0].key, found[0].bytes), (&groups[1], key, 4));
        store.remove_cached_body(&groups[1], &key).await.unwrap();
        store.remove_cached_body(&groups[1], &key).await.unwrap();
        assert_eq!(store.cached_bodies(Some(&groups[1])).await.unwrap(), []);
    }
}
