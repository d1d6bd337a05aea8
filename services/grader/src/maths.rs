//! Family `math`: the answer is a number, a formula or a collection of them, equal to a target as mathematics.
//!
//! The answer is what the last balanced box holds; in a text without one, what is announced as the answer, else the last formula
//! between LaTeX's marks, else the text itself where it is nothing but a formula, else its last number.

use std::sync::LazyLock;

use ::regex::Regex;
use tidemill_domain::Item;
use tidemill_maths as maths;
use tidemill_maths::{Steps, Verdict, boxes, last_formula};

use crate::Error;
use crate::answer::{Answer, Credit, Finding, trimmed};
use crate::family::Family;
use crate::number::{Place, last_number};
use crate::pattern::Pattern;

const NAME: &str = "math@4";
const BOXED: &str = "last-box@1";
const ANNOUNCED: &str = "announced-formula@2";
const FORMULA: &str = "last-formula@1";
const WHOLE: &str = "whole-formula@1";
const NUMBER: &str = "last-number@4";

/// The longest text that may be a formula as a whole, or after an announcement.
const MAX_FORMULA_BYTES: usize = 400;

#[derive(Debug, Clone)]
pub(crate) struct Math {
    pattern: Option<Pattern>,
}

impl Math {
    pub(crate) fn try_new(pattern: Option<&str>) -> Result<Self, Error> {
        Ok(Self {
            pattern: pattern.map(Pattern::try_new).transpose()?,
        })
    }
}

impl Family for Math {
    fn name(&self) -> &'static str {
        NAME
    }

    fn judge(&self, item: &Item, answer: &Answer<'_>) -> Result<Option<Finding>, Error> {
        let targets: Vec<maths::Answer> = item.targets.iter().map(|target| target_of(target)).collect();
        if targets.iter().all(maths::Answer::is_empty) {
            return Err(Error::Target { wanted: "an answer" });
        }
        let found = match &self.pattern {
            Some(pattern) => pattern.last(answer.text()).and_then(found),
            None => found(answer.text()),
        };
        let Some((extractor, written)) = found else {
            return Ok(None);
        };
        let read = maths::Answer::read(written);
        let (is_right, reason) = judged(&targets, &read, Steps::DEFAULT)?;
        let finding = Finding::new(extractor, written, Credit::Whole(is_right))
            .known_as(&read.canonical())
            .because(reason)
            .at(answer.span(written));
        Ok(Some(finding))
    }
}

/// A target may be a whole solution; then its last box is what is asked for.
fn target_of(target: &str) -> maths::Answer {
    maths::Answer::read(boxes(target).last.map_or(target, |boxed| boxed.content))
}

/// Compares with each target on a budget of its own.
fn judged(targets: &[maths::Answer], answer: &maths::Answer, steps: u64) -> Result<(bool, String), Error> {
    let mut undecided = None;
    for target in targets {
        let comparison = maths::compare(target, answer, &mut Steps::new(steps));
        match comparison.verdict {
            Verdict::Equal => return Ok((true, format!("equals {}, {}", target.canonical(), comparison.how))),
            Verdict::Undecided => undecided = Some(comparison.how),
            Verdict::Different => {}
        }
    }
    if let Some(why) = undecided {
        return Err(Error::Undecided { why });
    }
    let wanted: Vec<String> = targets.iter().take(3).map(maths::Answer::canonical).collect();
    let understood = if answer.is_mathematics() {
        ""
    } else {
        ", which is no mathematics"
    };
    Ok((
        false,
        format!("is {}{understood}, not {}", answer.canonical(), wanted.join(" or ")),
    ))
}

/// The answer in a text, and what found it.
fn found(text: &str) -> Option<(&'static str, &str)> {
    let boxes = boxes(text);
    if let Some(boxed) = boxes.last {
        let content = trimmed(boxed.content);
        return (!content.is_empty()).then_some((BOXED, content));
    }
    let text = boxes.before_unclosed;
    if let Some(formula) = announced(text) {
        return Some((ANNOUNCED, formula));
    }
    if let Some(range) = last_formula(text) {
        return Some((FORMULA, trimmed(&text[range])));
    }
    if let Some(formula) = formula(text) {
        return Some((WHOLE, formula));
    }
    let (_, place) = last_number(text, Place::Prose)?;
    Some((NUMBER, &text[place]))
}

