//! tidemill-telemetry.
