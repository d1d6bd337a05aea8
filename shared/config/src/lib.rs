//! tidemill-config.