/// The formula after the last announcement of an answer.
fn announced(text: &str) -> Option<&str> {
    static ANNOUNCEMENT: LazyLock<Regex> = LazyLock::new(announcement);
    let place = ANNOUNCEMENT.find_iter(text).last()?.end();
    let line = text[place..].lines().next()?;
    let formula_at = last_formula_start(line);
    if let Some(range) = formula_at {
        return Some(trimmed(&line[range]));
    }
    // A sentence ends with a point before a space, or with the line.
    let sentence = line.split_once(". ").map_or(line, |(sentence, _)| sentence);
    // A remark in brackets, behind a space, is none of the formula.
    let before_remark = || sentence.split_once(" (").and_then(|(before, _)| formula(before));
    formula(sentence).or_else(before_remark)
}

/// The formula that a line begins with, marks aside.
fn last_formula_start(line: &str) -> Option<std::ops::Range<usize>> {
    let closes = line.match_indices(['$', ')', ']']).map(|(at, mark)| at + mark.len());
    closes
        .take(64)
        .take_while(|end| *end < MAX_FORMULA_BYTES)
        .find_map(|end| {
            let range = last_formula(&line[..end])?;
            (range.start <= 3).then_some(range)
        })
}

/// The text, if it is nothing but a formula: no words but names of functions and the like.
fn formula(text: &str) -> Option<&str> {
    const NAMES: [&str; 16] = [
        "pi", "sqrt", "sin", "cos", "tan", "log", "ln", "exp", "inf", "infinity", "and", "or", "cm", "km", "kg", "ab",
    ];
    let formula = trimmed(text).trim_matches(['*', '_', '`']);
    let formula = trimmed(formula);
    if formula.is_empty() || formula.len() > MAX_FORMULA_BYTES {
        return None;
    }
    let words = formula.split(|letter: char| !letter.is_alphabetic());
    let mut places = words.filter(|word| word.chars().count() > 1 && !NAMES.contains(word));
    let is_command = |word: &str| {
        let at = word.as_ptr().addr() - formula.as_ptr().addr();
        formula[..at].ends_with('\\')
    };
    let is_bare = places.all(is_command);
    (is_bare && maths::Answer::read(formula).is_mathematics()).then_some(formula)
}

