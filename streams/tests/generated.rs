//! `STREAMS.md` and the schemas are what the declarations say; `UPDATE_GENERATED=1` (`make schemas`) writes them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may fail this way"
)]

use std::path::Path;

fn same(file: &str, content: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    if std::env::var_os("UPDATE_GENERATED").is_some() {
        std::fs::write(&path, content).unwrap();
    }
    assert_eq!(
        std::fs::read_to_string(&path).unwrap_or_default(),
        content,
        "{file} is stale: run `make schemas`"
    );
}

#[test]
fn streams_page_is_current() {
    same("STREAMS.md", &tidemill_streams::render::markdown());
}

#[test]
fn schemas_are_current() {
    for published in tidemill_streams::schema::published() {
        let text = serde_json::to_string_pretty(&published.schema).unwrap();
        same(&format!("schemas/{}", published.file), &format!("{text}\n"));
    }
}
