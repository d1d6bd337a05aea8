//! Objects whose names are no digests: written once, listed by folder, removed.

use futures::StreamExt as _;
use object_store::path::Path as Key;
use object_store::{ObjectStoreExt as _, PutMode, PutOptions, PutPayload};

use crate::{Error, Store};

impl Store {
    /// Writes an object unless there is one under this key. False when there is: nothing was written then.
    ///
    /// # Errors
    /// [`Error::Access`].
    pub async fn put_new(&self, key: &str, bytes: Vec<u8>) -> Result<bool, Error> {
        let options = PutOptions::from(PutMode::Create);
        match self
            .inner
            .put_opts(&Key::from(key), PutPayload::from(bytes), options)
            .await
        {
            Ok(_) => Ok(true),
            Err(object_store::Error::AlreadyExists { .. }) => Ok(false),
            Err(source) => Err(access("write", key, source)),
        }
    }

    /// Removes an object; one that is not there is removed already.
    ///
    /// # Errors
    /// [`Error::Access`].
    pub async fn delete(&self, key: &str) -> Result<(), Error> {
        match self.inner.delete(&Key::from(key)).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(source) => Err(access("remove", key, source)),
        }
    }

    /// The names of the folders directly below a folder, in order.
    ///
    /// # Errors
    /// [`Error::Access`].
    pub async fn folders(&self, folder: &str) -> Result<Vec<String>, Error> {
        let listed = self.inner.list_with_delimiter(Some(&Key::from(folder))).await;
        let listed = listed.map_err(|source| access("list", folder, source))?;
        let names = listed.common_prefixes.iter().filter_map(|prefix| prefix.parts().last());
        let mut names: Vec<String> = names.map(|name| name.as_ref().to_owned()).collect();
        names.sort();
        Ok(names)
    }

    /// Removes every object below a folder.
    ///
    /// # Errors
    /// [`Error::Access`]; what was removed before the failure stays removed.
    pub async fn delete_folder(&self, folder: &str) -> Result<(), Error> {
        let mut found = self.inner.list(Some(&Key::from(folder)));
        while let Some(object) = found.next().await {
            let object = object.map_err(|source| access("list", folder, source))?;
            self.delete(object.location.as_ref()).await?;
        }
        Ok(())
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
    use crate::{Address, Store};

    #[tokio::test]
    async fn the_first_write_of_a_key_stays_and_folders_come_and_go() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(Address::of_folder(folder.path())).unwrap();
        assert!(store.put_new("a/one/x", b"first".to_vec()).await.unwrap());
        assert!(!store.put_new("a/one/x", b"second".to_vec()).await.unwrap());
        assert_eq!(store.get("a/one/x").await.unwrap(), b"first");
        store.put("a/two/deep/y", b"y".to_vec()).await.unwrap();
        assert_eq!(store.folders("a").await.unwrap(), ["one", "two"]);
        store.delete_folder("a/two").await.unwrap();
        store.delete("a/two/deep/y").await.unwrap();
        assert_eq!(store.folders("a").await.unwrap(), ["one"]);
        assert!(store.folders("nothing").await.unwrap().is_empty());
    }
}
