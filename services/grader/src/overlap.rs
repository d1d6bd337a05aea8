//! Families `f1`, `rouge`, `bleu` and `chrf`: how much of the answer is in a target.

use tidemill_domain::{Item, Measured, RougeMeasure, Tokenise, Words};
use tidemill_scoring::{
    Normalisation, Rouge as Scorer, RougeScore, Tokenisation, bleu_counts, chrf_counts, normalised, sentence_bleu,
    sentence_chrf, token_match,
};

use crate::Error;
use crate::answer::{Answer, Credit, Finding, is_unanswerable, trimmed};
use crate::family::Family;

const WHOLE: &str = "whole-answer@1";
/// The words that an answer and its best target share.
#[derive(Debug, Clone, Copy)]
pub(crate) struct F1(pub(crate) Words);

/// Words, pairs of words or the longest common subsequence.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rouge {
    pub(crate) measure: RougeMeasure,
    pub(crate) stem: bool,
}

/// N-grams of words.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bleu(pub(crate) Tokenise);

/// N-grams of characters, and of words for chrF++.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chrf {
    pub(crate) words: bool,
}

impl Family for F1 {
    fn name(&self) -> &'static str {
        "f1@2"
    }

    fn judge(&self, item: &Item, answer: &Answer<'_>) -> Result<Option<Finding>, Error> {
        let text = match comparable(item, answer)? {
            Some(text) => text,
            None if is_unanswerable(item) => "",
            None => return Ok(None),
        };
        let by = match self.0 {
            Words::Squad => Normalisation::Squad,
            Words::Drop => Normalisation::Drop,
        };
        let found = token_match(text, &item.targets, by);
        let mut finding = finding(answer, text, found.f1).known_as(&normalised(text, by));
        finding.reason = Some(match (is_unanswerable(item), found.is_exact) {
            (true, true) => "says nothing, and there is no answer to give".to_owned(),
            (true, false) => "there is no answer to give".to_owned(),
            (false, true) => format!("F1 {:.3}, exact", found.f1),
            (false, false) => format!("F1 {:.3}, not exact", found.f1),
        });
        finding.measures = vec![named("exact_match", f64::from(u8::from(found.is_exact)))];
        Ok(Some(finding))
    }
}

impl Family for Rouge {
    fn name(&self) -> &'static str {
        "rouge@1"
    }

    fn judge(&self, item: &Item, answer: &Answer<'_>) -> Result<Option<Finding>, Error> {
        let Some(text) = comparable(item, answer)? else {
            return Ok(None);
        };
        let scores = Scorer { stem: self.stem }.score(text, &item.targets)?;
        let of = |measure| match measure {
            RougeMeasure::One => Some(scores.one),
            RougeMeasure::Two => Some(scores.two),
            RougeMeasure::Longest => scores.longest,
        };
        let score = of(self.measure).ok_or(Error::TooLong { family: self.name() })?;
        let mut finding = finding(answer, text, score.f1);
        let RougeScore { precision, recall, .. } = score;
        finding.reason = Some(format!("precision {precision:.3}, recall {recall:.3}"));
        let all = [
            ("rouge1", RougeMeasure::One),
            ("rouge2", RougeMeasure::Two),
            ("rougeL", RougeMeasure::Longest),
        ];
        let measured = all
            .into_iter()
            .filter_map(|(name, measure)| Some(named(name, of(measure)?.f1)));
        finding.measures = measured.collect();
        Ok(Some(finding))
    }
}

impl Family for Bleu {
    fn name(&self) -> &'static str {
        "bleu@1"
    }

    fn judge(&self, item: &Item, answer: &Answer<'_>) -> Result<Option<Finding>, Error> {
        let Some(text) = comparable(item, answer)? else {
            return Ok(None);
        };
        let tokenisation = match self.0 {
            Tokenise::V13a => Tokenisation::V13a,
            Tokenise::Characters => Tokenisation::Characters,
            Tokenise::None => Tokenisation::None,
        };
        let counts = bleu_counts(text, &item.targets, tokenisation)?;
        Ok(Some(of_corpus(answer, text, "bleu", sentence_bleu(&counts), counts)))
    }
}

impl Family for Chrf {
    fn name(&self) -> &'static str {
        "chrf@1"
    }

    fn judge(&self, item: &Item, answer: &Answer<'_>) -> Result<Option<Finding>, Error> {
        let Some(text) = comparable(item, answer)? else {
            return Ok(None);
        };
        let counts = chrf_counts(text, &item.targets, self.words)?;
        Ok(Some(of_corpus(answer, text, "chrf", sentence_chrf(&counts), counts)))
    }
}

/// The answer's text, if there is one; and that there is something to compare it with.
fn comparable<'a>(item: &Item, answer: &'a Answer<'_>) -> Result<Option<&'a str>, Error> {
    if item.targets.is_empty() {
        return Err(Error::Target { wanted: "an answer" });
    }
    let text = trimmed(answer.text());
    Ok((!text.is_empty()).then_some(text))
}

fn finding(answer: &Answer<'_>, text: &str, score: f64) -> Finding {
    Finding::new(WHOLE, text, Credit::Part(score)).at(answer.span(text))
}

/// `score` is 0 to 100, as the counts' corpus has it.
fn of_corpus(answer: &Answer<'_>, text: &str, metric: &str, score: f64, counts: Vec<f64>) -> Finding {
    let mut finding = finding(answer, text, score / 100.0);
    finding.reason = Some(format!("{metric} {score:.2}"));
    finding.measures = vec![(metric.to_owned(), Measured::Counts(counts))];
    finding
}

