//! tidemill-tests.
