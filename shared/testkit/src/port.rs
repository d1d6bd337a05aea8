//! Loopback ports for servers that go away and come back.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::net::{Ipv4Addr, TcpListener};

use anyhow::{Context, Result};

/// Below the range the kernel draws from for outgoing connections. From inside it, a client that keeps trying a port whose
/// server is down can be given that very port as its own and so connect to itself.
const CANDIDATES: std::ops::Range<u16> = 10_000..32_000;
const ATTEMPTS: usize = 64;

/// Binds a loopback port that is free now and that no outgoing connection will take.
///
/// # Errors
/// When none of 64 ports drawn at random could be bound.
pub(crate) fn listen() -> Result<TcpListener> {
    let draws = (0..ATTEMPTS).map(|_| draw());
    let mut bound = draws.filter_map(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok());
    bound
        .next()
        .with_context(|| format!("none of {ATTEMPTS} loopback ports could be bound"))
}

fn draw() -> u16 {
    // The standard library seeds this from the operating system: randomness without a dependency.
    let random = RandomState::new().build_hasher().finish();
    CANDIDATES.start + u16::try_from(random % u64::from(CANDIDATES.end - CANDIDATES.start)).unwrap_or(0)
}
