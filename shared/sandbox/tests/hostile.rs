//! Programs that do what programs should not, in the sandbox of this machine.
//!
//! There is no way round a host without namespaces: these tests then fail and say what to install.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may fail this way"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use tidemill_sandbox::{Check, Command, Ended, Fault, Level, Limit, Limits, Sandbox, Settings, Verdict};
use tokio::task::JoinSet;

mod crossing;

const LIMITS: Limits = Limits {
    wall: Duration::from_secs(60),
    cpu: Duration::from_secs(1),
    memory_bytes: 256 << 20,
    processes: 16,
    file_bytes: 8 << 20,
    disk_bytes: 24 << 20,
    files: 1000,
    output_bytes: 1 << 20,
};

async fn sandbox() -> Sandbox {
    match Sandbox::open(&Settings::default()).await {
        Ok(sandbox) => sandbox,
        Err(unavailable) => panic!("{unavailable}"),
    }
}

fn check(program: &str, tests: &str) -> Check {
    Check {
        program: program.to_owned(),
        prelude: String::new(),
        tests: tests.to_owned(),
        entry_points: vec!["f".to_owned()],
    }
}

const SQUARES: &str = "def f(x):\n    return x * x\n";
const OF_SQUARES: &str = "assert f(3) == 9\nassert f(-2) == 4\n";

