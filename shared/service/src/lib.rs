//! tidemill-service.
