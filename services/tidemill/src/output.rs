//! Data goes to standard output, everything else to standard error.

use std::io::Write as _;

/// Prints a line of data. A reader that went away (`| head`) ends the command quietly.
pub(crate) fn data(line: &str) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout().lock();
    match writeln!(stdout, "{line}").and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => std::process::exit(0),
        written => Ok(written?),
    }
}

/// Prints a line for the person at the terminal.
pub(crate) fn note(line: &str) {
    // Nobody is there to be told when standard error is closed.
    drop(writeln!(std::io::stderr(), "{line}"));
}
