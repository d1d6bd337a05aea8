//! Exit codes of the command: 0 done; 1 done, but an evaluation is invalid; 2 could not be done.

use std::process::ExitCode;

use crate::output;

/// How a command ended that could do what it was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Done {
    /// Everything counts.
    Valid,
    /// Done, but a result is invalid or a threshold failed.
    Invalid,
    /// What was given cannot be used, as has been said.
    Refused,
}

const INVALID: u8 = 1;
const IMPOSSIBLE: u8 = 2;

/// The exit code of a command; a failure is printed with its causes.
pub(crate) fn of(done: anyhow::Result<Done>) -> ExitCode {
    match done {
        Ok(Done::Valid) => ExitCode::SUCCESS,
        Ok(Done::Invalid) => ExitCode::from(INVALID),
        Ok(Done::Refused) => ExitCode::from(IMPOSSIBLE),
        Err(error) => {
            output::note(&format!("tidemill: {}", chain(&error)));
            ExitCode::from(IMPOSSIBLE)
        }
    }
}

/// An error with its causes in one line; a cause that its error already tells is left out.
fn chain(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1) {
        let cause = cause.to_string();
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// Help and version go to standard output with code 0, wrong usage to standard error with code 2.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    // A closed terminal is not worth a second error.
    drop(error.print());
    if error.use_stderr() {
        ExitCode::from(IMPOSSIBLE)
    } else {
        ExitCode::SUCCESS
    }
}
