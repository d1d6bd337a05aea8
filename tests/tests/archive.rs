//! Evaluations that left the broker: the same to every reader, and nothing is asked of the engine again.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may fail this way"
)]

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::Value;
use tidemill_service::fault::Point;
use tidemill_testkit::{FakeEngine, Service};
use tidemill_tests::{Ran, Workbench, tidemill};

const PATIENCE: Duration = Duration::from_secs(90);

fn run(arguments: &[String]) -> Ran {
    tidemill(&arguments.iter().map(String::as_str).collect::<Vec<_>>()).unwrap()
}

/// Runs a command on the bench's data, which must go well.
fn done(bench: &Workbench, arguments: &[&str]) -> Ran {
    let data = bench.text("data");
    let ran = tidemill(&[arguments, &["--data-dir", &data]].concat()).unwrap();
    assert_eq!(ran.code, Some(0), "{arguments:?}: {}", ran.log);
    ran
}

#[test]
fn an_archived_evaluation_is_the_same_to_every_reader_and_again_asks_nothing() {
    let bench = Workbench::new(50).unwrap();
    let engine = FakeEngine::builder().respond(Workbench::answer).start().unwrap();
    let mut command = bench.evaluate(&engine.url(), engine.model());
    command.extend(["--run", "sums", "--step", "3"].map(str::to_owned));
    let first = run(&command);
    assert_eq!(first.code, Some(0), "{}", first.log);
    let result = first.json().unwrap();
    let id = result["evaluation"].as_str().unwrap();
    let requests = engine.stats().requests;
    let items = done(&bench, &["items", id, "--json"]).output;
    assert_eq!(items.lines().count() as u64, Workbench::samples(50));
    let results = done(&bench, &["results", "--json"]).output;
    let regraded = done(&bench, &["regrade", id, "--json"]).json().unwrap();

    let archived = done(&bench, &["archive", "now", id, "--purge", "--json"])
        .json()
        .unwrap();
    assert_eq!(
        (&archived["state"], &archived["rows"]),
        (&"purged".into(), &Workbench::samples(50).into())
    );
    let folder = bench.path("data/objects").join(archived["folder"].as_str().unwrap());
    for file in ["archive.json", "provenance.json", "result.json", "items/00000.parquet"] {
        assert!(folder.join(file).exists(), "{file}");
    }
    let kept: Value = serde_json::from_slice(&std::fs::read(folder.join("result.json")).unwrap()).unwrap();
    assert_eq!(kept, result);
    let streams = done(&bench, &["doctor", "--json"]).json().unwrap();
    for stream in ["DONE", "GRADE"] {
        let found = streams
            .as_array()
            .unwrap()
            .iter()
            .find(|finding| finding["check"] == stream)
            .unwrap();
        assert!(found["detail"].as_str().unwrap().starts_with("0 messages"), "{found}");
    }

    let archive = streams
        .as_array()
        .unwrap()
        .iter()
        .find(|finding| finding["check"] == "archive");
    let detail = archive.unwrap()["detail"].as_str().unwrap();
    assert!(
        detail.starts_with("0 wait to be archived") && detail.contains("1 are out"),
        "{detail}"
    );

    assert_eq!(done(&bench, &["items", id, "--json"]).output, items, "byte for byte");
    assert_eq!(done(&bench, &["results", "--json"]).output, results);
    let again = done(&bench, &["regrade", id, "--json"]).json().unwrap();
    assert_eq!((&again["graded"], &again["changed"]), (&regraded["graded"], &0.into()));
    let second = run(&command);
    assert_eq!(second.code, Some(0), "{}", second.log);
    assert_eq!(second.json().unwrap(), result);
    assert_eq!(engine.stats().requests, requests, "the engine was asked again");

    // A run that goes back takes the result off the trend line, wherever its items are.
    done(&bench, &["archive", "list"]);
    done(&bench, &["announce", "--run", "sums", "--step", "2", "--rolled-back"]);
    let mut up = Service::tidemill()
        .unwrap()
        .args(["up", "--data-dir", &bench.text("data")])
        .env_remove("NATS_URL")
        .spawn()
        .unwrap();
    up.wait_for_line("ready", PATIENCE).unwrap();
    wait_until(|| {
        let results = done(&bench, &["results", "--json"]).json().unwrap();
        results[0]["state"] == "superseded"
    });
    up.terminate().unwrap();
    up.wait(PATIENCE).unwrap();
    assert_eq!(done(&bench, &["items", id, "--json"]).output, items);
    assert_eq!(engine.stats().requests, requests);
}

