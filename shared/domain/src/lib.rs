//! tidemill-domain.
