use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use super::*;
use crate::tree::Usage;

fn end(status: Option<i32>) -> End {
    End {
        status: status.map(ExitStatus::from_raw),
        printed: "something\nlast\n".to_owned(),
        most: Usage::default(),
        starved: Duration::ZERO,
        was_killed_for_memory: false,
        is_host_short_of_memory: false,
    }
}

/// The raw status of a process that exits with this code.
fn exit(code: i32) -> Option<i32> {
    Some(code << 8)
}

/// What was asked of the program and answered, with its being loaded.
fn calls(made: u64, answered: u64) -> Calls {
    Calls {
        made: made.into(),
        answered: answered.into(),
    }
}

fn stopped(stop: Stop, program: &End) -> Result<Verdict, Fault> {
    verdict(stop, &calls(0, 1), program, &end(exit(0)), &Limits::default())
}

#[test]
fn only_the_word_of_the_tests_makes_a_program_right() {
    assert!(stopped(Stop::Said(b"Ppassed".to_vec()), &end(None)).unwrap().is_right);
    for status in [exit(0), exit(1), exit(137), exit(139), None] {
        assert!(
            !stopped(Stop::ProgramGone, &end(status)).unwrap().is_right,
            "{status:?}"
        );
    }
    for said in [&b""[..], b"X", b"V"] {
        assert!(stopped(Stop::Said(said.to_vec()), &end(None)).is_err(), "{said:?}");
    }
}

#[test]
fn a_limit_is_wrong_with_its_reason() {
    let limit = |end: &End| stopped(Stop::ProgramGone, end).unwrap().limit;
    assert_eq!(limit(&end(exit(128 + libc::SIGXCPU))), Some(Limit::Cpu));
    assert_eq!(limit(&end(exit(128 + libc::SIGXFSZ))), Some(Limit::Files));
    assert_eq!(limit(&end(exit(128 + libc::SIGKILL))), None, "it killed itself");
    let mut busy = end(exit(128 + libc::SIGKILL));
    busy.most.cpu = Duration::from_secs(10);
    assert_eq!(
        limit(&busy),
        Some(Limit::Cpu),
        "the signal was caught, and then came the other"
    );
    let mut large = end(exit(128 + libc::SIGKILL));
    large.was_killed_for_memory = true;
    assert_eq!(limit(&large), Some(Limit::Memory));
    let over = stopped(Stop::ProgramOver(Limit::Memory), &end(None)).unwrap();
    assert_eq!((over.is_right, over.limit), (false, Some(Limit::Memory)));
    assert_eq!(over.reason, "the program went over its memory_limit");
}

#[test]
fn what_the_host_did_says_nothing_of_the_program() {
    let mut starved = end(exit(128 + libc::SIGKILL));
    starved.is_host_short_of_memory = true;
    assert!(stopped(Stop::ProgramGone, &starved).unwrap_err().is_retryable());
    let killed = end(Some(libc::SIGKILL));
    assert!(matches!(stopped(Stop::ProgramGone, &killed), Err(Fault::Host(_))));
    let gone = verdict(
        Stop::TestsGone,
        &calls(1, 1),
        &end(None),
        &end(exit(3)),
        &Limits::default(),
    );
    assert!(matches!(gone, Err(Fault::Host(_))), "{gone:?}");
}

#[test]
fn tests_that_cannot_run_are_no_verdict_and_are_not_tried_again() {
    let broken = stopped(Stop::Said(b"Bthe tests do not load".to_vec()), &end(None)).unwrap_err();
    assert!(!broken.is_retryable());
    assert_eq!(broken.to_string(), "run the tests: the tests do not load");
}

#[test]
fn a_time_limit_is_the_programs_unless_the_host_did_not_run_it() {
    let wall = |calls: &Calls, program: u64, tests: u64| {
        let starved = |seconds| End {
            starved: Duration::from_secs(seconds),
            ..end(None)
        };
        verdict(
            Stop::Wall,
            calls,
            &starved(program),
            &starved(tests),
            &Limits::default(),
        )
    };
    for (made, answered) in [(0, 0), (1, 1), (7, 7)] {
        let over = wall(&calls(made, answered), 10, 4).unwrap();
        assert_eq!((over.is_right, over.limit), (false, Some(Limit::Time)));
        assert_eq!(over.reason, "the program went over its time_limit");
        for (program, tests) in [(15, 0), (60, 0), (8, 8)] {
            let fault = wall(&calls(made, answered), program, tests).unwrap_err();
            assert!(fault.is_retryable() && matches!(fault, Fault::Wall { .. }), "{fault}");
        }
    }
    let tests = wall(&calls(3, 4), 0, 0).unwrap();
    assert_eq!(
        tests.reason,
        "the tests, on the program's answers, went over its time_limit"
    );
    let nothing = wall(&calls(0, 1), 0, 0).unwrap_err();
    assert!(
        !nothing.is_retryable() && nothing.to_string().contains("called nothing"),
        "{nothing}"
    );
}

#[test]
fn tests_that_take_too_long_without_the_program_are_no_verdict() {
    let over = |calls: &Calls| {
        verdict(
            Stop::TestsOver(Limit::Cpu),
            calls,
            &end(None),
            &end(None),
            &Limits::default(),
        )
    };
    assert!(over(&calls(0, 1)).is_err_and(|fault| !fault.is_retryable()));
    assert_eq!(over(&calls(1, 2)).unwrap().limit, Some(Limit::Cpu));
    let ended_by = |signal: i32, calls: &Calls| {
        let tests = end(exit(128 + signal));
        verdict(Stop::TestsGone, calls, &end(None), &tests, &Limits::default())
    };
    let before = ended_by(libc::SIGXCPU, &calls(0, 1)).unwrap_err();
    assert!(
        !before.is_retryable() && before.to_string().contains("called nothing"),
        "{before}"
    );
    assert_eq!(ended_by(libc::SIGXCPU, &calls(1, 2)).unwrap().limit, Some(Limit::Cpu));
}

#[test]
fn a_module_that_is_not_installed_is_named_so() {
    let not_loaded = |error: &[u8]| stopped(Stop::NotLoaded(error.to_vec()), &end(None)).unwrap().reason;
    let lacking = not_loaded(b"t4;s13;ModuleNotFoundErrorl0;s4;no xi1;");
    assert_eq!(
        lacking,
        "the program does not load: ModuleNotFoundError: no x (line 1 of the program); the module is not installed where programs run"
    );
    assert!(!not_loaded(b"t4;sa;ValueErrorl0;s4;no xi1;").contains("installed"));
}
