//! tidemill-codec.
