//! tidemill-storage.
