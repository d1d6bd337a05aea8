//! What the end-to-end tests share: a folder with a suite, and the command run on it.

mod command;
mod pipeline;
mod workbench;

pub use command::{Ran, tidemill};
pub use pipeline::{Pipeline, ROLES, Setup, limit_stream};
pub use workbench::{SUITE, Workbench, workspace};