fn wait_until(mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "it does not come to that");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn services_archive_and_purge_by_themselves() {
    let bench = Workbench::new(20).unwrap();
    let engine = FakeEngine::builder().respond(Workbench::answer).start().unwrap();
    let command = bench.evaluate(&engine.url(), engine.model());
    let first = run(&command);
    assert_eq!(first.code, Some(0), "{}", first.log);
    let result = first.json().unwrap();
    let id = result["evaluation"].as_str().unwrap();
    let requests = engine.stats().requests;
    let items = done(&bench, &["items", id, "--json"]).output;
    let mut up = up(&bench, None);
    wait_until(|| {
        let listed = done(&bench, &["archive", "list", "--json"]).json().unwrap();
        listed[0]["state"] == "purged"
    });
    assert_eq!(done(&bench, &["items", id, "--json"]).output, items);
    up.kill9().unwrap();
    let second = run(&command);
    assert_eq!(second.json().unwrap(), result);
    assert_eq!(engine.stats().requests, requests);
}

fn slow_engine() -> FakeEngine {
    let slow =
        |request: &tidemill_testkit::engine::Request| Workbench::answer(request).after(Duration::from_millis(30));
    FakeEngine::builder().respond(slow).start().unwrap()
}

fn impatient(bench: &Workbench, engine: &FakeEngine) -> Vec<String> {
    let mut command = bench.evaluate(&engine.url(), engine.model());
    command.extend(["--max-in-flight", "4", "--engine-patience", "3s"].map(str::to_owned));
    command
}

/// Begins an evaluation, takes its engine away, and returns its result: invalid, with samples missing.
fn lose_the_engine(command: &[String], engine: &FakeEngine) -> Value {
    let mut service = Service::tidemill()
        .unwrap()
        .args(command)
        .env_remove("NATS_URL")
        .spawn()
        .unwrap();
    while engine.stats().requests < 60 {
        std::thread::sleep(Duration::from_millis(5));
        assert!(service.poll().unwrap().is_none(), "ended early: {:?}", service.log());
    }
    engine.set_down(true).unwrap();
    assert_eq!(service.wait(PATIENCE).unwrap().code(), Some(1), "{:?}", service.log());
    serde_json::from_str(&service.output()).unwrap()
}

#[test]
fn an_invalid_evaluation_goes_on_after_its_archive_where_it_was() {
    let items = 40;
    let bench = Workbench::new(items).unwrap();
    let engine = slow_engine();
    let command = impatient(&bench, &engine);
    let invalid = lose_the_engine(&command, &engine);
    let id = invalid["evaluation"].as_str().unwrap();
    let before = done(&bench, &["items", id, "--json"]).output;
    let archived = done(&bench, &["archive", "now", id, "--purge", "--json"])
        .json()
        .unwrap();
    let kept = archived["completions"].as_u64().unwrap();
    assert!(kept > 0 && kept < Workbench::samples(items), "{archived}");
    assert_eq!(done(&bench, &["items", id, "--json"]).output, before);

    engine.set_down(false).unwrap();
    let earlier = engine.stats().requests;
    let again = run(&command);
    assert_eq!(again.code, Some(0), "{}", again.log);
    assert_eq!(again.json().unwrap()["state"], "final");
    let asked = engine.stats().requests - earlier;
    // Every item is a request or, by likelihood, four; those are last.
    let most = Workbench::requests(items) - kept + 2;
    assert!(asked <= most, "{asked} requests after the archive, for at most {most}");
    let after = done(&bench, &["items", id, "--json"]).output;
    let finished = |items: &str| -> Vec<Value> {
        let rows = items.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        rows.filter(|row| !row["completion"].is_null()).collect()
    };
    let after = finished(&after);
    for row in finished(&before) {
        let same = |other: &&Value| {
            ["benchmark", "item", "sample"]
                .iter()
                .all(|field| other[*field] == row[*field])
        };
        assert_eq!(
            after.iter().find(same).unwrap()["times"]["finished"],
            row["times"]["finished"],
            "{row}"
        );
    }
}