/// What is expected of a program that the tests of squares are run on.
enum Expected {
    Right,
    /// Wrong, with this in the reason.
    Wrong(&'static str),
    /// Wrong by a limit.
    Over(Limit),
    /// Wrong, by whichever of several bounds comes first.
    AnyWrong,
}
use Expected::{AnyWrong, Over, Right, Wrong};

fn judge(name: &str, expected: &Expected, verdict: Result<Verdict, Fault>) -> Result<(), String> {
    let verdict = verdict.map_err(|fault| format!("{name}: {fault}"))?;
    let is_as_expected = match expected {
        Right => verdict.is_right,
        Wrong(why) => !verdict.is_right && verdict.reason.contains(why),
        Over(limit) => !verdict.is_right && verdict.limit == Some(*limit),
        AnyWrong => !verdict.is_right,
    };
    is_as_expected
        .then_some(())
        .ok_or_else(|| format!("{name}: {verdict:?}"))
}

/// Runs each program, and a harmless one after each, as many at a time as the sandbox takes.
async fn all_are(rows: Vec<(&'static str, String, Expected)>) {
    let sandbox = sandbox().await;
    let mut runs = JoinSet::new();
    for (name, program, expected) in rows {
        for (name, program, expected) in [(name, program, expected), ("the next", SQUARES.to_owned(), Right)] {
            let sandbox = sandbox.clone();
            runs.spawn(async move {
                let verdict = sandbox.check(&check(&program, OF_SQUARES), &LIMITS).await;
                judge(name, &expected, verdict)
            });
        }
    }
    let results = runs.join_all().await;
    let faults: Vec<String> = results.into_iter().filter_map(Result::err).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// A program that first does something, and then is right.
fn after(doing: &str) -> String {
    format!("{doing}\n{SQUARES}")
}

#[tokio::test]
async fn programs_that_use_too_much_are_wrong_and_harm_nobody() {
    let in_function = |doing: &str| format!("def f(x):\n    {doing}\n    return x * x\n");
    all_are(vec![
        ("loops when loaded", after("while True: pass"), Over(Limit::Cpu)),
        ("loops when called", in_function("while True: pass"), Over(Limit::Cpu)),
        (
            "loops and ignores the signal",
            after("import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass"),
            Over(Limit::Cpu),
        ),
        (
            "swallows every exception",
            after("while True:\n    try:\n        while True: pass\n    except BaseException: pass"),
            Over(Limit::Cpu),
        ),
        (
            "forks for ever",
            after("import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"),
            Over(Limit::Cpu),
        ),
        (
            "loops in children of which the kernel keeps no account",
            in_function(
                "import os, signal, time\n    signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n    while True:\n        \
                 if os.fork() == 0:\n            end = time.process_time() + 0.015\n            \
                 while time.process_time() < end: pass\n            os._exit(0)\n        \
                 try: os.wait()\n        except ChildProcessError: pass",
            ),
            Over(Limit::Cpu),
        ),
        (
            "starts threads for ever",
            after("import threading, time\nwhile True: threading.Thread(target=time.sleep, args=(100,)).start()"),
            Wrong("can't start new thread"),
        ),
        ("allocates 64 GB", after("x = bytearray(64 << 30)"), Wrong("MemoryError")),
        (
            "allocates in small parts",
            after("x = []\nwhile True: x.append(bytearray(b'1' * (1 << 20)))"),
            Over(Limit::Memory),
        ),
        (
            "allocates in many processes",
            after(
                "import os, time\nfor _ in range(8):\n    if os.fork() == 0:\n        x = b'1' * (100 << 20)\n        time.sleep(100)\n\
                 time.sleep(100)",
            ),
            Over(Limit::Memory),
        ),
        (
            "writes 1 GB into one file",
            after("with open('/tmp/x', 'wb') as file:\n    for _ in range(1024): file.write(bytes(1 << 20))"),
            Wrong("File too large"),
        ),
        (
            "writes 1 GB into many files",
            after("for i in range(1024):\n    with open('/tmp/%d' % i, 'wb') as file: file.write(bytes(1 << 20))"),
            Wrong("No space left"),
        ),
        (
            "writes 1 GB of shared memory",
            after("for i in range(1024):\n    with open('/dev/shm/%d' % i, 'wb') as file: file.write(bytes(1 << 20))"),
            Wrong("No space left"),
        ),
        (
            "makes a million files",
            after("import time\nfor i in range(2000): open('/tmp/%d' % i, 'w').close()\ntime.sleep(100)"),
            Over(Limit::Files),
        ),
        (
            "answers 8 MB",
            "def f(x): return '1' * (8 << 20)".to_owned(),
            Over(Limit::Output),
        ),
        ("recurses for ever", "def f(x): return f(x)".to_owned(), Wrong("RecursionError")),
        ("answers without end", "import itertools\ndef f(x): return itertools.count()".to_owned(), AnyWrong),
        (
            "answers what contains itself",
            "def f(x):\n    y = []\n    y.append(y)\n    return y".to_owned(),
            Wrong("AssertionError"),
        ),
        (
            "answers what is nested for ever",
            "def f(x):\n    for _ in range(10000): x = (x,)\n    return x".to_owned(),
            Wrong("nested"),
        ),
        ("prints 32 MB", after("for _ in range(32): print('1' * (1 << 20))"), Right),
    ])
    .await;
}

#[tokio::test]
async fn programs_that_claim_to_be_right_are_not() {
    let equal = "__eq__ = lambda self, other: True\n    __hash__ = lambda self: 0";
    // Frames of every kind to whatever is open: at most answers, which the tests compare.
    let shout = "import os\ndef f(x):\n    for fd in range(3, 1024):\n        for said in (b'P', b'Ppassed', b'L', b'VT', b'Vi9;'):\n            \
                 try: os.write(fd, b'%08x%s' % (len(said), said))\n            except OSError: pass\n    return 0";
    all_are(vec![
        ("prints PASS and exits", after("print('PASS')\nimport os\nos._exit(0)"), Wrong("ended with status 0")),
        ("exits well when loaded", after("raise SystemExit(0)"), Wrong("SystemExit")),
        ("exits well by name", after("exit(0)"), Wrong("SystemExit")),
        ("exits well when called", "def f(x): raise SystemExit(0)".to_owned(), Wrong("SystemExit")),
        ("leaves when called", "import os\ndef f(x): os._exit(0)".to_owned(), Wrong("ended with status 0")),
        ("ends the loop of the tests", "def f(x): raise StopIteration".to_owned(), Wrong("StopIteration")),
        ("fails as tests fail", "def f(x): raise AssertionError".to_owned(), Wrong("AssertionError")),
        ("answers what equals all", format!("class All:\n    {equal}\ndef f(x): return All()"), Wrong("object of type All")),
        (
            "answers a number that equals all",
            format!("class All(int):\n    {equal}\ndef f(x): return All()"),
            Wrong("line 1 of the tests: assert f(3) == 9"),
        ),
        (
            "answers a text that equals all",
            format!("class All(str):\n    {equal}\ndef f(x): return All()"),
            Wrong("AssertionError"),
        ),
        (
            "breaks assert",
            "import builtins, sys\nbuiltins.AssertionError = None\nbuiltins.all = lambda _: True\nsys.exit = None\ndef f(x): return 0"
                .to_owned(),
            Wrong("AssertionError"),
        ),
        (
            "replaces what encodes",
            "import sys\nmain = sys.modules['__main__']\nmain.Graph.message = lambda *_: b'T' * 7\ndef f(x): return 0".to_owned(),
            Wrong("no value"),
        ),
        ("shouts on every descriptor", shout.to_owned(), AnyWrong),
        (
            "sends no frame",
            "import os\ndef f(x):\n    for fd in range(200, 204):\n        try: os.write(fd, b'PASSPASS')\n        \
             except OSError: pass"
                .to_owned(),
            Wrong("no answer"),
        ),
        (
            "looks for the tests",
            "import gc, os\ndef f(x):\n    found = []\n    for pid in filter(str.isdigit, os.listdir('/proc')):\n        \
             for name in ('cmdline', 'environ', 'mem'):\n            try: found.append(open('/proc/%s/%s' % (pid, name), 'rb').read(1 << 20))\n            \
             except OSError: pass\n    found += [o.encode() for o in gc.get_objects() if isinstance(o, str)]\n    \
             return 9 if any(b'== 9' in part.replace(b\"b'== 9'\", b'') and b'assert f' in part for part in found) else 0"
                .to_owned(),
            Wrong("AssertionError"),
        ),
        ("kills its parent", after("import os\ntry: os.kill(os.getppid(), 9)\nexcept OSError: pass"), Right),
        ("kills the first process", after("import os\ntry: os.kill(1, 9)\nexcept OSError: pass"), Right),
        ("kills everything", after("import os\ntry: os.kill(-1, 9)\nexcept OSError: pass\nos.kill(os.getpid(), 9)"), Wrong("signal 9")),
        ("closes everything", after("import os\nos.closerange(0, 4096)"), AnyWrong),
        ("is no program", "def f(x) return".to_owned(), Wrong("SyntaxError")),
        ("is a program with a NUL byte", "def f(x): return 0\0".to_owned(), Wrong("does not load")),
        ("is empty", String::new(), Wrong("the program defines no f")),
        ("has another function", "def g(x): return x * x".to_owned(), Wrong("the program defines no f")),
    ])
    .await;
}

#[tokio::test]
async fn programs_that_reach_out_find_nothing() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let refused = |doing: &str| {
        format!(
            "import os, socket, ctypes\ntry:\n    {doing}\n    done = True\nexcept OSError:\n    done = False\ndef f(x): return 0 if done else x * x"
        )
    };
    let call = |call: &str| {
        format!("import ctypes\ndone = ctypes.CDLL(None).{call}\ndef f(x): return 0 if done >= 0 else x * x")
    };
    let environment = "import os\nknown = {'PATH', 'HOME', 'LANG', 'PWD', 'LC_CTYPE'}\n\
                       extra = [n for n in os.environ if n not in known and not n.endswith('_NUM_THREADS')]\n\
                       def f(x): return 0 if extra else x * x";
    let delete = "import os, shutil\nos.remove(__file__)\nshutil.rmtree('/tmp', ignore_errors=True)\n\
                  for path in ('/usr/bin/env', '/run/tidemill/guest.pyc', '/dev/null'):\n    try: os.remove(path)\n    \
                  except OSError: pass\n    assert os.path.exists(path)";
    all_are(vec![
        (
            "connects to a port of the host",
            refused(&format!("socket.create_connection(('127.0.0.1', {port}))")),
            Right,
        ),
        (
            "opens a socket",
            refused("socket.socket(socket.AF_INET, socket.SOCK_DGRAM)"),
            Right,
        ),
        (
            "opens a socket to the kernel",
            refused("socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)"),
            Right,
        ),
        ("reads secrets", refused("open('/etc/passwd').read()"), Right),
        ("reads a home", refused("os.listdir('/root')"), Right),
        ("writes to the root", refused("open('/x', 'w')"), Right),
        ("writes to devices", refused("open('/dev/x', 'w')"), Right),
        (
            "writes to its launcher",
            refused("open('/run/tidemill/tester.pyc', 'wb')"),
            Right,
        ),
        ("makes namespaces", call("unshare(0x10000000)"), Right),
        ("traces", call("ptrace(0, 0, 0, 0)"), Right),
        ("mounts", call("mount(b'x', b'/tmp', b'tmpfs', 0, 0)"), Right),
        ("makes memory that nobody counts", call("memfd_create(b'x', 0)"), Right),
        ("makes shared segments", call("shmget(0, 1 << 30, 0o1600)"), Right),
        ("reads the environment", environment.to_owned(), Right),
        ("deletes its own file and all others", after(delete), Right),
        (
            "runs a program of the host",
            after("import subprocess\nsubprocess.run(['/bin/true'], check=True)"),
            Right,
        ),
    ])
    .await;
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err(), "somebody connected");
}

#[tokio::test]
async fn a_process_that_goes_into_the_background_ends_with_its_run() {
    let sandbox = sandbox().await;
    let program = after("import subprocess\nsubprocess.Popen(['/bin/sleep', '98765.25'], start_new_session=True)");
    let verdict = sandbox.check(&check(&program, OF_SQUARES), &LIMITS).await.unwrap();
    assert!(verdict.is_right, "{verdict:?}");
    let lines = fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    assert_eq!(
        lines
            .filter(|line| line.windows(8).any(|part| part == b"98765.25"))
            .count(),
        0
    );
}

#[tokio::test]
async fn a_folder_that_may_be_read_is_read_and_not_written() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(folder.path().join("data"), "9").unwrap();
    let settings = Settings {
        readable: vec![folder.path().to_owned()],
        ..Settings::default()
    };
    let sandbox = Sandbox::open(&settings).await.unwrap();
    let place = folder.path().display();
    let program = format!(
        "def f(x):\n    try: open('{place}/new', 'w')\n    except OSError: return int(open('{place}/data').read())"
    );
    let verdict = sandbox
        .check(&check(&program, "assert f(3) == 9"), &LIMITS)
        .await
        .unwrap();
    assert!(verdict.is_right, "{verdict:?}");
}

