//! What the end-to-end tests share: a folder with a suite, the command run on it, and pipelines that are disturbed.

pub mod chaos;
mod command;
mod workbench;

pub use command::{Ran, tidemill};
pub use workbench::{SUITE, Workbench, workspace};
