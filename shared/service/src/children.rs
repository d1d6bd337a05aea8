//! Child processes that do not outlive this one.
//!
//! A child asks the kernel for a signal at its parent's death, and "parent" means the thread that started it. Threads of
//! the runtime come and go, so children are started by one thread that lives as long as the process.

use std::io;
use std::sync::OnceLock;
use std::sync::mpsc::{self, SyncSender};

use tokio::process::{Child, Command};
use tokio::runtime::Handle;

struct Request {
    command: Command,
    runtime: Handle,
    answer: SyncSender<io::Result<Child>>,
}

/// Starts a child from the thread that lives as long as this process.
///
/// # Errors
/// When the program cannot be started, or there is no runtime here.
pub fn spawn(command: Command) -> io::Result<Child> {
    static STARTER: OnceLock<io::Result<SyncSender<Request>>> = OnceLock::new();
    let starter = STARTER
        .get_or_init(start_thread)
        .as_ref()
        .map_err(|error| io::Error::other(error.to_string()))?;
    let runtime = Handle::try_current().map_err(io::Error::other)?;
    let (answer, answered) = mpsc::sync_channel(1);
    starter
        .send(Request {
            command,
            runtime,
            answer,
        })
        .map_err(|_| io::Error::other("the starting thread ended"))?;
    answered
        .recv()
        .map_err(|_| io::Error::other("the starting thread ended"))?
}

fn start_thread() -> io::Result<SyncSender<Request>> {
    let (sender, requests) = mpsc::sync_channel::<Request>(1);
    std::thread::Builder::new().name("children".to_owned()).spawn(move || {
        for mut request in requests {
            let _runtime = request.runtime.enter();
            // Whoever asked may be gone; the child is then killed with its handle.
            drop(request.answer.send(request.command.spawn()));
        }
    })?;
    Ok(sender)
}