#[tokio::test]
async fn what_is_no_fault_of_the_program_is_no_verdict() {
    let sandbox = sandbox().await;
    for (tests, why) in [
        ("assert f(3 == 9", "do not load"),
        ("def check(f):\n    assert f(3) == 9", "call nothing of the program"),
        ("assert f(print) == 9", "only plain values can be passed"),
        (
            "try:\n    f(print)\nexcept BaseException: pass",
            "only plain values can be passed",
        ),
    ] {
        let fault = sandbox.check(&check(SQUARES, tests), &LIMITS).await.unwrap_err();
        assert!(
            !fault.is_retryable() && fault.to_string().contains(why),
            "{tests}: {fault}"
        );
    }
}

#[tokio::test]
async fn a_program_that_waits_for_nothing_is_over_its_time() {
    let sandbox = sandbox().await;
    let brief = Limits {
        wall: Duration::from_millis(1500),
        ..LIMITS
    };
    let mut runs = JoinSet::new();
    for (name, program) in [
        ("sleeps when called", "import time\ndef f(x): time.sleep(1000)"),
        ("sleeps when loaded", "import time\ntime.sleep(1000)"),
        (
            "waits for itself",
            "import threading\nlock = threading.Lock()\ndef f(x): lock.acquire(); lock.acquire()",
        ),
        (
            "reads what nobody writes",
            "import os\ndef f(x): os.read(os.pipe()[0], 1)",
        ),
        (
            "stops itself",
            "import os, signal\ndef f(x): os.kill(os.getpid(), signal.SIGSTOP)",
        ),
        (
            "waits for a child in its own memory",
            "import ctypes, os\ndef f(x):\n    if ctypes.CDLL(None).vfork() == 0: ctypes.CDLL(None).pause()",
        ),
    ] {
        let sandbox = sandbox.clone();
        runs.spawn(async move {
            judge(
                name,
                &Over(Limit::Time),
                sandbox.check(&check(program, OF_SQUARES), &brief).await,
            )
        });
    }
    let asleep = Command {
        argv: ["/bin/sleep", "1000"].map(str::to_owned).to_vec(),
        ..Command::default()
    };
    let ran = sandbox.run(&asleep, &brief).await.unwrap();
    assert_eq!(ran.ended, Ended::Over(Limit::Time));
    let faults: Vec<String> = runs.join_all().await.into_iter().filter_map(Result::err).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Bubblewrap that ends while it sets its sandbox up leaves behind what it has started, which waits for it.
#[tokio::test]
async fn a_sandbox_that_is_given_up_while_it_starts_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let (bubblewrap, child) = (folder.path().join("bwrap"), folder.path().join("child"));
    let place = folder.path().display();
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = --help ] && {{ echo --size; exit; }}\nsleep 98761 &\necho $! >{place}/new\nmv {place}/new {place}/child\nwait\n"
    );
    fs::write(&bubblewrap, script).unwrap();
    fs::set_permissions(&bubblewrap, fs::Permissions::from_mode(0o755)).unwrap();
    let settings = Settings {
        bubblewrap: Some(bubblewrap),
        ..Settings::default()
    };
    let mut opening = Box::pin(Sandbox::open(&settings));
    while !child.exists() {
        let still = tokio::time::timeout(Duration::from_millis(10), &mut opening).await;
        assert!(still.is_err(), "{:?}", still.map(|opened| opened.map(drop)));
    }
    drop(opening);
    let pid = fs::read_to_string(&child).unwrap();
    let is_there = || {
        let line = fs::read(format!("/proc/{}/cmdline", pid.trim())).unwrap_or_default();
        line.windows(5).any(|part| part == b"98761")
    };
    for _ in 0..500 {
        if !is_there() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{pid} outlives its sandbox");
}

