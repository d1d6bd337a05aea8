//! From a completion to a grade: which ending is graded at all, and what the finding means.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use tidemill_domain::{
    Aggregation, Completion, Ending, Grade, GraderSpec, Item, JudgeCost, Measured, Metric, Outcome, Reasoning, Span,
    Timestamp,
};

use crate::answer::{Answer, Credit, Finding};
use crate::choice::Choice;
use crate::code::Code;
use crate::command::Command;
use crate::exact::Exact;
use crate::family::Family;
use crate::instructions::Instructions;
use crate::json_schema::JsonSchema;
use crate::judge::Judge;
use crate::likelihood::Likelihood;
use crate::maths::Math;
use crate::numeric::Numeric;
use crate::overlap::{Bleu, Chrf, F1, Rouge};
use crate::pipelines::Pipelines;
use crate::regex::Regex;
use crate::runner::{Runner, Runners};
use crate::{Error, Postponed, command, likelihood};

/// Grades one completion of an item. To grade many, build a [`Grader`] once: it compiles the pattern.
#[must_use]
pub fn grade(spec: &GraderSpec, item: &Item, completion: &Completion, now: Timestamp) -> Grade {
    Grader::new(spec, &Reasoning::default()).grade(item, completion, now)
}

/// A benchmark's grader, ready for any number of completions.
#[derive(Debug, Clone)]
pub struct Grader {
    /// A suite's bad pattern is the outcome of each of its samples, so that it shows in the result and stops nothing else.
    way: Result<Way, Error>,
    kind: &'static str,
    reasoning: Reasoning,
    /// The benchmark's metrics that grades measure; none where something else does.
    metrics: Arc<[Option<Wanted>]>,
}

/// A metric that grades measure.
#[derive(Debug, Clone)]
struct Wanted {
    name: String,
    /// It is a mean of which more is better, so what has no whole answer adds 0, as it does to the score.
    counts_from_0: bool,
}

/// What a grade is made from.
#[derive(Debug, Clone)]
enum Way {
    /// The text of the answer.
    Text(Arc<dyn Family>),
    /// The log-probabilities of the choices.
    Choices(Likelihood),
    /// The text of the answer or the log-probabilities of the choices, whichever the task asked for.
    Pipelines(Arc<Pipelines>),
    /// The text of the answer, and what something outside of this process says of it.
    Outside(Arc<dyn Runner>),
}

impl Grader {
    /// Prepares the grader that a manifest names, for answers whose reasoning is marked so.
    #[must_use]
    pub fn new(spec: &GraderSpec, reasoning: &Reasoning) -> Self {
        Self {
            way: way(spec),
            kind: spec.kind(),
            reasoning: reasoning.clone(),
            metrics: Arc::default(),
        }
    }

    /// Has grades carry what they add to these metrics, in this order.
    #[must_use]
    pub fn measuring(self, metrics: &[Metric]) -> Self {
        let wanted = |metric: &Metric| {
            metric.source.is_measure().then(|| Wanted {
                name: metric.name.clone(),
                counts_from_0: metric.aggregation == Aggregation::Mean && metric.higher_is_better,
            })
        };
        Self {
            metrics: metrics.iter().map(wanted).collect(),
            ..self
        }
    }

