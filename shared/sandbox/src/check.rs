//! Tests of a Python program, run by a process that the program cannot reach.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::channel::{Channel, Received};
use crate::confined::{Confined, End};
use crate::host::{Host, Role};
use crate::value::{Value, described};
use crate::{Fault, Limit, Limits};

/// A program and its tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// Python source that nobody vouches for. It is `program`, not `__main__`.
    pub program: String,
    /// Trusted source that the tests may use, for instance helpers that the prompt shows; may be empty.
    pub prelude: String,
    /// Trusted source that asserts. Functions of the program are called in another process: arguments and answers are copied,
    /// and what is not plain data (numbers, text, bytes, lists, tuples, sets, dicts, ranges, iterators of these) does not pass.
    pub tests: String,
    /// Names of the program's functions that the tests call.
    pub entry_points: Vec<String>,
}

/// What tests say of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// All tests passed.
    pub is_right: bool,
    /// Why, for a person.
    pub reason: String,
    /// The limit that the program went over.
    pub limit: Option<Limit>,
}

impl Verdict {
    pub(crate) fn wrong(reason: impl Into<String>) -> Self {
        Self {
            is_right: false,
            reason: reason.into(),
            limit: None,
        }
    }

    pub(crate) fn over(limit: Limit, what: &str) -> Self {
        Self {
            limit: Some(limit),
            ..Self::wrong(format!("{what} went over its {limit}"))
        }
    }
}

/// Why a check stopped.
#[derive(Debug, PartialEq, Eq)]
enum Stop {
    /// The tests' process gave its word.
    Said(Vec<u8>),
    /// The program did not load: what it says of the exception.
    NotLoaded(Vec<u8>),
    /// The program's process closed its channel.
    ProgramGone,
    /// The program sent more than it may, or no frame.
    ProgramSent(&'static str, Option<Limit>),
    /// The tests' process closed its channel.
    TestsGone,
    ProgramOver(Limit),
    TestsOver(Limit),
    Wall,
}

/// Who has whose word: calls that went to the program, and answers that came. To be loaded is its first call.
#[derive(Debug, Default)]
struct Calls {
    made: AtomicU64,
    answered: AtomicU64,
}

impl Calls {
    fn is_the_programs_turn(&self) -> bool {
        self.made.load(Ordering::Relaxed) >= self.answered.load(Ordering::Relaxed)
    }

