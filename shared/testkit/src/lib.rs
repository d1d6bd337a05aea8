//! tidemill-testkit.