#[tokio::test]
async fn values_and_exceptions_pass_as_they_are() {
    let sandbox = sandbox().await;
    let tests = r#"
import decimal, fractions, math
for value in [None, True, -1, 0, 1 << 4000, -(1 << 70), 0.1, -0.0, math.inf, 1e300, 1 + 2j, "", "é\0\ud800", b"\xff", bytearray(b"x"),
              [], [1, [2]], (), (1,), {1, 2}, frozenset({1}), {"a": [1]}, {1: None}, range(1, 9, 2), decimal.Decimal("0.1"),
              fractions.Fraction(1, 3), [True, 1, 1.0]]:
    answer = f(value)
    assert answer == value and type(answer) is type(value), (answer, value)
    assert repr(answer) == repr(value)
assert math.isnan(f(math.nan))
assert f(value="x") == "x"
assert list(f("generate")) == [0, 1, 2]
assert list(f("map")) == [1, 2]
for name, kind in [("value", ValueError), ("key", LookupError), ("own", ArithmeticError)]:
    try:
        f(name + "!")
    except kind as error:
        assert "no good" in str(error), str(error)
    else:
        raise AssertionError(name)
"#;
    let program = r#"
class Own(ZeroDivisionError): pass
def f(value):
    if value == "generate": return (i for i in range(3))
    if value == "map": return map(abs, [-1, -2])
    if value == "value!": raise ValueError("no good")
    if value == "key!": raise KeyError("no good")
    if value == "own!": raise Own("no good")
    return value
"#;
    let verdict = sandbox.check(&check(program, tests), &LIMITS).await.unwrap();
    assert!(verdict.is_right, "{verdict:?}");
    let wrong = check("def f(x): return x + 1", "\nassert f(1) == 2\nassert f(3) == 5");
    let verdict = sandbox.check(&wrong, &LIMITS).await.unwrap();
    assert_eq!(
        verdict.reason,
        "AssertionError:  (line 3 of the tests: assert f(3) == 5)"
    );
    let huge = check("def f(x): return 10 ** 5000", "assert f(1) == 2, f(1)");
    let verdict = sandbox.check(&huge, &LIMITS).await.unwrap();
    assert!(verdict.reason.contains("what cannot be shown"), "{verdict:?}");
    let raises = check("def f(x):\n    y = 1\n    return x / (y - 1)", "f(1)");
    let verdict = sandbox.check(&raises, &LIMITS).await.unwrap();
    assert!(verdict.reason.contains("division by zero"), "{verdict:?}");
}