#[expect(
    clippy::expect_used,
    reason = "the pattern is a constant, and every test of the family compiles it"
)]
fn announcement() -> Regex {
    Regex::new(concat!(
        r"(?i)(?:(?-u:\b)(?:answer|antwort|lösung|réponse|respuesta|resposta|risposta|antwoord)|ответ|答案|答え|정답|答)",
        r"[*_\s]*(?:is|ist|lautet|est|es|è|は|是|为|為|은|는)?[*_\s]*[:：=]?[*_\s]*",
    ))
    .expect("a constant pattern compiles")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::tests::item;

    fn judge(targets: &[&str], text: &str) -> Option<Finding> {
        let math = Math::try_new(None).unwrap();
        math.judge(&item(targets, &[]), &Answer::whole(text)).unwrap()
    }

    fn extracted(text: &str) -> Option<(String, &'static str)> {
        judge(&["0"], text).map(|finding| (finding.extracted, finding.extractor))
    }

    #[test]
    fn the_answer_is_looked_for_in_a_fixed_order() {
        for (text, answer, extractor) in [
            (
                r"first \boxed{5}, then \boxed{\frac{1}{2}}, \boxed{7",
                r"\frac{1}{2}",
                BOXED,
            ),
            (r"$x$ so \boxed{ 4 } and $y=5$", "4", BOXED),
            ("The answer is $x+1$, since $x=3$.", "x+1", ANNOUNCED),
            ("**Answer:** 3/4\nbecause $y$", "3/4", ANNOUNCED),
            ("Final answer: x = 5. This follows.", "x = 5", ANNOUNCED),
            ("Antwort: \\(\\sqrt{2}\\)", r"\sqrt{2}", ANNOUNCED),
            (r"Hence $a=1$ and \(b=2\), as was shown.", "b=2", FORMULA),
            ("x^2 + 2x + 1", "x^2 + 2x + 1", WHOLE),
            ("There are 12 of them, in 3 rows.", "3", NUMBER),
            ("The answer is 42 (see step 3).", "42", ANNOUNCED),
            ("The answer is x + 1 (see step 3).", "x + 1", ANNOUNCED),
            ("It is 42 (see step 3).", "42", NUMBER),
            ("it costs $5 or $6", "6", NUMBER),
        ] {
            assert_eq!(extracted(text), Some((answer.to_owned(), extractor)), "{text}");
        }
        for text in ["nobody knows", r"\boxed{} 5", ""] {
            assert_eq!(extracted(text), None, "{text}");
        }
    }

    #[test]
    fn equal_answers_are_right_and_the_reason_says_how() {
        let finding = judge(&[r"\frac{1}{2}"], r"so \boxed{x = 0.50}").unwrap();
        assert_eq!(finding.credit.score(), 1.0);
        assert_eq!(finding.canonical.as_deref(), Some("1/2"));
        assert_eq!(finding.reason.as_deref(), Some("equals 1/2, exactly"));
        assert_eq!(finding.span.map(|span| (span.start, span.end)), Some((10, 18)));
        let finding = judge(&["2", r"Thus $\boxed{3}$."], r"\boxed{4}").unwrap();
        assert_eq!(finding.credit.score(), 0.0);
        assert_eq!(finding.reason.as_deref(), Some("is 4, not 2 or 3"));
        let finding = judge(&["2"], r"\boxed{none of them}").unwrap();
        assert_eq!(
            finding.reason.as_deref(),
            Some("is none of them, which is no mathematics, not 2")
        );
    }

    #[test]
    fn what_cannot_be_decided_is_the_graders_fault() {
        let math = Math::try_new(None).unwrap();
        let (target, answer) = (maths::Answer::read("(x+y)^9"), maths::Answer::read("(y+x)^9"));
        assert_eq!(
            judged(std::slice::from_ref(&target), &answer, 20),
            Err(Error::Undecided {
                why: "the budget of steps ran out"
            })
        );
        assert!(judged(&[target], &answer, Steps::DEFAULT).unwrap().0);
        let error = math
            .judge(&item(&["5 m"], &[]), &Answer::whole(r"\boxed{5}"))
            .unwrap_err();
        assert!(error.to_string().contains(r"\text{ m}"), "{error}");
        let judge = |target, text| {
            math.judge(&item(&[target], &[]), &Answer::whole(text))
                .unwrap()
                .unwrap()
        };
        assert!(
            math.judge(&item(&["1:15"], &[]), &Answer::whole(r"\boxed{2:30}"))
                .is_err()
        );
        let nested = format!(r"\boxed{{{}1{}}}", "(".repeat(300), ")".repeat(300));
        assert!(math.judge(&item(&["1"], &[]), &Answer::whole(&nested)).is_err());
        assert_eq!(judge("6s^2", r"\boxed{6}").credit.score(), 0.0);
        assert_eq!(judge(r"6\text{ m}^2", r"\boxed{6}").credit.score(), 1.0);
        assert!(
            math.judge(&item(&["30000!"], &[]), &Answer::whole(r"\boxed{30000 \cdot 29999!}"))
                .is_err()
        );
        assert!(math.judge(&item(&[], &[]), &Answer::whole("5")).is_err());
        assert!(math.judge(&item(&[" "], &[]), &Answer::whole("5")).is_err());
    }

    #[test]
    fn forms_that_votes_go_by_tell_apart_what_is_not_right_together() {
        let form = |text: &str| judge(&["0.5"], text).unwrap().canonical.unwrap();
        assert_ne!(form(r"\boxed{50\%}"), form(r"\boxed{50}"));
        assert_eq!(form(r"\boxed{50\%}"), form(r"\boxed{50 percent}"));
        assert_ne!(form(r"\boxed{90^\circ}"), form(r"\boxed{90}"));
        assert_ne!(form(r"\boxed{4:00}"), form(r"\boxed{8:00}"));
    }

    #[test]
    fn a_pattern_narrows_the_place() {
        let math = Math::try_new(Some("#### (.*)")).unwrap();
        let judge = |text| math.judge(&item(&["1/2"], &[]), &Answer::whole(text)).unwrap();
        assert_eq!(judge("#### 0.5\nor $7$").unwrap().credit.score(), 1.0);
        assert_eq!(judge("0.5"), None);
    }
}
