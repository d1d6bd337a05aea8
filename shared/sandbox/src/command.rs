//! Any command in a sandbox: what it prints and how it ends is what the caller compares.

use tokio::io::AsyncWriteExt;

use crate::channel::{Channel, Received};
use crate::check::over_time;
use crate::confined::{Confined, End};
use crate::host::{Host, Role};
use crate::value::Value;
use crate::{Fault, Limit, Limits, Verdict};

/// A command, the files that it finds in its folder, and its input.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Command {
    /// The program's absolute path in the sandbox, and its arguments.
    pub argv: Vec<String>,
    /// Names, without folders, and contents of files in the folder where it starts; all may be executed.
    pub files: Vec<(String, Vec<u8>)>,
    /// What it reads from its standard input.
    pub input: Vec<u8>,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// By itself, with this status.
    Exited(i32),
    /// By this signal.
    Signalled(i32),
    /// Over a limit.
    Over(Limit),
}

/// What a command did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ran {
    /// How it ended.
    pub ended: Ended,
    /// What it printed.
    pub printed: Vec<u8>,
    /// The beginning of what it printed to its standard error.
    pub errors: String,
}

impl Ran {
    /// Whether it printed the expected text and ended well; white space at the ends of lines and at the end of all does not count.
    #[must_use]
    pub fn compared(&self, expected: &str) -> Verdict {
        match self.ended {
            Ended::Over(limit) => Verdict::over(limit, "the program"),
            Ended::Signalled(signal) => Verdict::wrong(format!("the program was ended by signal {signal}")),
            Ended::Exited(0) if lines(&self.printed).eq(lines(expected.as_bytes())) => Verdict {
                is_right: true,
                reason: "printed what is expected".to_owned(),
                limit: None,
            },
            Ended::Exited(0) => Verdict::wrong(self.difference(expected)),
            Ended::Exited(code) => {
                let last: String = self
                    .errors
                    .trim_end()
                    .lines()
                    .last()
                    .unwrap_or_default()
                    .chars()
                    .take(200)
                    .collect();
                Verdict::wrong(format!("the program ended with status {code}: {last}"))
            }
        }
    }

    fn difference(&self, expected: &str) -> String {
        let mut wanted = lines(expected.as_bytes());
        let mut printed = lines(&self.printed);
        let show = |line: Option<&[u8]>| match line {
            Some(line) => format!("{:?}", String::from_utf8_lossy(line.get(..100).unwrap_or(line))),
            None => "the end".to_owned(),
        };
        let mut number = 1;
        loop {
            match (wanted.next(), printed.next()) {
                (wanted, printed) if wanted != printed => {
                    return format!("line {number} is {} where {} is expected", show(printed), show(wanted));
                }
                (None, _) => return "printed what is expected".to_owned(),
                _ => number += 1,
            }
        }
    }
}

/// Lines without white space at their ends, up to the last that has something else.
fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.trim_ascii_end()
        .split(|byte| *byte == b'\n')
        .map(<[u8]>::trim_ascii_end)
}

enum Stop {
    Refused(Fault),
    Gone(Vec<u8>),
    Over(Limit, Vec<u8>),
    Wall,
}

pub(crate) async fn run(host: &Host, command: &Command, limits: &Limits) -> Result<Ran, Fault> {
    if let Some((name, _)) = command
        .files
        .iter()
        .find(|(name, _)| name.contains('/') || name.is_empty())
    {
        return Err(Fault::Tests(format!("{name:?} is no name of a file in the folder")));
    }
    let files = command
        .files
        .iter()
        .map(|(name, content)| (name.clone(), Value::Bytes(content.clone())));
    let job = vec![
        ("argv", Value::texts(&command.argv)),
        ("files", Value::Dict(files.collect())),
    ];
    let mut confined = Confined::start(host, Role::Command, limits, job).await?;
    let stop = {
        let (channel, watch, child) = confined.parts();
        let ran = async {
            let stop = talk(channel, &command.input, limits.output_bytes).await;
            if matches!(stop, Stop::Gone(_)) {
                Confined::left(child).await;
            }
            stop
        };
        tokio::select! { biased;
            stop = ran => stop,
            limit = watch.over() => Stop::Over(limit, Vec::new()),
            () = tokio::time::sleep(limits.wall) => Stop::Wall,
        }
    };
    let end = confined.end(!matches!(stop, Stop::Gone(_))).await?;
    ran(stop, end, limits)
}