#[tokio::test]
async fn helpers_of_the_prelude_are_not_the_programs() {
    let sandbox = sandbox().await;
    let program = "def rotate(text): return text\ndef f(text): return text\n";
    let check = Check {
        prelude: "def rotate(text): return text[1:] + text[:1]\n".to_owned(),
        ..check(program, "assert f(rotate('abc')) == 'abc'")
    };
    let verdict = sandbox.check(&check, &LIMITS).await.unwrap();
    assert!(!verdict.is_right, "the program's own rotate was used: {verdict:?}");
}

#[tokio::test]
async fn any_command_runs_and_what_it_prints_is_compared() {
    let sandbox = sandbox().await;
    let shell = |script: &str, input: &str| Command {
        argv: ["/bin/sh", "script"].map(str::to_owned).to_vec(),
        files: vec![("script".to_owned(), script.as_bytes().to_vec())],
        input: input.as_bytes().to_vec(),
    };
    let run = async |script: &str, input: &str| sandbox.run(&shell(script, input), &LIMITS).await;
    let ran = run("read x; echo $((x * x)); echo said >&2", "7\n").await.unwrap();
    assert_eq!(
        (ran.ended, ran.printed.as_slice(), ran.errors.as_str()),
        (Ended::Exited(0), &b"49\n"[..], "said\n")
    );
    assert!(ran.compared("49").is_right && !ran.compared("50").is_right);
    assert_eq!(run("echo 49; exit 3", "").await.unwrap().ended, Ended::Exited(3));
    assert_eq!(run("kill -SEGV $$", "").await.unwrap().ended, Ended::Signalled(11));
    assert_eq!(
        run("while :; do :; done", "").await.unwrap().ended,
        Ended::Over(Limit::Cpu)
    );
    assert_eq!(
        run("exec cat /dev/zero", "").await.unwrap().ended,
        Ended::Over(Limit::Output)
    );
    let large = "x".repeat(1 << 18);
    assert_eq!(run("exec cat", &large).await.unwrap().printed.len(), large.len());
    let missing = Command {
        argv: vec!["/bin/no-such-program".to_owned()],
        ..Command::default()
    };
    let fault = sandbox.run(&missing, &LIMITS).await.unwrap_err();
    assert!(
        !fault.is_retryable() && fault.to_string().contains("/bin/no-such-program"),
        "{fault}"
    );
}

#[tokio::test]
async fn a_host_without_what_is_needed_has_no_sandbox() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let bubblewrap = folder.path().join("bwrap");
    let script = "#!/bin/sh\n[ \"$1\" = --help ] && { echo --size; exit; }\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n";
    fs::write(&bubblewrap, script).unwrap();
    fs::set_permissions(&bubblewrap, fs::Permissions::from_mode(0o755)).unwrap();
    let settings = |bubblewrap| Settings {
        bubblewrap: Some(bubblewrap),
        ..Settings::default()
    };
    let refused = Sandbox::open(&settings(bubblewrap)).await.unwrap_err();
    assert!(
        refused.reason.contains("No permissions to create new namespace"),
        "{refused}"
    );
    assert!(refused.remedy.contains("user namespaces"), "{refused}");
    let missing = Sandbox::open(&settings(folder.path().join("nothing")))
        .await
        .unwrap_err();
    assert!(missing.remedy.contains("apt-get install bubblewrap"), "{missing}");
    let weaker = Settings {
        level: Level::Cgroup,
        ..Settings::default()
    };
    let refused = Sandbox::open(&weaker).await.unwrap_err();
    assert!(refused.reason.contains("the level cgroup is asked for"), "{refused}");
}