    /// Kind and version, as grades carry it; the kind alone of one that could not be prepared.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match &self.way {
            Ok(Way::Text(family)) => family.name(),
            Ok(Way::Choices(_)) => likelihood::NAME,
            Ok(Way::Pipelines(pipelines)) => pipelines.name(),
            Ok(Way::Outside(runner)) => runner.name(),
            Err(_) => self.kind,
        }
    }

    /// Whether something outside of this process must be asked: then only [`Grader::grade_with`] gives a grade.
    #[must_use]
    pub const fn is_outside(&self) -> bool {
        matches!(self.way, Ok(Way::Outside(_)))
    }

    /// Grades one completion. Never panics: a family that does becomes the outcome `grader_error`.
    #[must_use]
    pub fn grade(&self, item: &Item, completion: &Completion, now: Timestamp) -> Grade {
        let verdict = match outcome_without_grading(completion) {
            Some(outcome) => Verdict {
                reason: completion.detail.clone(),
                ..self.without_answer(outcome, item)
            },
            None => self.verdict(guarded(|| self.judge(item, completion)), item, completion),
        };
        self.filled(verdict, completion, now)
    }

    /// Grades one completion, also by what has to be run or asked for that. `clock` is read once the verdict is there.
    ///
    /// # Errors
    /// [`Postponed`] where it cannot be graded now, which says nothing of the completion.
    ///
    /// # Cancel safety
    /// What runs ends, and nothing is graded.
    pub async fn grade_with(
        &self,
        runners: &Runners,
        item: &Item,
        completion: &Completion,
        clock: fn() -> Timestamp,
    ) -> Result<Grade, Postponed> {
        let answer = match (&self.way, completion.ending) {
            (Ok(Way::Outside(_)), Ending::Scored) => None,
            (Ok(Way::Outside(runner)), _) if outcome_without_grading(completion).is_none() => {
                Answer::of(&completion.text, &self.reasoning).map(|answer| (runner, answer))
            }
            _ => None,
        };
        match answer {
            Some((runner, answer)) => {
                let judged = runner.judge(runners, item, &answer).await;
                if let Err(Error::Postponed(postponed)) = judged {
                    return Err(postponed);
                }
                Ok(self.filled(self.verdict(judged, item, completion), completion, clock()))
            }
            None => Ok(self.grade(item, completion, clock())),
        }
    }

    fn filled(&self, verdict: Verdict, completion: &Completion, now: Timestamp) -> Grade {
        Grade {
            key: completion.key.clone(),
            outcome: verdict.outcome,
            score: verdict.score,
            score_before_cut: verdict.score_before_cut,
            extracted: verdict.extracted,
            grader: self.name().to_owned(),
            reason: verdict.reason,
            truncated: is_cut(completion),
            cut_in_reasoning: is_cut(completion) && self.is_all_reasoning(completion),
            replaced: completion.replaced_characters() > 0,
            prompt_tokens: completion.prompt_tokens,
            completion_tokens: completion.completion_tokens,
            requests: completion.requests,
            cached: completion.cached,
            served: completion.served,
            started: completion.started,
            finished: completion.finished,
            graded: now,
            extractor: verdict.extractor,
            span: verdict.span,
            canonical: verdict.canonical,
            measures: verdict.measures,
            judge: verdict.judge,
        }
    }

    fn judge(&self, item: &Item, completion: &Completion) -> Result<Option<Finding>, Error> {
        let way = self.way.as_ref().map_err(Clone::clone)?;
        match (way, completion.ending) {
            (Way::Choices(likelihood), Ending::Scored) => likelihood.judge(item, &completion.choices),
            (Way::Pipelines(pipelines), Ending::Scored) => pipelines.score(item, &completion.choices),
            (Way::Pipelines(pipelines), _) => match Answer::of(&completion.text, &self.reasoning) {
                Some(answer) => pipelines.judge(item, &answer),
                None => Ok(None),
            },
            (Way::Choices(_), ending) | (_, ending @ Ending::Scored) => Err(Error::Kind {
                ending: ending.label(),
                family: self.name(),
            }),
            (Way::Text(family), _) => match Answer::of(&completion.text, &self.reasoning) {
                Some(answer) => family.judge(item, &answer),
                None => Ok(None),
            },
            (Way::Outside(runner), _) => match Answer::of(&completion.text, &self.reasoning) {
                Some(_) => Err(Error::Outside { family: runner.name() }),
                None => Ok(None),
            },
        }
    }

    fn verdict(&self, judged: Result<Option<Finding>, Error>, item: &Item, completion: &Completion) -> Verdict {
        let is_cut = is_cut(completion);
        match judged {
            Err(error) => Verdict {
                reason: Some(error.to_string()),
                judge: error.judge(),
                ..Verdict::of(error.outcome())
            },
            Ok(Some(finding)) => {
                let mut measures = self.in_order(&finding.measures);
                if is_cut {
                    self.cut(&mut measures);
                }
                let stands_whole = stands_before_end(&finding, &completion.text)
                    || (self.finds_texts() && stands_before_end_as_text(&finding, &completion.text));
                let verdict = Verdict::of_finding(finding, is_cut);
                Verdict {
                    measures,
                    score_before_cut: verdict.score_before_cut.filter(|_| stands_whole),
                    ..verdict
                }
            }
            Ok(None) if is_cut => self.without_answer(Outcome::Truncated, item),
            Ok(None) => Verdict {
                reason: self.why_no_answer(completion),
                ..self.without_answer(Outcome::NoAnswer, item)
            },
        }
    }

    /// The verdict on what has no answer. Where it is scored, it counts in the metrics as in the score: what is short and easy
    /// would be favoured otherwise. Only of what is measured outside of this process 0 may be the best, so it is left out there.
    fn without_answer(&self, outcome: Outcome, item: &Item) -> Verdict {
        let measures = match &self.way {
            Ok(Way::Text(_)) if outcome.is_scored() => self.of_nothing(),
            Ok(Way::Outside(_)) if outcome.is_scored() => vec![None; self.metrics.len()],
            Ok(Way::Pipelines(pipelines)) if outcome.is_scored() => self.of_silence(pipelines, item),
            _ => Vec::new(),
        };
        Verdict {
            measures,
            ..Verdict::of(outcome)
        }
    }

    /// 0 to each metric that counts from there.
    fn of_nothing(&self) -> Vec<Option<Measured>> {
        let of = |wanted: &Option<Wanted>| {
            let counts = wanted.as_ref().is_some_and(|wanted| wanted.counts_from_0);
            counts.then_some(Measured::Value(0.0))
        };
        self.metrics.iter().map(of).collect()
    }

    /// What silence adds to the metrics of a task of the harness, which counts it as any text: what the filters make of it, a vote
    /// among others, and to figures of a whole corpus its targets; but never something right.
    fn of_silence(&self, pipelines: &Pipelines, item: &Item) -> Vec<Option<Measured>> {
        let Ok(Some(finding)) = guarded(|| pipelines.judge(item, &Answer::whole(""))) else {
            return self.of_nothing();
        };
        let mut measures = self.in_order(&finding.measures);
        for (measure, wanted) in measures.iter_mut().zip(self.metrics.iter()) {
            let counts = wanted.as_ref().is_some_and(|wanted| wanted.counts_from_0);
            if let Some(Measured::Value(value) | Measured::Vote { value, .. }) = measure.as_mut().filter(|_| counts) {
                *value = 0.0;
            }
        }
        measures
    }

    /// What an answer adds to metrics that was cut: 0 where a whole one adds from there on, else what its text adds; a task of the
    /// harness takes its text for whole. What is measured outside of this process counts as it was measured.
    fn cut(&self, measures: &mut Vec<Option<Measured>>) {
        match &self.way {
            Ok(Way::Text(family)) if !family.measures_cut_answers() => {
                for (measure, wanted) in measures.iter_mut().zip(self.metrics.iter()) {
                    if wanted.as_ref().is_some_and(|wanted| wanted.counts_from_0) {
                        *measure = Some(Measured::Value(0.0));
                    }
                }
            }
            Ok(Way::Text(_) | Way::Pipelines(_) | Way::Outside(_)) => {}
            _ => measures.clear(),
        }
    }

    /// What a family measured by name, where the benchmark has its metrics.
    fn in_order(&self, measures: &[(String, Measured)]) -> Vec<Option<Measured>> {
        let of = |name: &str| {
            let measured = measures.iter().find(|(known, _)| known == name);
            measured.map(|(_, measured)| measured.clone())
        };
        let wanted = self.metrics.iter();
        wanted.map(|wanted| of(&wanted.as_ref()?.name)).collect()
    }

    /// What is extracted without its place is a piece of the text, or made from one.
    fn finds_texts(&self) -> bool {
        let is_command = |runner: &Arc<dyn Runner>| runner.name() == command::NAME;
        match &self.way {
            Ok(Way::Pipelines(_)) => true,
            Ok(Way::Outside(runner)) => is_command(runner),
            _ => false,
        }
    }

    /// The answer had not begun: the engine split off reasoning and nothing came behind it, or a reasoning block is open.
    fn is_all_reasoning(&self, completion: &Completion) -> bool {
        let has_reasoning = completion
            .reasoning
            .as_ref()
            .is_some_and(|reasoning| !reasoning.trim().is_empty());
        let is_silent = has_reasoning && completion.text.trim().is_empty();
        is_silent || Answer::of(&completion.text, &self.reasoning).is_none()
    }

    /// A stop text that also begins a right answer leaves nothing to grade, and the grade should say so.
    fn why_no_answer(&self, completion: &Completion) -> Option<String> {
        let Some(answer) = Answer::of(&completion.text, &self.reasoning) else {
            return Some("the reasoning never ended".to_owned());
        };
        if let Ok(Way::Text(family)) = &self.way
            && let Some(why) = family.why_none(&answer)
        {
            return Some(why);
        }
        let stop = completion.stop_reason.as_ref()?;
        Some(format!("the stop text {stop:?} came before an answer"))
    }
}