fn named(name: &str, value: f64) -> (String, Measured) {
    (name.to_owned(), Measured::Value(value))
}

#[cfg(test)]
mod tests {
    use tidemill_domain::GraderSpec;

    use super::*;
    use crate::answer::tests::item;
    use crate::grade::tests::{completion, measured};

    #[test]
    fn each_family_gives_a_part_of_the_score_and_what_its_corpus_adds_up() {
        let cat = &["the cat sat on the mat", "a cat was sitting"];
        let f1 = measured(&GraderSpec::F1 { words: Words::Squad }, &item(cat, &[]), "A cat sat.");
        assert_eq!(
            (f1.grader.as_str(), f1.extractor.as_deref()),
            ("f1@2", Some("whole-answer@1"))
        );
        assert!((f1.score - 2.0 / 3.0).abs() < 1e-9, "{}", f1.score);
        assert_eq!(f1.canonical.as_deref(), Some("cat sat"));
        assert_eq!(f1.measures, [Some(Measured::Value(0.0))]);
        let vote = |last: &str| {
            let text = format!("{}{last}", "word ".repeat(100));
            let grade = measured(&GraderSpec::F1 { words: Words::Squad }, &item(cat, &[]), &text);
            grade.canonical.unwrap()
        };
        assert_ne!(vote("one"), vote("two"), "what is left out of a long one is told apart");
        let rouge = GraderSpec::Rouge {
            measure: RougeMeasure::Longest,
            stem: true,
        };
        let rouge = measured(&rouge, &item(cat, &[]), "The cat sits on the mats.");
        assert_eq!((rouge.measures.len(), rouge.outcome.label()), (3, "graded"));
        let bleu = measured(
            &GraderSpec::Bleu {
                tokenise: Tokenise::V13a,
            },
            &item(cat, &[]),
            cat[0],
        );
        assert!((bleu.score - 1.0).abs() < 1e-9);
        assert!(matches!(&bleu.measures[..], [Some(Measured::Counts(counts))] if counts.len() == 10));
        let chrf = measured(&GraderSpec::Chrf { words: true }, &item(cat, &[]), " the cat");
        assert!(matches!(&chrf.measures[..], [Some(Measured::Counts(counts))] if counts.len() == 24));
        assert_eq!(chrf.span.map(|span| (span.start, span.end)), Some((1, 8)));
    }

    #[test]
    fn a_question_without_an_answer_is_scored_as_squad_2_scores_it() {
        let f1 = GraderSpec::F1 { words: Words::Squad };
        let scored = |text: &str| {
            let grade = measured(&f1, &item(&[""], &[]), text);
            (grade.outcome.label(), grade.score, grade.measures)
        };
        let exact = |value| vec![Some(Measured::Value(value))];
        for nothing in ["", " ", "The.", "<think>hm</think>\n"] {
            assert_eq!(scored(nothing), ("graded", 1.0, exact(1.0)), "{nothing:?}");
        }
        assert_eq!(scored("Paris"), ("graded", 0.0, exact(0.0)));
        assert_eq!(scored("<think>hm").0, "no_answer", "it was not given");
    }

    #[test]
    fn an_empty_answer_is_none_and_no_target_is_the_graders_fault() {
        let f1 = GraderSpec::F1 { words: Words::Drop };
        assert_eq!(
            measured(&f1, &item(&["x"], &[]), " \u{200b}").outcome.label(),
            "no_answer"
        );
        assert_eq!(measured(&f1, &item(&[], &[]), "x").outcome.label(), "grader_error");
        let long = "x ".repeat(tidemill_scoring::MAX_TARGET_BYTES);
        let bleu = GraderSpec::Bleu {
            tokenise: Tokenise::None,
        };
        assert_eq!(
            measured(&bleu, &item(&[&long], &[]), "x").outcome.label(),
            "grader_error"
        );
    }

    #[test]
    fn a_cut_answer_counts_in_means_as_in_the_score_and_in_corpora_with_its_text() {
        let cut = tidemill_domain::Completion {
            ending: tidemill_domain::Ending::Length,
            ..completion("the cat")
        };
        let graded = |spec: &GraderSpec, completion: &tidemill_domain::Completion| {
            let grader = crate::Grader::new(spec, &tidemill_domain::Reasoning::default()).measuring(&spec.metrics());
            grader.grade(&item(&["the cat"], &[]), completion, tidemill_domain::Timestamp(3))
        };
        let chrf = GraderSpec::Chrf { words: false };
        let grade = graded(&chrf, &cut);
        assert_eq!((grade.outcome.label(), grade.score), ("truncated", 0.0));
        assert_eq!(grade.measures, graded(&chrf, &completion("the cat")).measures);
        assert_eq!(grade.score_before_cut, None, "what is all of a cut text is not whole");
        let f1 = GraderSpec::F1 { words: Words::Drop };
        let nothing = [Some(Measured::Value(0.0))];
        assert_eq!(
            graded(&f1, &completion("the cat")).measures,
            [Some(Measured::Value(1.0))]
        );
        assert_eq!(graded(&f1, &cut).measures, nothing);
        assert_eq!(graded(&f1, &completion(" ")).measures, nothing, "nor has it an answer");
    }
}
