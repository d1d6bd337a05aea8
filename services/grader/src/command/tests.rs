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

fn family(script: &str, processes: u32) -> Command {
    let commands = Commands::new(vec![shell(script)], processes);
    let mut family = commands.family(&shell(script), 1).unwrap();
    family.limit = Duration::from_millis(300);
    family
}

async fn judge(family: &Command, key: &str) -> Result<Option<crate::answer::Finding>, Fault> {
    family
        .judge(key, &item(&["4"], &[]), &Answer::whole("it is 4"), "it is 4")
        .await
}

async fn reason(script: &str) -> String {
    judge(&family(script, 1), "k/0").await.unwrap_err().reason
}

#[test]
fn a_program_that_the_configuration_does_not_name_is_not_run() {
    let commands = Commands::new(vec![shell("true")], 1);
    let refused = commands.family(&shell("rm -rf /"), 1).unwrap_err();
    assert!(refused.to_string().contains("[grader] commands"), "{refused}");
    assert!(commands.family(&["sh".to_owned()], 1).is_err());
    assert!(Commands::default().family(&shell("true"), 1).is_err());
}

#[tokio::test]
async fn a_process_judges_one_answer_after_the_other() {
    let family = family(&format!("echo started >&2; {RIGHT}"), 1);
    for key in ["e/0/1/0", "e/0/2/0", "e/0/3/0"] {
        let finding = judge(&family, key).await.unwrap().unwrap();
        assert_eq!(finding.credit, Credit::Whole(true));
        assert_eq!(
            (finding.extracted.as_str(), finding.extractor),
            ("it is 4", "command@1")
        );
    }
    let idle = family.pool.idle.lock().unwrap();
    assert_eq!(idle.len(), 1, "one process judged all");
}

#[tokio::test]
async fn what_a_program_says_of_a_part_a_reason_and_measures_is_kept() {
    let said = r#"{"id":"k","score":0.25,"extracted":"4","reason":"close","measures":{"length":7}}"#;
    let finding = protocol::finding(protocol::answered(said, "k").unwrap(), "it is 4")
        .unwrap()
        .unwrap();
    assert_eq!((finding.credit, finding.extracted.as_str()), (Credit::Part(0.25), "4"));
    assert_eq!(finding.reason.as_deref(), Some("close"));
    assert_eq!(finding.named.len(), 1);
    let none = protocol::answered(r#"{"id":"k","outcome":"no_answer"}"#, "k").unwrap();
    assert_eq!(protocol::finding(none, "").unwrap(), None);
    let unable = protocol::answered(r#"{"id":"k","outcome":"grader_error","reason":"no disk"}"#, "k").unwrap();
    assert_eq!(protocol::finding(unable, "").unwrap_err().reason, "no disk");
}

#[tokio::test]
async fn every_way_to_fail_is_a_fault_and_no_score() {
    assert!(reason("exit 3").await.contains("ended"));
    assert!(reason("read -r line; sleep 60").await.contains("gave no answer within"));
    assert!(reason("read -r line; echo hello").await.contains("answered \"hello\""));
    assert!(
        reason(r#"read -r line; echo '{"id":"other","score":1}'"#)
            .await
            .contains("where \"k/0\" was asked")
    );
    assert!(
        reason(r#"read -r line; echo '{"id":"k/0","score":7}'"#)
            .await
            .contains("not from 0 to 1")
    );
    assert!(
        reason(r#"read -r line; echo '{"id":"k/0"}'"#)
            .await
            .contains("neither a score nor an outcome")
    );
    assert!(reason("yes | tr -d '\\n'").await.contains("answered more than"));
}

#[tokio::test]
async fn a_process_that_failed_is_replaced_after_a_pause() {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("seen");
    // The first process dies, those after it judge.
    let script = format!("if [ ! -e {0} ]; then touch {0}; exit 1; fi; {RIGHT}", mark.display());
    let family = family(&script, 1);
    assert!(judge(&family, "k/0").await.unwrap_err().is_transient);
    let due = family.pool.health.lock().unwrap().not_before.unwrap();
    assert!(due > Instant::now());
    assert!(judge(&family, "k/0").await.unwrap().is_some());
    assert!(Instant::now() >= due);
    assert_eq!(family.pool.health.lock().unwrap().failures, 0);
}
