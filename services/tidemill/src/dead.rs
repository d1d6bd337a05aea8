//! Dead letters for operators: list, show, retry, drop.

use anyhow::{Context as _, anyhow, bail};
use serde_json::{Value, json};
use tidemill_codec::{Body, Envelope};
use tidemill_domain::{counted, counted_as};
use tidemill_service::dead::{self, Dropped, Letter, Retried};
use tidemill_service::{Context, Failure, outcome};

use crate::arguments::{Dead, DeadAction, DeadFilter, DeadSelection, Place};
use crate::exit::Done;
use crate::output;
use crate::session::{self, Need, Session};

pub(crate) fn run(args: Dead) -> anyhow::Result<Done> {
    let place = match &args.action {
        DeadAction::List(args) => &args.place,
        DeadAction::Show(args) => &args.place,
        DeadAction::Retry(args) => &args.place,
        DeadAction::Drop(args) => &args.place,
    };
    let place: Place = place.clone();
    let config = session::configuration(&place, "error")?;
    session::block_on(async {
        let session = Session::open(&place, config, Need::Any).await?;
        let done = Box::pin(act(&session.context, &args.action)).await;
        session.close().await;
        done
    })
}

async fn act(context: &Context, action: &DeadAction) -> anyhow::Result<Done> {
    match action {
        DeadAction::List(args) => list(context, &args.filter, args.json).await,
        DeadAction::Show(args) => show(context, args.sequence, args.json).await,
        DeadAction::Retry(args) => {
            let chosen = chosen(context, &args.selection).await?;
            let mut said = Said::new("retried", args.json);
            for sequence in chosen {
                let (letter, payload) = taken(context, sequence).await?;
                match dead::retry(context, &letter, payload).await.map_err(unanswered)? {
                    Retried::Published => said.done(&letter, "published again")?,
                    Retried::NoEffect(reason) => said.without_effect(&letter, &reason)?,
                }
            }
            said.end()
        }
        DeadAction::Drop(args) => {
            let chosen = chosen(context, &args.selection).await?;
            let mut said = Said::new("dropped", args.json);
            for sequence in chosen {
                let (letter, payload) = taken(context, sequence).await?;
                let dropped = dead::discard(context, &letter, &payload, &args.reason).await;
                match dropped.map_err(unanswered)? {
                    Dropped::Recorded => said.done(&letter, "its item ends as a failure")?,
                    Dropped::Removed(reason) => said.done(&letter, &format!("no outcome was recorded: {reason}"))?,
                }
            }
            said.end()
        }
    }
}

fn unanswered(failure: Failure) -> anyhow::Error {
    anyhow!("{}; nothing is lost: the same command again goes on", failure.reason)
}

/// What stands about a letter's item.
async fn state(context: &Context, letter: &Letter) -> anyhow::Result<&'static str> {
    let Some(on) = letter.subject.as_deref() else {
        return Ok("kept");
    };
    if outcome::is_recorded(context, on).await.map_err(unanswered)? {
        return Ok("recorded");
    }
    Ok(if letter.is_held { "held" } else { "kept" })
}

fn is_wanted(letter: &Letter, filter: &DeadFilter) -> bool {
    let evaluation = letter.key().map(|key| key.evaluation);
    filter.stage.as_ref().is_none_or(|stage| letter.stage == *stage)
        && filter
            .evaluation
            .as_ref()
            .is_none_or(|wanted| evaluation.as_ref() == Some(wanted))
}

async fn list(context: &Context, filter: &DeadFilter, as_json: bool) -> anyhow::Result<Done> {
    let letters = dead::letters(context).await.map_err(unanswered)?;
    let mut rows = Vec::new();
    for letter in letters.iter().filter(|letter| is_wanted(letter, filter)) {
        rows.push((letter, state(context, letter).await?));
    }
    if as_json {
        let rows: Vec<Value> = rows.iter().map(|(letter, state)| described(letter, state)).collect();
        output::data(&serde_json::to_string_pretty(&rows)?)?;
        return Ok(Done::Valid);
    }
    for (letter, state) in &rows {
        let subject = letter.subject.as_deref().unwrap_or("-");
        output::data(&format!(
            "{:>6}  {}  {:10} {state:8} {subject}  {}",
            letter.sequence,
            letter.at.rfc3339(),
            letter.stage,
            letter.reason
        ))?;
    }
    let held = rows.iter().filter(|(_, state)| *state == "held").count();
    output::note(&match (rows.len(), held) {
        (0, _) => "no dead letters".to_owned(),
        (count, 0) => format!(
            "{}; no item waits for one: `tidemill dead drop` removes dead letters",
            counted(count as u64, "dead letter")
        ),
        (count, held) => format!(
            "{}; {} held open: remove the cause, then `tidemill dead retry`, or give them up with `tidemill dead drop`",
            counted(count as u64, "dead letter"),
            counted_as(held as u64, "item is", "items are")
        ),
    });
    Ok(Done::Valid)
}

