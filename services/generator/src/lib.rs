//! tidemill-generator.
