//! `docs/configuration.md` is what the sections say of their keys; `UPDATE_GENERATED=1` (`make schemas`) writes it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail this way")]

use std::fmt::Write as _;
use std::path::Path;

const SECTIONS: &str = include_str!("../src/sections.rs");

/// The structures of sections and where their keys stand in the file, in the order of the page.
const PLACES: [(&str, &str); 11] = [
    ("Service", "[service]"),
    ("Broker", "[broker]"),
    ("Storage", "[storage]"),
    ("Loader", "[loader]"),
    ("Generator", "[generator]"),
    ("Grader", "[grader]"),
    ("Judge", "[grader.judge.NAME]"),
    ("Sandbox", "[grader.sandbox]"),
    ("Aggregator", "[aggregator]"),
    ("Archive", "[archive]"),
    ("Cache", "[cache]"),
];

const HEAD: &str = "# Configuration

Written from `shared/config/src/sections.rs`; `make schemas` writes it again. One TOML file serves every service and command:
`--config FILE`. A variable of the environment goes before the file: `TIDEMILL_LOADER__MAX_IN_FLIGHT=64` sets `max_in_flight` of
`[loader]`. `tidemill up --dump-config` prints what holds. A key that is not here is refused, with those that are.

Not in the file: `NATS_URL` and `TIDEMILL_STORE` (as `--nats` and `--store`), `TIDEMILL_ENGINE_API_KEY` (the key of engines that
want one), `TIDEMILL_NATS_SERVER` (the program of an own broker).
";

/// The documented keys of a structure, and what is said of it.
fn keys(name: &str) -> (String, Vec<(String, String)>) {
    let (mut said, mut about, mut keys, mut is_inside) = (String::new(), String::new(), Vec::new(), false);
    for line in SECTIONS.lines().map(str::trim) {
        if let Some(text) = line.strip_prefix("/// ") {
            said.push_str(if said.is_empty() { "" } else { " " });
            said.push_str(text);
        } else if line == format!("pub struct {name} {{") {
            (about, is_inside) = (std::mem::take(&mut said), true);
        } else if is_inside && line == "}" {
            break;
        } else if let Some((key, _)) = line.strip_prefix("pub ").and_then(|line| line.split_once(':'))
            && is_inside
        {
            keys.push((key.to_owned(), std::mem::take(&mut said)));
        } else if !line.starts_with("#[") {
            said.clear();
        }
    }
    (about, keys)
}

fn page() -> String {
    let mut page = HEAD.to_owned();
    for (name, place) in PLACES {
        let (about, keys) = keys(name);
        assert!(!keys.is_empty(), "{name} has no keys");
        write!(
            page,
            "\n## `{place}`\n\n{about}\n\n| key | what it is |\n| --- | --- |\n"
        )
        .unwrap();
        for (key, said) in keys {
            assert!(!said.is_empty(), "{key} of {name} says nothing");
            writeln!(page, "| `{key}` | {} |", said.replace('|', "\\|")).unwrap();
        }
    }
    page
}

#[test]
fn the_page_of_keys_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let page = page();
    if std::env::var_os("UPDATE_GENERATED").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(written, page, "docs/configuration.md is stale: run `make schemas`");
}

#[test]
fn every_section_stands_on_the_page() {
    let declared = SECTIONS
        .lines()
        .filter_map(|line| line.strip_prefix("pub struct ")?.strip_suffix(" {"));
    let missing: Vec<&str> = declared
        .filter(|name| *name != "Config" && !PLACES.iter().any(|(placed, _)| placed == name))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}