fn described(letter: &Letter, state: &str) -> Value {
    json!({
        "sequence": letter.sequence,
        "at": letter.at,
        "stage": letter.stage,
        "state": state,
        "evaluation": letter.key().map(|key| key.evaluation),
        "subject": letter.subject,
        "reason": letter.reason,
        "class": letter.class,
        "failures": letter.failures,
        "deliveries": letter.deliveries,
        "stream": letter.origin.as_ref().map(|origin| &origin.stream),
        "stream_sequence": letter.origin.as_ref().map(|origin| origin.sequence),
        "advisory": letter.is_advisory,
    })
}

async fn taken(context: &Context, sequence: u64) -> anyhow::Result<(Letter, Vec<u8>)> {
    let letter = dead::letter(context, sequence).await.map_err(unanswered)?;
    letter.with_context(|| format!("no dead letter {sequence} here; `tidemill dead list` shows them"))
}

async fn show(context: &Context, sequence: u64, as_json: bool) -> anyhow::Result<Done> {
    let (letter, payload) = taken(context, sequence).await?;
    let mut shown = described(&letter, state(context, &letter).await?);
    shown["bytes"] = json!(payload.len());
    shown["content"] = json!(content(&payload));
    if as_json {
        shown["payload_hex"] = json!(hex(&payload));
        output::data(&serde_json::to_string_pretty(&shown)?)?;
        return Ok(Done::Valid);
    }
    for (field, value) in shown.as_object().into_iter().flatten() {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        output::data(&format!("{field:16} {text}"))?;
    }
    Ok(Done::Valid)
}

/// Bytes that are shown of a payload that is no text.
const SHOWN_BYTES: usize = 64;

/// What a payload is, as far as it says.
fn content(payload: &[u8]) -> String {
    match Envelope::open(payload) {
        Ok(Envelope { schema, version, body }) => {
            let body = match body {
                Body::Here(body) => format!("{} bytes", body.len()),
                Body::Claimed(key) => format!("in the object store under {key}"),
            };
            format!("schema {schema}, version {version}, body {body}")
        }
        Err(_) => match std::str::from_utf8(payload) {
            Ok(text) => format!("text: {}", text.chars().take(500).collect::<String>()),
            Err(_) => format!("bytes: {}", hex(&payload[..payload.len().min(SHOWN_BYTES)])),
        },
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The sequences that are chosen. A named one that is not there is refused before anything is done.
async fn chosen(context: &Context, selection: &DeadSelection) -> anyhow::Result<Vec<u64>> {
    let letters = dead::letters(context).await.map_err(unanswered)?;
    let filter = DeadFilter {
        stage: selection.stage.clone(),
        evaluation: selection.evaluation.clone(),
    };
    if selection.sequences.is_empty() {
        let wanted = letters.iter().filter(|letter| is_wanted(letter, &filter));
        return Ok(wanted.map(|letter| letter.sequence).collect());
    }
    for sequence in &selection.sequences {
        if !letters.iter().any(|letter| letter.sequence == *sequence) {
            bail!("no dead letter {sequence} here; `tidemill dead list` shows them");
        }
    }
    Ok(selection.sequences.clone())
}

/// What was done with each letter, told as it is done.
struct Said {
    verb: &'static str,
    as_json: bool,
    done: usize,
    without_effect: usize,
}

impl Said {
    const fn new(verb: &'static str, as_json: bool) -> Self {
        Self {
            verb,
            as_json,
            done: 0,
            without_effect: 0,
        }
    }

    fn done(&mut self, letter: &Letter, detail: &str) -> anyhow::Result<()> {
        self.done += 1;
        self.say(letter, self.verb, detail)
    }

    fn without_effect(&mut self, letter: &Letter, reason: &str) -> anyhow::Result<()> {
        self.without_effect += 1;
        self.say(letter, "no_effect", reason)
    }

    fn say(&self, letter: &Letter, result: &str, detail: &str) -> anyhow::Result<()> {
        let subject = letter.subject.as_deref().unwrap_or("-");
        if self.as_json {
            let line = json!({ "sequence": letter.sequence, "subject": subject, "result": result, "detail": detail });
            return output::data(&line.to_string());
        }
        let result = result.replace('_', " ");
        output::data(&format!("{:>6}  {subject}  {result}: {detail}", letter.sequence))
    }

    fn end(&self) -> anyhow::Result<Done> {
        output::note(&match (self.done, self.without_effect) {
            (0, 0) => "no dead letter is chosen by that".to_owned(),
            (done, 0) => format!("{done} {}", self.verb),
            (done, without) => format!("{done} {}; {without} without effect, which stay", self.verb),
        });
        Ok(if self.without_effect == 0 {
            Done::Valid
        } else {
            Done::Invalid
        })
    }
}
