//! tidemill-loader.
