//! One process of a program: a line in, a line out, and what it says on the side in the log.

use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

use super::mark::{self, Mark};
use crate::answer::shortened;

/// The longest line that is read: an answer is a small message.
const MAX_LINE_BYTES: u64 = 1 << 20;
/// The longest line that is logged.
const MAX_LOGGED_BYTES: usize = 1_000;
/// The lines of a process that are logged; the rest is read and dropped.
const MAX_LOGGED_LINES: u32 = 100;

/// A running process, with a group of its own. The group, and what left it, is ended when this is dropped.
#[derive(Debug)]
pub(crate) struct Process {
    mark: Mark,
    program: String,
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    errors: Errors,
}

impl Process {
    /// Starts a program.
    pub(crate) fn start(command: &[String]) -> Result<Self, String> {
        let (program, arguments) = command.split_first().ok_or("names no program")?;
        let mark = Mark::new();
        let mut child = Command::new(program)
            .args(arguments)
            .env(mark::VARIABLE, mark.value())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("could not be started: {error}"))?;
        let pipes = child.stdin.take().zip(child.stdout.take()).zip(child.stderr.take());
        let ((input, output), errors) = pipes.ok_or("has no pipes")?;
        Ok(Self {
            mark,
            program: program.clone(),
            child,
            input,
            output: BufReader::new(output),
            errors: Errors {
                lines: BufReader::new(errors),
                logged: 0,
                is_open: true,
            },
        })
    }

    /// Writes a line and reads one.
    ///
    /// # Cancel safety
    /// None: a process that was not waited for is dropped.
    pub(crate) async fn exchange(&mut self, line: &str) -> Result<String, String> {
        let Self {
            program,
            child,
            input,
            output,
            errors,
            ..
        } = self;
        let talk = async {
            // Both at once: it may answer before it has read all.
            tokio::try_join!(write(input, line), read_line(output)).map(|((), said)| said)
        };
        tokio::pin!(talk);
        let said = loop {
            tokio::select! { biased;
                said = &mut talk => break said,
                () = errors.log_next(program), if errors.is_open => {}
            }
        };
        match said {
            Ok(said) => Ok(said),
            Err(error) => Err(match child.try_wait() {
                Ok(Some(status)) => format!("ended with {status}"),
                _ => error,
            }),
        }
    }
}

impl Drop for Process {
    /// Ends also what it started.
    fn drop(&mut self) {
        let group = self
            .child
            .id()
            .and_then(|id| i32::try_from(id).ok())
            .and_then(Pid::from_raw);
        if let Some(group) = group
            && let Err(error) = kill_process_group(group, Signal::KILL)
        {
            tracing::debug!(%error, program = self.program, "a grading program had ended already");
        }
        self.mark.end_all();
    }
}

async fn write(input: &mut ChildStdin, line: &str) -> Result<(), String> {
    let written = async {
        input.write_all(line.as_bytes()).await?;
        input.flush().await
    };
    written
        .await
        .map_err(|error| format!("did not take what was asked: {error}"))
}

async fn read_line(output: &mut BufReader<ChildStdout>) -> Result<String, String> {
    let mut line = Vec::new();
    let read = output.take(MAX_LINE_BYTES).read_until(b'\n', &mut line).await;
    read.map_err(|error| format!("cannot be read: {error}"))?;
    match line.pop() {
        Some(b'\n') => String::from_utf8(line).map_err(|_| "answered what is not UTF-8".to_owned()),
        Some(_) if line.len() as u64 + 1 == MAX_LINE_BYTES => Err(format!("answered more than {MAX_LINE_BYTES} bytes")),
        _ => Err("ended without an answer".to_owned()),
    }
}

#[derive(Debug)]
struct Errors {
    lines: BufReader<ChildStderr>,
    logged: u32,
    is_open: bool,
}

impl Errors {
    /// Logs the next line.
    ///
    /// # Cancel safety
    /// The beginning of a line may be lost.
    async fn log_next(&mut self, program: &str) {
        let mut line = Vec::new();
        let read = (&mut self.lines)
            .take(MAX_LINE_BYTES)
            .read_until(b'\n', &mut line)
            .await;
        if !matches!(read, Ok(length) if length > 0) {
            self.is_open = false;
            return;
        }
        if self.logged < MAX_LOGGED_LINES {
            self.logged += 1;
            let line = String::from_utf8_lossy(&line);
            tracing::warn!(
                program,
                said = shortened(line.trim_end(), MAX_LOGGED_BYTES),
                "a grading program wrote to its log"
            );
        }
    }
}
