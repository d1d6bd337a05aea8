//! Error bars.
