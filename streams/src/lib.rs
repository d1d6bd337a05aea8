//! tidemill-streams.