#[test]
fn a_regrade_stands_beside_the_first_grades() {
    let bench = Workbench::new(20).unwrap();
    let engine = FakeEngine::builder().respond(Workbench::answer).start().unwrap();
    let first = run(&bench.evaluate(&engine.url(), engine.model()));
    assert_eq!(first.code, Some(0), "{}", first.log);
    let result = first.json().unwrap();
    let id = result["evaluation"].as_str().unwrap();
    let requests = engine.stats().requests;
    let items = done(&bench, &["items", id, "--json"]).output;

    // Answers that are one off were wrong: four of twenty sums.
    let lenient = "[[benchmark]]\nname = \"exact\"\n[benchmark.grader]\nkind = \"numeric\"\ntolerance = 1.0\n";
    let file = bench.write("graders.toml", lenient).unwrap().display().to_string();
    let regraded = done(&bench, &["regrade", id, "--grader", &file, "--json"])
        .json()
        .unwrap();
    assert_eq!(regraded["old"], result);
    assert_eq!((&regraded["regrade"], &regraded["changed"]), (&1.into(), &4.into()));
    assert_eq!(regraded["new"]["benchmarks"][0]["mean"], 1.0);
    assert_eq!(
        regraded["new"]["benchmarks"][1], result["benchmarks"][1],
        "by the same sums"
    );
    let change = &regraded["changes"][0];
    assert_eq!(
        (&change["old"]["outcome"], &change["new"]["outcome"]),
        (&"incorrect".into(), &"correct".into())
    );
    let graders = (&change["old"]["grader"], &change["new"]["grader"]);
    assert_eq!(graders, (&"exact@2".into(), &"numeric@6".into()));
    assert!(change["reason"].as_str().unwrap().contains("within 1"), "{change}");
    let transition = serde_json::json!([{ "from": "incorrect", "to": "correct", "samples": 4 }]);
    assert_eq!(regraded["transitions"], transition);
    let kept = bench.path("data/objects").join(regraded["folder"].as_str().unwrap());
    let kept: Value = serde_json::from_slice(&std::fs::read(kept.join("result.json")).unwrap()).unwrap();
    assert_eq!(kept, regraded["new"]);

    // What the other grader changes on the same answers: the four sums.
    let beside = format!("{id}/regrade-1");
    let data = bench.text("data");
    let refused = tidemill(&["compare", id, &beside, "--data-dir", &data]).unwrap();
    assert_eq!(refused.code, Some(2), "{}", refused.output);
    for part in [
        "exact: grader exact against numeric",
        "--allow grader --allow grader-version",
    ] {
        assert!(refused.log.contains(part), "{part} is not in {}", refused.log);
    }
    let allowed = ["--allow", "grader", "--allow", "grader-version", "--json"];
    let compared = done(&bench, &[&["compare", id, &beside], allowed.as_slice()].concat());
    let compared = compared.json().unwrap();
    let exact = &compared["benchmarks"][0];
    assert_eq!(
        (&exact["wins"], &exact["losses"], &exact["ties"]),
        (&4.into(), &0.into(), &16.into())
    );
    assert_eq!(compared["second"]["regrade"], 1);
    assert_eq!(compared["benchmarks"][1]["difference"], 0.0);

    let results = done(&bench, &["results"]).output;
    assert!(
        results.contains("final, regrade 1") && results.contains(&beside),
        "{results}"
    );

    let again = done(&bench, &["regrade", id]);
    assert!(again.output.contains("0 changed"), "{}", again.output);
    let theirs = done(
        &bench,
        &["items", id, "--regrade", "1", "--benchmark", "exact", "--json"],
    )
    .output;
    assert!(
        theirs.lines().all(|line| line.contains("\"outcome\":\"correct\"")),
        "{theirs}"
    );
    assert_eq!(
        done(&bench, &["items", id, "--json"]).output,
        items,
        "the first grades stay"
    );
    assert_eq!(engine.stats().requests, requests);
}

/// Sums that a program grades, one that the graders' configuration has to name.
const BY_PROGRAM: &str = r#"
name = "programmed"
version = "1"

[[benchmark]]
name = "sums"
data = "sums.jsonl"
id = "id"
prompt = "Q: {{ a }}+{{ b }}\nA:"
target = "{{ sum }}"
max_tokens = 8
metrics = ["words", "letters"]
[benchmark.grader]
kind = "command"
command = ["sh", "right.sh"]
"#;

