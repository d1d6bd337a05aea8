//! Trains the tiny model.
fn main() {}
