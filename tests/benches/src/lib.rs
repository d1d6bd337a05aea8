//! Nothing: this crate holds `benches/hot.rs`, which `make bench-hot` runs.
