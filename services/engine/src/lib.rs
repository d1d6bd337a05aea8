//! tidemill-engine.