fn way(spec: &GraderSpec) -> Result<Way, Error> {
    Ok(match spec {
        GraderSpec::Exact {
            ignore_case,
            ignore_punctuation,
        } => Way::Text(Arc::new(Exact::ignoring(*ignore_case, *ignore_punctuation))),
        GraderSpec::ExactNormalised { normalisers } => Way::Text(Arc::new(Exact::new(normalisers))),
        GraderSpec::Regex {
            pattern,
            take,
            ignore_case,
        } => Way::Text(Arc::new(Regex::of_one(pattern, *take, *ignore_case)?)),
        GraderSpec::RegexChain { patterns, normalisers } => Way::Text(Arc::new(Regex::try_new(patterns, normalisers)?)),
        GraderSpec::Math { pattern } => Way::Text(Arc::new(Math::try_new(pattern.as_deref())?)),
        GraderSpec::Numeric { pattern, tolerance } => {
            Way::Text(Arc::new(Numeric::try_new(pattern.as_deref(), *tolerance)?))
        }
        GraderSpec::Choice { pattern } => Way::Text(Arc::new(Choice::try_new(pattern.as_deref())?)),
        GraderSpec::Likelihood { normalise } => Way::Choices(Likelihood { normalise: *normalise }),
        GraderSpec::Pipelines { grading, .. } => Way::Pipelines(Arc::new(Pipelines::try_new(grading)?)),
        GraderSpec::Code {
            language,
            program,
            limits,
        } => Way::Outside(Arc::new(Code {
            language: language.clone(),
            program: *program,
            limits: *limits,
        })),
        GraderSpec::Judge(spec) => Way::Outside(Arc::new(Judge { spec: spec.clone() })),
        GraderSpec::F1 { words } => Way::Text(Arc::new(F1(*words))),
        GraderSpec::Rouge { measure, stem } => Way::Text(Arc::new(Rouge {
            measure: *measure,
            stem: *stem,
        })),
        GraderSpec::Bleu { tokenise } => Way::Text(Arc::new(Bleu(*tokenise))),
        GraderSpec::Chrf { words } => Way::Text(Arc::new(Chrf { words: *words })),
        GraderSpec::Instructions { loose } => Way::Text(Arc::new(Instructions { loose: *loose })),
        GraderSpec::JsonSchema { check, schema } => {
            Way::Text(Arc::new(JsonSchema::try_new(*check, schema.as_deref())?))
        }
        GraderSpec::Command { command, seconds } => Way::Outside(Arc::new(Command {
            command: command.clone(),
            limit: Duration::from_secs(u64::from(*seconds)),
        })),
    })
}

