//! A shell stands for the program: it is on every machine.

use std::time::Duration;

use super::*;
use crate::answer::Credit;
use crate::answer::tests::item;

/// Says that all is right, with the id of what it read.
const RIGHT: &str =
    r#"while read -r line; do id=${line#*\"id\":\"}; echo "{\"id\":\"${id%%\"*}\",\"outcome\":\"correct\"}"; done"#;

fn shell(script: &str) -> Vec<String> {
    ["sh", "-c", script].map(str::to_owned).to_vec()
}

/// A grader that may run the script, and the family that asks it.
fn setup(script: &str) -> (Runners, Command) {
    let runners = Runners::of(&tidemill_config::Grader {
        commands: vec![shell(script)],
        command_processes: 1,
        ..tidemill_config::Grader::default()
    });
    let command = Command {
        command: shell(script),
        limit: Duration::from_secs(30),
    };
    (runners, command)
}

async fn judge(runners: &Runners, command: &Command) -> Result<Option<Finding>, Error> {
    command
        .judge(runners, &item(&["4"], &[]), &Answer::whole("it is 4"))
        .await
}

/// Why a program that does this does not judge.
async fn reason(script: &str) -> String {
    let (runners, mut command) = setup(script);
    if script.contains("sleep") {
        command.limit = Duration::from_millis(50);
    }
    judge(&runners, &command).await.unwrap_err().to_string()
}

#[tokio::test]
async fn a_program_that_the_configuration_does_not_name_is_not_run() {
    let (runners, _) = setup("true");
    for other in [shell("touch /tmp/not-to-be-there"), vec!["sh".to_owned()]] {
        let command = Command {
            command: other,
            limit: Duration::from_secs(1),
        };
        let refused = judge(&runners, &command).await.unwrap_err();
        assert!(matches!(refused, Error::Forbidden { .. }));
        assert!(refused.to_string().contains("[grader] commands"), "{refused}");
        assert!(judge(&Runners::default(), &command).await.is_err());
    }
}

#[tokio::test]
async fn a_process_judges_one_answer_after_the_other() {
    let (runners, command) = setup(&format!("echo started >&2; {RIGHT}"));
    for _ in 0..3 {
        let finding = judge(&runners, &command).await.unwrap().unwrap();
        assert_eq!(finding.credit, Credit::Whole(true));
        assert_eq!(
            (finding.extracted.as_str(), finding.extractor),
            ("it is 4", "command@1")
        );
    }
    let pool = runners.commands.pool(&command.command).unwrap();
    assert_eq!(pool.idle.lock().unwrap().len(), 1, "one process judged all");
}

#[test]
fn what_a_program_says_is_kept_and_what_it_could_not_judge_is_no_score() {
    let item = item(&["4"], &[]);
    let answer = Answer::whole("it is 4");
    let request = Request::of(&item, &answer);
    let asked: serde_json::Value = serde_json::from_str(&request.line().unwrap()).unwrap();
    assert_eq!(asked["targets"], serde_json::json!(["4"]));
    let said = |rest: &str| {
        request
            .answered(&format!("{{\"id\":{},{rest}}}", asked["id"]))?
            .finding("it is 4")
    };
    let finding = said(r#""score":0.25,"extracted":"4","reason":"close","measures":{"length":7}"#);
    let finding = finding.unwrap().unwrap();
    assert_eq!((finding.credit, finding.extracted.as_str()), (Credit::Part(0.25), "4"));
    assert_eq!((finding.reason.as_deref(), finding.measures.len()), (Some("close"), 1));
    assert_eq!(said(r#""outcome":"no_answer""#), Ok(None));
    assert_eq!(
        said(r#""outcome":"grader_error","reason":"no disk""#).unwrap_err(),
        "no disk"
    );
    assert!(said(r#""score":7"#).unwrap_err().contains("not from 0 to 1"));
    assert!(
        said(r#""reason":"?""#)
            .unwrap_err()
            .contains("neither a score nor an outcome")
    );
    assert!(said(r#""outcome":"right""#).is_err());
}

#[tokio::test]
async fn every_way_to_fail_is_a_fault_and_no_score() {
    assert!(reason("exit 3").await.contains("grade by the program: sh -c exit 3: "));
    assert!(
        reason("read -r line; sleep 60")
            .await
            .contains("gave no answer within 0.05 s")
    );
    assert!(reason("read -r line; echo hello").await.contains("answered \"hello\""));
    assert!(
        reason(r#"read -r line; echo '{"id":"other","score":1}'"#)
            .await
            .contains("answered \"other\" where")
    );
    assert!(reason("head -c 2000000 /dev/zero").await.contains("answered more than"));
}

/// Whether a process is there and is more than what its parent has yet to hear of.
fn runs(pid: &str) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    let state = status
        .ok()
        .and_then(|status| Some(status.rsplit_once(") ")?.1.chars().next()));
    !matches!(state.flatten(), None | Some('Z' | 'X'))
}

#[tokio::test]
async fn what_a_program_started_ends_with_it_wherever_it_moved_to() {
    let folder = tempfile::tempdir().unwrap();
    let pids = folder.path().join("pids");
    // One in a session of its own, one that outlives its parent there, and one in the program's group.
    let scripts = [
        "setsid sh -c 'echo $$ >> PIDS; exec sleep 600' > /dev/null 2>&1 &",
        "setsid sh -c 'sleep 600 & echo $! >> PIDS' > /dev/null 2>&1 &",
        "sleep 600 > /dev/null 2>&1 & echo $! >> PIDS;",
        "while [ $(wc -l < PIDS) -lt 3 ]; do sleep 0.01; done; read -r line; END",
    ];
    for end in ["exit 3", "echo; sleep 600"] {
        std::fs::write(&pids, "").unwrap();
        let script = scripts.join(" ").replace("PIDS", pids.to_str().unwrap());
        let mut process = Process::start(&shell(&script.replace("END", end))).unwrap();
        let said = process.exchange("{}\n").await;
        assert_eq!(said.is_ok(), end.starts_with("echo"), "{said:?}");
        let started = std::fs::read_to_string(&pids).unwrap();
        assert_eq!(started.lines().filter(|pid| runs(pid)).count(), 3, "{end}");
        drop(process);
        // What is ended takes a moment to be gone.
        for _ in 0..1_000 {
            if !started.lines().any(runs) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let left: Vec<&str> = started.lines().filter(|pid| runs(pid)).collect();
        assert_eq!(left, Vec::<&str>::new(), "{end}");
    }
}

#[tokio::test]
async fn a_program_that_died_is_started_again_after_a_pause_and_judges() {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("seen");
    let script = format!("if [ ! -e {0} ]; then touch {0}; exit 1; fi; {RIGHT}", mark.display());
    let (runners, command) = setup(&script);
    let began = Instant::now();
    assert!(judge(&runners, &command).await.unwrap().is_some());
    assert!(began.elapsed() >= MIN_PAUSE);
    let pool = runners.commands.pool(&command.command).unwrap();
    assert_eq!(pool.health.lock().unwrap().failures, 0);
}

#[tokio::test]
async fn a_program_that_fails_on_everything_is_asked_once_an_answer() {
    let folder = tempfile::tempdir().unwrap();
    let starts = folder.path().join("starts");
    let (runners, command) = setup(&format!("echo >> {}; exit 1", starts.display()));
    let pool = runners.commands.pool(&command.command).unwrap();
    pool.health.lock().unwrap().failures = FAILS_ALWAYS - 1;
    assert!(judge(&runners, &command).await.is_err());
    assert_eq!(std::fs::read_to_string(starts).unwrap().lines().count(), 1);
}