/// Gives the command its input and takes what it prints.
async fn talk(channel: &mut Channel, input: &[u8], most: u64) -> Stop {
    match channel.receive().await {
        Received::Frame(frame) if frame == b"L" => {}
        Received::Frame(frame) if frame.first() == Some(&b'E') => {
            let why = frame.get(1..).unwrap_or_default();
            return Stop::Refused(Fault::Tests(String::from_utf8_lossy(why).into_owned()));
        }
        _ => return Stop::Refused(Fault::SetUp("the launcher ended before the command".to_owned())),
    }
    let sink = channel.sink.take();
    let give = async {
        if let Some(mut sink) = sink
            && let Err(error) = sink.write_all(input).await
        {
            tracing::trace!(%error, "a command did not read its whole input");
        }
    };
    match tokio::join!(give, channel.rest(most)).1 {
        Ok((printed, false)) => Stop::Gone(printed),
        Ok((printed, true)) => Stop::Over(Limit::Output, printed),
        Err(error) => Stop::Refused(Fault::Host(format!("what the command prints cannot be read: {error}"))),
    }
}

fn ran(stop: Stop, end: End, limits: &Limits) -> Result<Ran, Fault> {
    use std::os::unix::process::ExitStatusExt;
    let (ended, printed) = match stop {
        Stop::Refused(fault) => return Err(fault),
        Stop::Wall => {
            over_time(limits, end.most.cpu, end.starved)?;
            (Ended::Over(Limit::Time), Vec::new())
        }
        Stop::Over(limit, printed) => (Ended::Over(limit), printed),
        Stop::Gone(printed) => match end.of_guest(limits, "the program")?.limit {
            Some(limit) => (Ended::Over(limit), printed),
            None => match end.status.and_then(|status| status.code()) {
                Some(code) if code > 128 => (Ended::Signalled(code - 128), printed),
                Some(code) => (Ended::Exited(code), printed),
                None => {
                    let signal = end.status.and_then(|status| status.signal());
                    return Err(Fault::Host(format!(
                        "the sandbox was ended from outside (signal {signal:?})"
                    )));
                }
            },
        },
    };
    Ok(Ran {
        ended,
        printed,
        errors: end.printed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(ended: Ended, printed: &str) -> Ran {
        Ran {
            ended,
            printed: printed.as_bytes().to_vec(),
            errors: "Traceback\nValueError: no\n".to_owned(),
        }
    }

    #[test]
    fn an_output_is_compared_line_by_line() {
        for (printed, expected, is_right) in [
            ("3\n", "3", true),
            ("3 \n4\n\n", "3\n4", true),
            ("", "\n", true),
            ("3\n4", "3", false),
            (" 3", "3", false),
            ("34", "3\n4", false),
            ("", "3", false),
        ] {
            let verdict = ran(Ended::Exited(0), printed).compared(expected);
            assert_eq!(
                verdict.is_right, is_right,
                "{printed:?} for {expected:?}: {}",
                verdict.reason
            );
        }
    }

    #[test]
    fn what_did_not_end_well_is_wrong_whatever_it_printed() {
        for (ended, reason) in [
            (Ended::Exited(1), "the program ended with status 1: ValueError: no"),
            (Ended::Signalled(11), "the program was ended by signal 11"),
            (Ended::Over(Limit::Memory), "the program went over its memory_limit"),
        ] {
            let verdict = ran(ended, "3").compared("3");
            assert!(!verdict.is_right);
            assert_eq!(verdict.reason, reason);
        }
        let verdict = ran(Ended::Exited(0), "3\n5\n").compared("3\n4");
        assert_eq!(verdict.reason, "line 2 is \"5\" where \"4\" is expected");
    }
}
