//! tidemill-tasks.
