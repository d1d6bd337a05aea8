//! The declarations as a page for people: `STREAMS.md`.

use std::time::Duration;

use crate::{Retention, Stream, buckets, declared, durable};

/// Renders every declaration as Markdown.
#[must_use]
pub fn markdown() -> String {
    let mut page = String::from(
        "# Streams, consumers and buckets\n\n\
         Rendered from `streams/src`; `make schemas` writes it again. All streams are file-backed, and all but CACHE refuse\n\
         new messages when they are full. Tokens in subjects are percent-encoded where a name holds `.`, `*`, `>`, `%` or white space.\n\n\
         | stream | subjects | one message is | producer | consumer | kept | per subject | bytes |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for stream in declared::ALL {
        stream_row(&mut page, &stream);
    }
    page.push_str(
        "\n| durable | stream | filter | ack wait | most unacknowledged |\n| --- | --- | --- | --- | --- |\n",
    );
    for durable in durable::fixed() {
        durable_row(&mut page, &durable.name, &durable, &durable.max_ack_pending.to_string());
    }
    let group = tidemill_domain::GroupId::from_digest(&tidemill_domain::Digest::of(b""));
    let mut generator = durable::generator(&group, 1);
    generator.filter = generator.filter.replace(group.as_str(), "<group>");
    durable_row(&mut page, "generator-<group>", &generator, "the group's slots");
    page.push_str("\n| bucket | holds | an entry lives |\n| --- | --- | --- |\n");
    for bucket in buckets::ALL {
        push(
            &mut page,
            format_args!("| {} | {} | {} |\n", bucket.name, bucket.purpose, age(bucket.max_age)),
        );
    }
    page
}

/// What the archiver takes from the broker when it stands in the archive.
const ARCHIVED: [Stream; 2] = [declared::DONE, declared::GRADE];

fn stream_row(page: &mut String, stream: &Stream) {
    let kept = match stream.retention {
        Retention::Limits if ARCHIVED.contains(stream) => "until `archive.keep` after it is archived".to_owned(),
        Retention::Limits => age(stream.max_age),
        Retention::WorkQueue => "until acknowledged".to_owned(),
        Retention::Cache => "until full, then the oldest go".to_owned(),
    };
    let per_subject = stream
        .max_messages_per_subject
        .map_or("any".to_owned(), |most| most.to_string());
    push(
        page,
        format_args!(
            "| {} | `{}` | {} | {} | {} | {kept} | {per_subject} | {} MiB |\n",
            stream.name,
            stream.subjects.join("`, `"),
            stream.purpose,
            stream.producer,
            stream.consumer,
            stream.max_bytes >> 20
        ),
    );
}

fn durable_row(page: &mut String, name: &str, durable: &durable::Durable, most: &str) {
    push(
        page,
        format_args!(
            "| {name} | {} | `{}` | {} s | {most} |\n",
            durable.stream.name,
            durable.filter,
            durable.ack_wait.as_secs()
        ),
    );
}

fn age(age: Option<Duration>) -> String {
    match age.map(|age| age.as_secs()) {
        None => "for good".to_owned(),
        Some(seconds) if seconds >= 86_400 => format!("{} days", seconds / 86_400),
        Some(seconds) => format!("{seconds} s"),
    }
}

fn push(page: &mut String, text: std::fmt::Arguments<'_>) {
    page.push_str(&text.to_string());
}
