//! Speaking the schema of another version, so that a rolling upgrade can be tested with one build.
//!
//! Compiled in by the cargo feature `version-shift` alone, which only the crate of the end-to-end tests enables; without it
//! nothing here can be reached. With it the environment variable `TIDEMILL_VERSION_SHIFT` makes a process
//!
//! - `newer`: write every type as the version after the one of this build, with a field at the end of the body that this build
//!   does not know, and read that as well as what this build reads;
//! - `older`: write and read what the version before knew, for the types that have one whose shape is kept.

/// Which version a process speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(
    not(feature = "version-shift"),
    allow(dead_code, reason = "chosen by the feature, and in unit tests")
)]
pub(crate) enum Shift {
    /// That of this build.
    None,
    /// The one before.
    Older,
    /// The one after.
    Newer,
}

/// The field that a newer version has at the end.
pub(crate) const NEWER_FIELD: [u8; 8] = *b"a field!";

/// What this process speaks.
#[cfg(not(feature = "version-shift"))]
#[inline]
pub(crate) const fn shift() -> Shift {
    Shift::None
}

/// What this process speaks, by its environment.
#[cfg(feature = "version-shift")]
pub(crate) fn shift() -> Shift {
    static SHIFT: std::sync::OnceLock<Shift> = std::sync::OnceLock::new();
    *SHIFT.get_or_init(|| match std::env::var("TIDEMILL_VERSION_SHIFT").as_deref() {
        Ok("newer") => Shift::Newer,
        Ok("older") => Shift::Older,
        _ => Shift::None,
    })
}
