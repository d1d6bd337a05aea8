//! What the end-to-end tests share: a folder with a suite, and the command run on it.

mod command;
mod workbench;

pub use command::{Ran, tidemill};
pub use workbench::{SUITE, Workbench, workspace};