const ALL_RIGHT: &str = r#"while read -r line; do
    id=${line#*\"id\":\"}
    echo "{\"id\":\"${id%%\"*}\",\"outcome\":\"correct\",\"measures\":{\"words\":1,\"letters\":5}}"
done"#;

#[test]
fn a_grader_that_was_mended_grades_what_it_failed_and_asks_nothing() {
    let bench = Workbench::new(10).unwrap();
    let program = bench.write("right.sh", ALL_RIGHT).unwrap().display().to_string();
    bench
        .write("suite.toml", &BY_PROGRAM.replace("right.sh", &program))
        .unwrap();
    let engine = FakeEngine::builder().respond(Workbench::answer).start().unwrap();
    let mut command = bench.evaluate(&engine.url(), engine.model());
    let failed = run(&command);
    assert_eq!(failed.code, Some(1), "{}", failed.log);
    let result = failed.json().unwrap();
    assert_eq!(result["benchmarks"][0]["outcomes"]["grader_error"], 10);
    let reason = result["reason"].as_str().unwrap();
    assert!(reason.contains("the same `tidemill evaluate`"), "{reason}");
    let id = result["evaluation"].as_str().unwrap();
    let items = done(&bench, &["items", id]).output;
    assert!(items.contains("[grader] commands"), "{items}");

    // Mended, and the engine is gone.
    let requests = engine.stats().requests;
    engine.set_down(true).unwrap();
    let config = format!("[grader]\ncommands = [[\"sh\", \"{program}\"]]\n");
    let config = bench.write("tidemill.toml", &config).unwrap().display().to_string();
    let regraded = done(&bench, &["regrade", id, "--failed", "--config", &config, "--json"]);
    assert_eq!(regraded.json().unwrap()["new"]["state"], "final");
    command.extend(["--config".to_owned(), config]);
    let mended = run(&command);
    assert_eq!(mended.code, Some(0), "{}", mended.log);
    assert!(
        mended.log.contains("10 samples that their grader failed"),
        "{}",
        mended.log
    );
    let result = mended.json().unwrap();
    assert_eq!((&result["evaluation"], &result["state"]), (&id.into(), &"final".into()));
    assert_eq!(result["benchmarks"][0]["mean"], 1.0);
    assert_eq!(engine.stats().requests, requests);
    let again = done(&bench, &["regrade", id, "--failed", "--json"]).json().unwrap();
    assert_eq!((&again["graded"], &again["kept"]), (&0.into(), &10.into()));

    // What a regrade measures has the names that it gave.
    let graders = "[[benchmark]]\nname = \"sums\"\nmetrics = [\"letters\"]\n";
    let file = bench.write("graders.toml", graders).unwrap().display().to_string();
    let config = bench.text("tidemill.toml");
    let regraded = done(
        &bench,
        &["regrade", id, "--grader", &file, "--config", &config, "--json"],
    );
    let number = regraded.json().unwrap()["regrade"].to_string();
    let measures = |arguments: &[&str]| -> Vec<Value> {
        let rows = done(&bench, &[&["items", id, "--json"], arguments].concat()).output;
        let rows = rows.lines().map(|row| serde_json::from_str::<Value>(row).unwrap());
        rows.map(|row| row["measures"].clone()).collect()
    };
    let of_regrade = serde_json::json!({ "letters": 5.0 });
    assert_eq!(measures(&["--regrade", &number]), vec![of_regrade; 10]);
    assert_eq!(
        measures(&[]),
        vec![serde_json::json!({ "words": 1.0, "letters": 5.0 }); 10]
    );
}

#[test]
fn what_cannot_be_regraded_or_archived_is_named_with_the_reason() {
    let bench = Workbench::new(5).unwrap();
    let engine = FakeEngine::builder().respond(Workbench::answer).start().unwrap();
    let first = run(&bench.evaluate(&engine.url(), engine.model()));
    let result = first.json().unwrap();
    let (id, data) = (result["evaluation"].as_str().unwrap(), bench.text("data"));
    let unknown = "0123456789abcdef";
    for command in [
        ["regrade", unknown].as_slice(),
        &["archive", "now", unknown],
        &["items", unknown],
    ] {
        let ran = tidemill(&[command, &["--data-dir", &data]].concat()).unwrap();
        assert_eq!(ran.code, Some(2), "{command:?}");
        assert!(
            ran.log.contains(unknown) && ran.log.contains("tidemill results"),
            "{}",
            ran.log
        );
    }
    let ran = tidemill(&["items", id, "--regrade", "7", "--data-dir", &data]).unwrap();
    assert!(ran.code == Some(2) && ran.log.contains("no regrade 7"), "{}", ran.log);
    for (graders, part) in [
        (
            "[[benchmark]]\nname = \"exakt\"\n[benchmark.grader]\nkind = \"exact\"\n",
            "did you mean \"exact\"?",
        ),
        (
            "[[benchmark]]\nname = \"chat\"\n[benchmark.grader]\nkind = \"likelihood\"\n",
            "grader.kind",
        ),
        ("[grader]\nkind = \"exact\"\ntolerance = 2\n", "grader.tolerance"),
        ("metrics = [\"pass@9\"]\n", "needs 9 samples"),
    ] {
        let file = bench.write("graders.toml", graders).unwrap().display().to_string();
        let ran = tidemill(&["regrade", id, "--grader", &file, "--data-dir", &data]).unwrap();
        assert_eq!(ran.code, Some(2), "{graders}");
        assert!(
            ran.log.contains(part) && ran.log.contains("graders.toml"),
            "{part}: {}",
            ran.log
        );
    }
    let graders = "[[benchmark]]\nname = \"exact\"\n[benchmark.grader]\nkind = \"code\"\n";
    let file = bench.write("graders.toml", graders).unwrap().display().to_string();
    let ran = tidemill(&["regrade", id, "--grader", &file, "--data-dir", &data]).unwrap();
    assert!(
        ran.code == Some(2) && ran.log.contains("has no tests, which grader kind code needs"),
        "{}",
        ran.log
    );
    let ran = tidemill(&["items", id, "--regrade", "1", "--data-dir", &data]).unwrap();
    assert!(
        ran.code == Some(2) && ran.log.contains("no regrade 1"),
        "nothing was begun: {}",
        ran.log
    );
}

/// All services on the bench's data, archiving and purging at once; with a fault they kill themselves at that point.
fn up(bench: &Workbench, fault: Option<Point>) -> Service {
    let launch = Service::tidemill()
        .unwrap()
        .args(["up", "--data-dir", &bench.text("data")])
        .env("TIDEMILL_ARCHIVE__AFTER", "0s")
        .env("TIDEMILL_ARCHIVE__KEEP", "0s")
        .env_remove("NATS_URL");
    match fault {
        Some(point) => launch
            .env("TIDEMILL_FAULT", format!("{}:1", point.name()))
            .spawn()
            .unwrap(),
        None => {
            let services = launch.spawn().unwrap();
            // A command that came before would own the data directory.
            services.wait_for_line("ready", PATIENCE).unwrap();
            services
        }
    }
}

/// Where the archiver is killed.
const ARCHIVING: [Point; 6] = [
    Point::ArchiveWritten,
    Point::ArchiveCommitted,
    Point::ArchivePurgeBegun,
    Point::ArchiveDonePurged,
    Point::ArchiveGradePurged,
    Point::ArchivePurged,
];

/// Where whoever puts an archived evaluation back is killed.
const PUTTING_BACK: [Point; 2] = [Point::ArchiveRestored, Point::ArchiveReopened];

#[test]
fn a_kill_between_any_two_effects_of_an_archive_loses_nothing() {
    let bench = Workbench::new(10).unwrap();
    let engine = FakeEngine::builder().respond(Workbench::answer).start().unwrap();
    for (step, point) in (1..).zip(ARCHIVING) {
        let mut command = bench.evaluate(&engine.url(), engine.model());
        command.extend(["--run", "r", "--step", &format!("{step}")].map(str::to_owned));
        let first = run(&command);
        assert_eq!(first.code, Some(0), "{}", first.log);
        let result = first.json().unwrap();
        let id = result["evaluation"].as_str().unwrap();
        let requests = engine.stats().requests;
        let items = done(&bench, &["items", id, "--json"]).output;
        let killed = up(&bench, Some(point)).wait(PATIENCE).unwrap();
        assert!(!killed.success(), "{} was not reached", point.name());
        assert_eq!(done(&bench, &["items", id, "--json"]).output, items, "{}", point.name());
        let mut next = up(&bench, None);
        wait_until(|| {
            let listed = done(&bench, &["archive", "list", "--json"]).json().unwrap();
            listed
                .as_array()
                .unwrap()
                .iter()
                .all(|archive| archive["state"] == "purged")
        });
        next.terminate().unwrap();
        next.wait(PATIENCE).unwrap();
        assert_eq!(done(&bench, &["items", id, "--json"]).output, items, "{}", point.name());
        assert_eq!(run(&command).json().unwrap(), result, "{}", point.name());
        assert_eq!(engine.stats().requests, requests, "{}", point.name());
    }
}

#[test]
fn a_kill_while_an_archived_evaluation_is_put_back_costs_no_request() {
    let items = 40;
    for point in PUTTING_BACK {
        let (bench, engine) = (Workbench::new(items).unwrap(), slow_engine());
        let command = impatient(&bench, &engine);
        let invalid = lose_the_engine(&command, &engine);
        let id = invalid["evaluation"].as_str().unwrap();
        let archived = done(&bench, &["archive", "now", id, "--purge", "--json"])
            .json()
            .unwrap();
        let kept = archived["completions"].as_u64().unwrap();
        let before = done(&bench, &["items", id, "--json"]).output;
        engine.set_down(false).unwrap();
        let mut killed = Service::tidemill()
            .unwrap()
            .args(&command)
            .env("TIDEMILL_FAULT", format!("{}:1", point.name()))
            .env_remove("NATS_URL")
            .spawn()
            .unwrap();
        assert!(
            !killed.wait(PATIENCE).unwrap().success(),
            "{} was not reached",
            point.name()
        );
        assert_eq!(
            done(&bench, &["items", id, "--json"]).output,
            before,
            "{}",
            point.name()
        );
        let earlier = engine.stats().requests;
        let again = run(&command);
        assert_eq!(again.json().unwrap()["state"], "final", "{}", again.log);
        let asked = engine.stats().requests - earlier;
        assert!(
            asked <= Workbench::requests(items) - kept + 2,
            "{}: {asked} requests",
            point.name()
        );
    }
}

#[test]
fn every_point_after_an_end_is_killed_at_by_a_test_here() {
    let names = |points: &mut dyn Iterator<Item = &Point>| points.map(|point| point.name()).collect::<BTreeSet<_>>();
    assert_eq!(
        names(&mut Point::ALL.iter().filter(|point| point.is_after_end())),
        names(&mut ARCHIVING.iter().chain(&PUTTING_BACK))
    );
}

#[test]
fn an_object_store_that_takes_nothing_is_shown_by_doctor_and_waited_for() {
    let bench = Workbench::new(10).unwrap();
    let engine = FakeEngine::builder().respond(Workbench::answer).start().unwrap();
    let first = run(&bench.evaluate(&engine.url(), engine.model()));
    let result = first.json().unwrap();
    let id = result["evaluation"].as_str().unwrap();
    let items = done(&bench, &["items", id, "--json"]).output;
    // A file where the folder should be: nothing can be written below it.
    let blocked = bench.write("data/objects/archive", "").unwrap();
    let data = bench.text("data");
    let mut services = up(&bench, None);
    let mut said = String::new();
    wait_until(|| {
        let doctor = tidemill(&["doctor", "--json", "--data-dir", &data]).unwrap();
        let findings = doctor.json().unwrap();
        let found = findings
            .as_array()
            .unwrap()
            .iter()
            .find(|finding| finding["check"] == "archive")
            .cloned();
        let found = found.unwrap();
        said = found["detail"].as_str().unwrap().to_owned();
        doctor.code == Some(1) && found["ok"] == false
    });
    for part in ["1 wait to be archived", id, "archive/", "nothing is purged"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!(done(&bench, &["items", id, "--json"]).output, items);
    std::fs::remove_file(blocked).unwrap();
    wait_until(|| {
        let listed = done(&bench, &["archive", "list", "--json"]).json().unwrap();
        listed[0]["state"] == "purged"
    });
    assert_eq!(done(&bench, &["items", id, "--json"]).output, items);
    services.terminate().unwrap();
    services.wait(PATIENCE).unwrap();
}

/// The second engine gets sums over 40 wrong that the first has right.
fn weaker(request: &tidemill_testkit::engine::Request) -> tidemill_testkit::Reply {
    let numbers = request.prompt.split(|character: char| !character.is_ascii_digit());
    let sum: u64 = numbers.filter_map(|digits| digits.parse::<u64>().ok()).take(2).sum();
    if sum > 40 {
        return tidemill_testkit::Reply::text(" 0");
    }
    Workbench::answer(request)
}

#[test]
fn two_checkpoints_are_compared_item_by_item_wherever_their_items_are() {
    let bench = Workbench::new(20).unwrap();
    let strong = FakeEngine::builder().respond(Workbench::answer).start().unwrap();
    let weak = FakeEngine::builder().respond(weaker).start().unwrap();
    let evaluate = |engine: &FakeEngine, step: &str| {
        let mut command = bench.evaluate(&engine.url(), engine.model());
        command.extend(["--run", "sums", "--step", step].map(str::to_owned));
        let ran = run(&command);
        assert_eq!(ran.code, Some(0), "{}", ran.log);
        ran.json().unwrap()
    };
    let first = evaluate(&strong, "1");
    let second = evaluate(&weak, "2");

    let compared = done(&bench, &["compare", "sums@1", "sums@2", "--json"]);
    let report = compared.json().unwrap();
    let [exact, chat, likelihood] = report["benchmarks"].as_array().unwrap().as_slice() else {
        panic!("{report}")
    };
    let mean = |result: &Value, index: usize| result["benchmarks"][index]["mean"].as_f64().unwrap();
    for (row, index) in [(exact, 0), (chat, 1), (likelihood, 2)] {
        let difference = row["difference"].as_f64().unwrap();
        assert!(
            (difference - (mean(&second, index) - mean(&first, index))).abs() < 1e-12,
            "{row}"
        );
    }
    // The sums are 1, 5, 9, ..., 77, of which each fifth is beyond the strong engine: 8 of the 10 over 40 are lost.
    assert_eq!(
        (&exact["losses"], &exact["wins"], &exact["ties"]),
        (&8.into(), &0.into(), &12.into())
    );
    assert_eq!(exact["test"], "mcnemar_exact");
    let (p, adjusted) = (exact["p"].as_f64().unwrap(), exact["p_holm"].as_f64().unwrap());
    assert!((p - 2.0 / 256.0).abs() < 1e-12, "{p}");
    assert!(p < adjusted && adjusted <= 3.0 * p, "{adjusted}");
    assert_eq!((&chat["test"], &chat["items"]), (&"paired_t".into(), &20.into()));

    let by_metric = ["compare", "sums@1", "sums@2", "--metric", "accuracy_raw", "--json"];
    let measured = done(&bench, &by_metric).json().unwrap();
    assert_eq!(measured["without_metric"], serde_json::json!(["exact", "chat"]));
    assert_eq!(measured["benchmarks"][0]["difference"], likelihood["difference"]);
    let unknown = tidemill(&[
        "compare",
        "sums@1",
        "sums@2",
        "--metric",
        "bleu",
        "--data-dir",
        &bench.text("data"),
    ])
    .unwrap();
    assert!(
        unknown
            .log
            .contains("there are accuracy_per_byte, accuracy_per_token, accuracy_raw"),
        "{}",
        unknown.log
    );

    // From an archive it is the same, byte for byte.
    let id = first["evaluation"].as_str().unwrap();
    done(&bench, &["archive", "now", id, "--purge"]);
    assert_eq!(
        done(&bench, &["compare", "sums@1", "sums@2", "--json"]).output,
        compared.output
    );

    let data = bench.text("data");
    let dropped = tidemill(&["compare", "sums@1", "sums@2", "--max-drop", "0.1", "--data-dir", &data]).unwrap();
    assert_eq!(dropped.code, Some(1), "{}", dropped.log);
    assert!(
        dropped.output.contains("DROPPED by more than 10.0 points: exact"),
        "{}",
        dropped.output
    );
    done(&bench, &["compare", "sums@2", "sums@1", "--max-drop", "0.1"]);

    let suite = std::fs::read_to_string(bench.path("suite.toml")).unwrap();
    let other = suite
        .replace("version = \"1\"", "version = \"2\"")
        .replace("0.5", "0.7");
    bench.write("suite.toml", &other).unwrap();
    evaluate(&weak, "3");
    let refused = tidemill(&["compare", "sums@1", "sums@3", "--data-dir", &data]).unwrap();
    assert_eq!(refused.code, Some(2), "{}", refused.output);
    for part in [
        "suite version 1 against 2",
        "chat: temperature 0.5 against 0.7",
        "--allow suite --allow temperature",
    ] {
        assert!(refused.log.contains(part), "{part} is not in {}", refused.log);
    }
    let allowed = done(
        &bench,
        &[
            "compare",
            "sums@1",
            "sums@3",
            "--allow",
            "suite",
            "--allow",
            "temperature",
            "--json",
        ],
    );
    assert_eq!(allowed.json().unwrap()["allowed"].as_array().unwrap().len(), 2);
}
