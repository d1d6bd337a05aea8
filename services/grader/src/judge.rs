//! Family `judge`: another model says what an answer is worth.
//!
//! Here is what it is asked and what its replies mean, which are pure; [`grammar`] reads a reply, [`pace`] says how many
//! requests there may be, [`endpoint`] sends them, and [`verdicts`] knows what was said before.

pub(crate) mod endpoint;
mod grammar;
mod pace;
mod queue;
mod runner;
pub(crate) mod verdicts;

use std::collections::BTreeMap;

use tidemill_domain::{
    ANSWER_MARK, FIRST_MARK, Item, JUDGE_PROMPT, JUDGE_REFERENCE, JUDGE_SYSTEM, JudgeCost, JudgeSpec, Message,
    SECOND_MARK,
};

use self::grammar::Verdict;
use crate::Error;
use crate::answer::{Answer, Credit, Finding};

pub(crate) const NAME: &str = "judge@1";

const EXTRACTOR: &str = "verdict@1";

/// Longer answers are sent to no judge: none has room for them, and each request would carry all of it.
const LONGEST_ANSWER_BYTES: usize = 512 << 10;

/// How much of a reply without a verdict the judge is shown again, from its end.
const SHOWN_AGAIN_BYTES: usize = 2_000;

/// A benchmark's grader by a judge.
#[derive(Debug, Clone)]
pub(crate) struct Judge {
    pub(crate) spec: JudgeSpec,
}

/// The verdicts of one order in which answers were shown.
type Ballot = Vec<Verdict>;

impl Judge {
    /// What the judge is asked of an answer, once for each order; `None` where there is no answer.
    fn questions(&self, item: &Item, answer: &Answer<'_>) -> Result<Option<Vec<Vec<Message>>>, Error> {
        let text = answer.text().trim();
        if text.is_empty() {
            return Ok(None);
        }
        if text.len() > LONGEST_ANSWER_BYTES {
            return Err(Error::NoVerdict {
                reason: format!(
                    "an answer of {} bytes is shown to no judge; the most is {LONGEST_ANSWER_BYTES}",
                    text.len()
                ),
                cost: JudgeCost::default(),
            });
        }
        let template = item
            .material(JUDGE_PROMPT)
            .ok_or(Error::Material { name: JUDGE_PROMPT })?;
        let question = |first: &str, second: &str| {
            let filled = |template: &str| filled(template, text, first, second);
            let system = item
                .material(JUDGE_SYSTEM)
                .map(|system| message("system", filled(system)));
            system.into_iter().chain([message("user", filled(template))]).collect()
        };
        if !self.spec.is_pair {
            return Ok(Some(vec![question("", "")]));
        }
        let reference = item
            .material(JUDGE_REFERENCE)
            .or(item.targets.first().map(String::as_str));
        let reference = reference.ok_or(Error::Material { name: JUDGE_REFERENCE })?;
        Ok(Some(vec![question(text, reference), question(reference, text)]))
    }

    /// What is asked after a reply without a verdict.
    fn again(&self, asked: &[Message], reply: &str) -> Vec<Message> {
        let mut messages = asked.to_vec();
        let shown = tail(reply.trim(), SHOWN_AGAIN_BYTES);
        if !shown.is_empty() {
            messages.push(message("assistant", shown.to_owned()));
            let wanted = self.spec.wanted();
            messages.push(message("user", format!("That holds no verdict. Reply with {wanted}.")));
        }
        messages
    }

    /// What the ballots mean: one of an answer alone, or one of each order of two.
    ///
    /// The middle verdict of a ballot counts, which is what most say wherever most say the same.
    fn settled(&self, ballots: &[Ballot], model: &str) -> Result<(Finding, bool), Error> {
        let middles = ballots.iter().map(|ballot| middle(ballot));
        let middles: Vec<&Verdict> = middles.collect::<Option<_>>().ok_or_else(|| Error::NoVerdict {
            reason: "no verdict was asked for".to_owned(),
            cost: JudgeCost::default(),
        })?;
        let distributions: Vec<String> = ballots.iter().map(|ballot| distribution(ballot)).collect();
        let (finding, disagreed, said) = match (middles.as_slice(), distributions.as_slice()) {
            ([first, second], [one, other]) => {
                let (first, second) = (first.worth, 1.0 - second.worth);
                let disagreed = (first - second).abs() > 1e-9;
                let worth = if disagreed { 0.5 } else { first };
                let finding = Finding::new(EXTRACTOR, winner(worth), Credit::Part(worth));
                let mark = if disagreed {
                    "; the orders disagree, so it is a tie"
                } else {
                    ""
                };
                (
                    finding,
                    disagreed,
                    format!("shown first {one}; shown second {other}{mark}"),
                )
            }
            _ => {
                let verdict = middles[0];
                let credit = if self.is_whole() {
                    Credit::Whole(verdict.worth >= 1.0)
                } else {
                    Credit::Part(verdict.worth)
                };
                let finding = Finding::new(EXTRACTOR, &verdict.word, credit);
                (finding, false, distributions.join("; "))
            }
        };
        let reason = Some(format!("{said} [judge: {model}]"));
        Ok((Finding { reason, ..finding }, disagreed))
    }

    /// Every verdict says right or wrong.
    fn is_whole(&self) -> bool {
        match &self.spec.verdicts {
            tidemill_domain::Verdicts::Words(words) => words.iter().all(|(_, worth)| *worth == 0.0 || *worth == 1.0),
            tidemill_domain::Verdicts::Scale { .. } => false,
        }
    }
}

fn message(role: &str, content: String) -> Message {
    Message {
        role: role.to_owned(),
        content,
    }
}

/// A template with the answers in their places. What the answers themselves hold is left as it is.
fn filled(template: &str, answer: &str, first: &str, second: &str) -> String {
    let mut text = String::with_capacity(template.len() + answer.len());
    let mut rest = template;
    loop {
        let marks = [(ANSWER_MARK, answer), (FIRST_MARK, first), (SECOND_MARK, second)];
        let found = marks
            .into_iter()
            .filter_map(|(mark, content)| rest.find(mark).map(|at| (at, mark, content)))
            .min_by_key(|(at, ..)| *at);
        let Some((at, mark, content)) = found else {
            text.push_str(rest);
            return text;
        };
        text.push_str(&rest[..at]);
        text.push_str(content);
        rest = &rest[at + mark.len()..];
    }
}

fn middle(ballot: &[Verdict]) -> Option<&Verdict> {
    let mut sorted: Vec<&Verdict> = ballot.iter().collect();
    sorted.sort_by(|left, right| left.worth.total_cmp(&right.worth));
    sorted.get(sorted.len() / 2).copied()
}

fn winner(worth: f64) -> &'static str {
    if worth > 0.5 {
        "win"
    } else if worth < 0.5 {
        "loss"
    } else {
        "tie"
    }
}

/// Each verdict and how often it was given, the most frequent first.
fn distribution(ballot: &[Verdict]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for verdict in ballot {
        *counts.entry(&verdict.word).or_default() += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let parts: Vec<String> = counts
        .into_iter()
        .map(|(word, count)| format!("{word} {count}"))
        .collect();
    parts.join(", ")
}

/// The last bytes of a text, from a whole character on.
fn tail(text: &str, most: usize) -> &str {
    let start = text.len().saturating_sub(most);
    let start = (start..=text.len()).find(|index| text.is_char_boundary(*index));
    start.map_or("", |start| &text[start..])
}

#[cfg(test)]
#[path = "judge_tests.rs"]
pub(crate) mod tests;

#[cfg(test)]
#[path = "judged_tests.rs"]
pub(crate) mod judged_tests;