/// The part of a grade that grading decides.
#[derive(Debug, Clone)]
struct Verdict {
    outcome: Outcome,
    score: f64,
    score_before_cut: Option<f64>,
    extracted: Option<String>,
    extractor: Option<String>,
    span: Option<Span>,
    canonical: Option<String>,
    measures: Vec<Option<Measured>>,
    reason: Option<String>,
    judge: Option<JudgeCost>,
}

impl Verdict {
    const fn of(outcome: Outcome) -> Self {
        Self {
            outcome,
            score: 0.0,
            score_before_cut: None,
            extracted: None,
            extractor: None,
            span: None,
            canonical: None,
            measures: Vec::new(),
            reason: None,
            judge: None,
        }
    }

    fn of_finding(finding: Finding, is_cut: bool) -> Self {
        let score = finding.credit.score();
        let verdict = match finding.credit {
            _ if is_cut => Self {
                score_before_cut: Some(score),
                ..Self::of(Outcome::Truncated)
            },
            Credit::Whole(true) => Self::of(Outcome::Correct),
            Credit::Whole(false) => Self::of(Outcome::Incorrect),
            Credit::Part(_) => Self::of(Outcome::Graded),
        };
        Self {
            score: if is_cut { 0.0 } else { score },
            extracted: Some(finding.extracted),
            extractor: Some(finding.extractor.to_owned()),
            span: finding.span,
            canonical: finding.canonical,
            reason: finding.reason,
            judge: finding.judge,
            ..verdict
        }
    }
}

