//! tidemill-inference.
