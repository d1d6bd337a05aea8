//! Runs programs that nobody vouches for, and says whether they do what tests ask, without believing them.
//!
//! [`Sandbox::open`] looks what the host offers, compares from inside a sandbox what is there with what should be, and runs a
//! right and a wrong program at the concurrency of later; where any of that fails there is no sandbox, and nothing is run.
//! [`Sandbox::check`] runs Python tests against a Python program: the tests run in a process of their own and get plain
//! values alone from the program's, so a program cannot give itself a verdict. [`Sandbox::run`] runs any command.
//!
//! It contains by bubblewrap (namespaces), seccomp, Landlock, resource limits, a watch over the whole tree of processes, and
//! control groups where a directory of them is given. It does not judge whether tests are good ones, and keeps no guest
//! between runs. What is a [`Fault`] says nothing of the program.

mod bubblewrap;
mod cgroup;
mod channel;
mod check;
mod command;
mod confined;
mod error;
mod host;
mod level;
mod limits;
mod probe;
mod sandbox;
mod seccomp;
mod selftest;
mod tree;
mod value;
mod watch;

pub use check::{Check, Verdict};
pub use command::{Command, Ended, Ran};
pub use error::{Fault, Unavailable};
pub use level::Level;
pub use limits::{Limit, Limits};
pub use sandbox::{Sandbox, Settings};