    /// The tests have something of the program's to work on.
    fn has_answered(&self) -> bool {
        self.answered.load(Ordering::Relaxed) > 1
    }
}

pub(crate) async fn check(host: &Host, check: &Check, limits: &Limits) -> Result<Verdict, Fault> {
    let program = vec![("program", Value::from(check.program.as_str()))];
    let tests = vec![
        ("prelude", Value::from(check.prelude.as_str())),
        ("tests", Value::from(check.tests.as_str())),
        ("entry_points", Value::texts(&check.entry_points)),
    ];
    let (mut program, mut tests) = tokio::try_join!(
        Confined::start(host, Role::Guest, limits, program),
        Confined::start(host, Role::Tester, limits, tests)
    )?;
    let calls = Calls::default();
    let stop = {
        let (to_program, program_watch, _) = program.parts();
        let (to_tests, tests_watch, _) = tests.parts();
        tokio::select! { biased;
            stop = talk(to_program, to_tests, &calls) => stop,
            limit = program_watch.over() => Stop::ProgramOver(limit),
            limit = tests_watch.over() => Stop::TestsOver(limit),
            () = tokio::time::sleep(limits.wall) => Stop::Wall,
        }
    };
    let (program, tests) = tokio::join!(
        program.end(stop != Stop::ProgramGone),
        tests.end(stop != Stop::TestsGone)
    );
    verdict(stop, &calls, &program?, &tests?, limits)
}

/// Carries calls from the tests to the program and answers back, until there is a reason to stop.
async fn talk(program: &mut Channel, tests: &mut Channel, calls: &Calls) -> Stop {
    match received(program.receive().await) {
        Ok(frame) if frame == b"L" => {}
        Ok(frame) => match frame.strip_prefix(b"E") {
            Some(error) => return not_loaded(error.to_vec(), tests).await,
            None => return Stop::ProgramSent("what is no answer", None),
        },
        Err(stop) => return stop,
    }
    calls.answered.fetch_add(1, Ordering::Relaxed);
    loop {
        let Received::Frame(frame) = tests.receive().await else {
            return Stop::TestsGone;
        };
        let Some(call) = frame.strip_prefix(b"C") else {
            return Stop::Said(frame);
        };
        calls.made.fetch_add(1, Ordering::Relaxed);
        program.send(call).await;
        match received(program.receive().await) {
            Ok(answer) => {
                calls.answered.fetch_add(1, Ordering::Relaxed);
                tests.send(&answer).await;
            }
            Err(stop) => return stop,
        }
    }
}

/// A program that lacks a module is no worse than its tests, where these lack it as well: they say so before their first call.
async fn not_loaded(error: Vec<u8>, tests: &mut Channel) -> Stop {
    if lacks_module(&error)
        && let Received::Frame(frame) = tests.receive().await
        && frame.starts_with(b"B")
    {
        return Stop::Said(frame);
    }
    Stop::NotLoaded(error)
}

fn lacks_module(error: &[u8]) -> bool {
    described(error).is_some_and(|said| said.starts_with("ModuleNotFoundError"))
}

fn received(received: Received) -> Result<Vec<u8>, Stop> {
    match received {
        Received::Frame(frame) => Ok(frame),
        Received::Gone => Err(Stop::ProgramGone),
        Received::TooLong => Err(Stop::ProgramSent("more than a value may be long", Some(Limit::Output))),
        Received::Nonsense => Err(Stop::ProgramSent("what is no answer", None)),
    }
}

/// What a stop means: pure.
fn verdict(stop: Stop, calls: &Calls, program: &End, tests: &End, limits: &Limits) -> Result<Verdict, Fault> {
    match stop {
        Stop::Said(frame) => said(&frame),
        Stop::NotLoaded(error) => {
            let more = if lacks_module(&error) { NOT_INSTALLED } else { "" };
            let error = described(&error).unwrap_or_else(|| "an exception that it does not describe".to_owned());
            Ok(Verdict::wrong(format!("the program does not load: {error}{more}")))
        }
        Stop::ProgramSent(what, limit) => Ok(Verdict {
            limit,
            ..Verdict::wrong(format!("the program sent {what}"))
        }),
        Stop::ProgramOver(limit) => Ok(Verdict::over(limit, "the program")),
        // The tests work on the program's answers, and end for right ones.
        Stop::TestsOver(limit) if calls.has_answered() => Ok(Verdict::over(limit, TESTS)),
        Stop::TestsOver(limit) => Err(over_before_a_call(limit)),
        Stop::ProgramGone => program.of_guest(limits, "the program"),
        Stop::TestsGone => match tests.of_guest(limits, TESTS)? {
            Verdict { limit: Some(limit), .. } if !calls.has_answered() => Err(over_before_a_call(limit)),
            over @ Verdict { limit: Some(_), .. } => Ok(over),
            other => Err(Fault::Host(format!("the tests' process is gone: {}", other.reason))),
        },
        Stop::Wall => {
            let starved = program.starved + tests.starved;
            let cpu = program.most.cpu + tests.most.cpu;
            over_time(limits, cpu, starved)?;
            if calls.is_the_programs_turn() {
                Ok(Verdict::over(Limit::Time, "the program"))
            } else if calls.has_answered() {
                Ok(Verdict::over(Limit::Time, TESTS))
            } else {
                Err(Fault::Tests(format!(
                    "the tests called nothing within {:?}",
                    limits.wall
                )))
            }
        }
    }
}

fn over_before_a_call(limit: Limit) -> Fault {
    Fault::Tests(format!("the tests went over their {limit} and called nothing"))
}

const NOT_INSTALLED: &str = "; the module is not installed where programs run";

const TESTS: &str = "the tests, on the program's answers,";

/// What it means that the time is over: the limit is the guest's fault, unless the host kept it from running for a quarter.
///
/// # Errors
/// [`Fault::Wall`] when the host did not run it.
pub(crate) fn over_time(limits: &Limits, cpu: Duration, starved: Duration) -> Result<(), Fault> {
    if starved >= limits.wall / 4 {
        return Err(Fault::Wall {
            wall: limits.wall,
            cpu,
            starved,
        });
    }
    Ok(())
}

fn said(frame: &[u8]) -> Result<Verdict, Fault> {
    let text = |said: &[u8]| String::from_utf8_lossy(said).into_owned();
    match frame.split_first() {
        Some((b'P', said)) => Ok(Verdict {
            is_right: true,
            reason: text(said),
            limit: None,
        }),
        Some((b'F', said)) => Ok(Verdict::wrong(text(said))),
        Some((b'B', said)) => Err(Fault::Tests(text(said))),
        _ => Err(Fault::Host("the tests' process said nothing that is known".to_owned())),
    }
}

impl End {
    /// What it means that a guest ended by itself, which is never to be right.
    ///
    /// # Errors
    /// [`Fault::Host`] when the host ended it.
    pub(crate) fn of_guest(&self, limits: &Limits, what: &str) -> Result<Verdict, Fault> {
        use std::os::unix::process::ExitStatusExt;
        if self.was_killed_for_memory {
            return Ok(Verdict::over(Limit::Memory, what));
        }
        let Some(status) = self.status else {
            return Ok(Verdict::wrong(format!("{what} closed its channel")));
        };
        let signal = status.code().filter(|code| *code > 128).map(|code| code - 128);
        match (status.code(), signal) {
            (None, _) => Err(Fault::Host(format!(
                "the sandbox was ended from outside (signal {:?})",
                status.signal()
            ))),
            (_, Some(libc::SIGXCPU)) => Ok(Verdict::over(Limit::Cpu, what)),
            (_, Some(libc::SIGXFSZ)) => Ok(Verdict::over(Limit::Files, what)),
            (_, Some(libc::SIGKILL)) if self.has_used_its_time(limits) => Ok(Verdict::over(Limit::Cpu, what)),
            (_, Some(libc::SIGKILL)) if self.is_host_short_of_memory => {
                Err(Fault::Host("the host killed processes for want of memory".to_owned()))
            }
            (_, Some(signal)) => Ok(Verdict::wrong(format!(
                "{what} was ended by signal {signal}{}",
                self.last_line()
            ))),
            (Some(code), None) => Ok(Verdict::wrong(format!(
                "{what} ended with status {code} before its time{}",
                self.last_line()
            ))),
        }
    }

    /// The kernel kills what goes on after the signal that its time is over; a look comes a little before.
    fn has_used_its_time(&self, limits: &Limits) -> bool {
        self.most.cpu + Duration::from_millis(200) >= Duration::from_secs(limits.cpu_seconds())
    }

    fn last_line(&self) -> String {
        let last = self.printed.trim_end().lines().last().unwrap_or_default();
        let short: String = last.chars().take(200).collect();
        if short.is_empty() {
            short
        } else {
            format!(", last printing {short:?}")
        }
    }
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