/// Nothing is cut when nothing is generated.
const fn is_cut(completion: &Completion) -> bool {
    match completion.ending {
        Ending::Scored => false,
        Ending::Length => true,
        _ => completion.truncated,
    }
}

/// The answer ends before the text does, or closes by itself: what goes up to a cut may have gone on.
fn stands_before_end(finding: &Finding, text: &str) -> bool {
    let closes = finding.extractor.starts_with("json@") && finding.extracted.ends_with(['}', ']', '"']);
    closes || finding.span.is_some_and(|span| span.end < text.len() as u64)
}

/// What was extracted, of which the place is not known, stands last before the end of the text.
fn stands_before_end_as_text(finding: &Finding, text: &str) -> bool {
    let extracted = finding.extracted.as_str();
    let last = text.rfind(extracted).filter(|_| !extracted.is_empty());
    finding.span.is_none() && last.is_some_and(|start| start + extracted.len() < text.len())
}

/// The outcome of a completion in which there is nothing to grade.
pub(crate) fn outcome_without_grading(completion: &Completion) -> Option<Outcome> {
    match completion.ending {
        Ending::Stop if said_nothing(completion) => Some(Outcome::Empty),
        Ending::Stop | Ending::Length | Ending::Scored => None,
        Ending::Empty => Some(Outcome::Empty),
        Ending::Refused => Some(Outcome::Refused),
        Ending::ContextOverflow => Some(Outcome::ContextOverflow),
        Ending::EngineError => Some(Outcome::EngineError),
    }
}

/// Not one token: whatever the engine called it, the model had no say.
fn said_nothing(completion: &Completion) -> bool {
    completion.completion_tokens == 0 && completion.reasoning.is_none() && completion.text.trim().is_empty()
}

fn guarded<T>(work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|payload| Err(Error::Panic(message(payload.as_ref()))))
}

fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
        .to_owned()
}

#[cfg(test)]
#[path = "grade_tests.rs"]
pub(crate) mod tests;
