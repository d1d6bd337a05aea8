//! Bodies that were checked in: where they lie, and which there are.

use std::pin::Pin;

use futures::{Stream, StreamExt as _, TryStreamExt as _};
use object_store::path::Path as Key;
use tidemill_domain::{Digest, EvaluationId, ItemKey, Timestamp};

use crate::{Error, Store};

const FOLDER: &str = "claims";

/// A body that was checked in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The item whose completion it is.
    pub item: ItemKey,
    /// Its key in the object store, which the message that claims it names.
    pub key: String,
    /// When it was written.
    pub written: Timestamp,
    /// Its size.
    pub bytes: u64,
}

pub(crate) fn key(item: &ItemKey, digest: &Digest) -> String {
    let ItemKey {
        evaluation,
        benchmark,
        item,
        sample,
    } = item;
    format!("{FOLDER}/{evaluation}/{benchmark}.{item}.{sample}/{}", digest.hex())
}

/// The item of a body's key; `None` for what was not written by [`Store::check_in`] of this version.
fn item_of(key: &str) -> Option<ItemKey> {
    let mut parts = key.split('/');
    let (FOLDER, evaluation, ordinals, _, None) =
        (parts.next()?, parts.next()?, parts.next()?, parts.next()?, parts.next())
    else {
        return None;
    };
    let mut ordinals = ordinals.split('.').map(str::parse);
    Some(ItemKey {
        evaluation: evaluation.parse().ok()?,
        benchmark: ordinals.next()?.ok()?,
        item: ordinals.next()?.ok()?,
        sample: ordinals.next()?.ok()?,
    })
}

impl Store {
    /// The evaluations that have bodies here.
    ///
    /// # Errors
    /// [`Error::Access`].
    pub async fn claimed_evaluations(&self) -> Result<Vec<EvaluationId>, Error> {
        let listed = self.inner.list_with_delimiter(Some(&Key::from(FOLDER))).await;
        let folders = listed.map_err(|source| access("list", FOLDER, source))?.common_prefixes;
        let named = folders.iter().filter_map(|folder| folder.filename()?.parse().ok());
        Ok(named.collect())
    }

    /// The bodies of an evaluation, as the store lists them: a page at a time, however many there are.
    pub fn claims(&self, evaluation: &EvaluationId) -> Pin<Box<dyn Stream<Item = Result<Claim, Error>> + Send>> {
        let folder = format!("{FOLDER}/{evaluation}");
        let listed = self.inner.list(Some(&Key::from(folder.as_str())));
        let claims = listed
            .map_err(move |source| access("list", &folder, source))
            .try_filter_map(|object| async move {
                let key = object.location.to_string();
                Ok(item_of(&key).map(|item| Claim {
                    item,
                    key,
                    written: Timestamp(object.last_modified.timestamp_micros()),
                    bytes: object.size,
                }))
            });
        claims.boxed()
    }
}

fn access(action: &'static str, key: &str, source: object_store::Error) -> Error {
    Error::Access {
        action,
        key: key.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Address;

    #[tokio::test]
    async fn bodies_are_listed_by_their_items_until_they_are_deleted() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(Address::of_folder(folder.path())).unwrap();
        let item = ItemKey {
            evaluation: EvaluationId::from_digest(&Digest::of(b"e")),
            benchmark: 1,
            item: 70_000,
            sample: 2,
        };
        assert!(store.claimed_evaluations().await.unwrap().is_empty());
        for body in [b"one", b"two"] {
            store.put(&key(&item, &Digest::of(body)), body.to_vec()).await.unwrap();
        }
        store
            .put(&format!("claims/{}/odd", item.evaluation), Vec::new())
            .await
            .unwrap();
        assert_eq!(
            store.claimed_evaluations().await.unwrap(),
            std::slice::from_ref(&item.evaluation)
        );
        let claims: Vec<Claim> = store.claims(&item.evaluation).try_collect().await.unwrap();
        assert_eq!(claims.len(), 2);
        assert!(claims.iter().all(|claim| claim.item == item && claim.bytes == 3));
        for claim in &claims {
            store.delete(&claim.key).await.unwrap();
            store.delete(&claim.key).await.unwrap();
        }
        assert_eq!(store.claims(&item.evaluation).count().await, 0);
    }
}
