//! tidemill-aggregator.
