//! Family `math`: the answer is a number, a formula or a collection of them, equal to a target as mathematics.
//!
//! The answer is what the last balanced box holds, with those that are joined to it; in a text without one, what is announced as the answer, else the last formula
//! between LaTeX's marks, else the text itself where it is nothing but a formula, else its last number.

mod span;

use std::ops::Range;
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

const NAME: &str = "math@5";
const BOXED: &str = "last-box@2";
const ANNOUNCED: &str = "announced-formula@4";
const FORMULA: &str = "last-formula@3";
const WHOLE: &str = "whole-formula@2";
const NUMBER: &str = "last-number@5";

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

/// A target may be a whole solution; then its last box is what is asked for, with those that are joined to it.
fn target_of(target: &str) -> maths::Answer {
    let boxes = boxes(target);
    let boxed = boxes.last.map_or(target, |boxed| boxed.content);
    maths::Answer::read(boxes.joined.map_or(boxed, |range| &target[range]))
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
        let content = trimmed(boxes.joined.map_or(boxed.content, |range| &text[range]));
        return (!content.is_empty()).then_some((BOXED, content));
    }
    let text = boxes.before_unclosed;
    match announced(text) {
        Announced::Formula(formula) => return Some((ANNOUNCED, formula)),
        Announced::Denied => return None,
        Announced::Nothing => {}
    }
    if let Some(list) = listed(text) {
        return Some((ANNOUNCED, list));
    }
    if let Some(range) = last_formula(text) {
        return formula_at(text, range);
    }
    if let Some(formula) = last_step(text).or_else(|| formula(text)) {
        return Some((WHOLE, formula));
    }
    let (_, place) = last_number(text, Place::Prose)?;
    Some((NUMBER, &text[place]))
}

/// The last formula of a text, or what it belongs to: the number before a unit, what a sentence says of a variable.
fn formula_at(text: &str, range: Range<usize>) -> Option<(&'static str, &str)> {
    if span::is_suffix(&text[range.clone()]) {
        return span::with_suffix(text, range).map(|written| (FORMULA, trimmed(written)));
    }
    if !span::is_letter(&text[range.clone()]) {
        return Some((FORMULA, trimmed(span::with_others(text, range))));
    }
    let sentence = span::sentence_before(text, range.start);
    let value = last_formula(sentence).filter(|earlier| !span::is_letter(&sentence[earlier.clone()]));
    let numbers = numbers_outside(sentence);
    match (value, numbers.as_slice()) {
        (None, []) => Some((FORMULA, trimmed(span::with_others(text, range)))),
        (None, [sole]) => Some((NUMBER, sole)),
        (Some(value), []) => formula_at(sentence, value),
        // Which of them is meant, nobody knows.
        _ => None,
    }
}

/// The numbers of a sentence that stand in no formula.
fn numbers_outside(sentence: &str) -> Vec<&str> {
    /// Nobody needs more than to know that there are several.
    const ENOUGH: usize = 2;
    let mut numbers = Vec::new();
    let mut rest = sentence;
    while numbers.len() < ENOUGH {
        let Some((_, place)) = last_number(rest, Place::Prose) else {
            break;
        };
        let start = place.start;
        if !span::is_in_formula(sentence, start) {
            numbers.push(&rest[place]);
        }
        rest = &rest[..start];
    }
    numbers
}

/// What is announced as several answers ("the roots are $2$ and $3$"), where nothing is said behind it.
fn listed(text: &str) -> Option<&str> {
    static SEVERAL: LazyLock<Regex> = LazyLock::new(|| {
        compile(concat!(
            r"(?i)(?-u:\b)(?:solutions|roots|zeros|zeroes|values)(?:\s+(?:of|for|to)\b[^.\n]{1,80}?)?",
            r"[*_\s]*(?:are(?:\s*:)?|:)[*_\s]*",
        ))
    });
    let place = SEVERAL.find_iter(text).last()?.end();
    let line = text[place..].lines().next().unwrap_or_default();
    let written = match span::at_start(line) {
        Some(range) => span::with_following(line, range),
        None => formula(line.split_once(". ").map_or(line, |(sentence, _)| sentence))?,
    };
    let end = written.as_ptr().addr() - text.as_ptr().addr() + written.len();
    let behind = text[end..].trim_start_matches(['$', '\\', ')', ']']);
    (!says_more(behind)).then(|| trimmed(written))
}

/// It holds numbers or formulas.
fn says_more(text: &str) -> bool {
    text.contains(|letter: char| letter == '$' || letter.is_numeric()) || text.contains(r"\(") || text.contains(r"\[")
}

/// What follows the last announcement of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Announced<'t> {
    Nothing,
    Formula(&'t str),
    /// What it is not, or is more than, and nothing else.
    Denied,
}

/// The formula after the last announcement of an answer.
fn announced(text: &str) -> Announced<'_> {
    static ANNOUNCEMENT: LazyLock<Regex> = LazyLock::new(announcement);
    static DENIAL: LazyLock<Regex> = LazyLock::new(denial);
    static CLAUSE: LazyLock<Regex> = LazyLock::new(clause);
    let Some(place) = ANNOUNCEMENT.find_iter(text).last().map(|found| found.end()) else {
        return Announced::Nothing;
    };
    let line = text[place..].lines().next().unwrap_or_default();
    let entry = line.strip_prefix("- ").filter(|entry| span::at_start(entry).is_some());
    let line = entry.unwrap_or(line);
    if let Some(written) = span::signed(line) {
        return Announced::Formula(trimmed(written));
    }
    if let Some(range) = span::at_start(line) {
        return Announced::Formula(trimmed(span::with_following(line, range)));
    }
    // A sentence ends with a point before a space, or with the line.
    let sentence = line.split_once(". ").map_or(line, |(sentence, _)| sentence);
    let excepted = sentence.trim_end_matches('.');
    if excepted.to_lowercase().starts_with("all real") && maths::Answer::read(excepted).is_mathematics() {
        return Announced::Formula(trimmed(excepted));
    }
    if DENIAL.is_match(sentence) {
        let is_corrected = sentence.contains(" but ") || sentence.contains("rather");
        return match is_corrected || says_more(&text[place + sentence.len()..]) {
            true => Announced::Nothing,
            false => Announced::Denied,
        };
    }
    // A remark in brackets, behind a space, is none of the formula, and neither is a reason.
    let before_remark = || sentence.split_once(" (").and_then(|(before, _)| formula(before));
    let before_clause = || {
        CLAUSE
            .find(sentence)
            .and_then(|found| formula(&sentence[..found.start()]))
    };
    let found = formula(sentence).or_else(before_remark).or_else(before_clause);
    match found {
        Some(formula) => Announced::Formula(formula),
        None => number_before_letter(sentence),
    }
}

/// The number that a sentence begins with, where what follows speaks of a variable: `12 possible values of $x$`.
fn number_before_letter(sentence: &str) -> Announced<'_> {
    static NUMBER_FIRST: LazyLock<Regex> =
        LazyLock::new(|| compile(r"^[*_\s]*(-?\\?\$?\d(?:[\d,./]*\d)?(?:\\?%)?)[*_]*\s+[a-zA-Z]"));
    static CHANGES: LazyLock<Regex> = LazyLock::new(|| {
        compile(concat!(
            r"(?i)\b(?:percent|times|plus|minus|over|more|less|fewer|than|and|or|divided|multiplied|half|halves|thirds?|fourths?",
            r"|quarters?|fifths?|sixths?|tenths?|squared|cubed|dozen|hundred|thousand|million|billion|multiples?|powers?|choose)\b|%",
            r"|\b(?:to|by)[\s$\\(\[]*$",
        ))
    });
    let Some(range) = last_formula(sentence).filter(|range| span::is_of_letter(&sentence[range.clone()])) else {
        return Announced::Nothing;
    };
    let Some(number) = NUMBER_FIRST.captures(sentence).and_then(|found| found.get(1)) else {
        return Announced::Nothing;
    };
    let between = &sentence[number.end().min(range.start)..range.start];
    let is_last = !sentence[range.end..].contains(|letter: char| letter.is_ascii_digit());
    let is_alone = is_last
        && !between.contains(|letter: char| letter.is_ascii_digit())
        && !CHANGES.is_match(&sentence[number.start()..range.start]);
    match (is_alone, span::is_letter(&sentence[range])) {
        (true, _) => Announced::Formula(&sentence[number.range()]),
        // A part of a product or a sum in words is no answer, and neither is the variable in it.
        (false, true) => Announced::Denied,
        (false, false) => Announced::Nothing,
    }
}

/// The last of several lines of which each is a formula: where the working ends.
fn last_step(text: &str) -> Option<&str> {
    if text.len() > maths::MAX_BYTES {
        return None;
    }
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let formulas: Vec<&str> = lines.iter().map(|line| formula(line)).collect::<Option<_>>()?;
    formulas.last().copied().filter(|_| formulas.len() > 1)
}

/// The text, if it is nothing but a formula: no words but names of functions and the like.
fn formula(text: &str) -> Option<&str> {
    const NAMES: [&str; 16] = [
        "pi", "sqrt", "sin", "cos", "tan", "log", "ln", "exp", "inf", "infinity", "and", "or", "cm", "km", "kg", "ab",
    ];
    let formula = trimmed(text).trim_matches(['*', '_', '`']);
    let formula = trimmed(formula);
    if formula.is_empty() || formula.len() > maths::MAX_BYTES {
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

/// Words that say what an answer is not, or what it is more or less than, or what it is all but.
fn denial() -> Regex {
    compile(concat!(
        r"(?i)^[*_\s]*(?:(?:definitely|certainly|clearly|simply)\s+)?(?:not|never|neither|nor|(?:no\s+)?(?:more|less|greater|fewer|larger|smaller|higher|lower)\s+than",
        r"|over|under|above|below|between|somewhere|at\s+(?:the\s+)?(?:least|most|minimum|maximum)",
        r"|(?:is|was|can|could|does|did|do|will|would|should|must|may|might|need)(?:\s+not|n['’]t|not)|can['’]t|won['’]t",
        r"|(?:all|any|every|everything|anything)\b[^.$]*\b(?:except|besides|excluding|other\s+than)|n['’]t)\s",
    ))
}

/// The beginning of a reason or an explanation behind a formula.
fn clause() -> Regex {
    compile(r"(?i)(?:,\s+|;\s+|\s+)(?:since|because|as|where|so|which|given|when|for|using|by|hence|thus|therefore)\s")
}

#[expect(
    clippy::expect_used,
    reason = "the patterns are constants, and every test of the family compiles them"
)]
fn compile(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a constant pattern compiles")
}

fn announcement() -> Regex {
    compile(concat!(
        r"(?i)(?:(?-u:\b)(?:answers?|antwort|lösung|réponse|respuesta|resposta|risposta|antwoord)|ответ|答案|答え|정답|答)",
        r"[*_\s]*(?:is|are|ist|lautet|est|es|è|は|是|为|為|은|는)?[*_\s]*[:：=]?[*_\s]*",
    ))
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
            ("Answer: 5, since $x=3$", "5", ANNOUNCED),
            ("**Answer**: 5, since $x=3$", "5", ANNOUNCED),
            ("Answer: $5$ or $6$", "$5$ or $6$", ANNOUNCED),
            (r"the answer is \(3\) or \(4\).", r"\(3\) or \(4\)", ANNOUNCED),
            ("The answer is $5$ and $x = 3$ makes it least", "5", ANNOUNCED),
            ("The answer is $3$ million.", "$3$ million", ANNOUNCED),
            ("The answer is $3$ cm long", "$3$ cm", ANNOUNCED),
            ("The answer is $3$ in all", "3", ANNOUNCED),
            ("The answer is $3$ or more", "$3$ or more", ANNOUNCED),
            ("The answer is not $3$ but $4$.", "4", FORMULA),
            ("The answer is not $3$. It is $4$.", "4", FORMULA),
            ("So it is $3$ million.", "$3$ million", FORMULA),
            ("So $x=3$ or $x=4$.", "$x=3$ or $x=4$", FORMULA),
            ("2x + 3 = 7\n\nx = 2", "x = 2", WHOLE),
            ("x^2-4=0\n(x-2)(x+2)=0\nx=\\pm2", r"x=\pm2", WHOLE),
            ("Q: 5\nA: 42", "A: 42", WHOLE),
        ] {
            assert_eq!(extracted(text), Some((answer.to_owned(), extractor)), "{text}");
        }
        for text in [
            "nobody knows",
            r"\boxed{} 5",
            "",
            "The answer is not $3$",
            "The answer is not 3.",
            "The answer is more than $3$.",
            "The answer is between 3 and 4.",
        ] {
            assert_eq!(extracted(text), None, "{text}");
        }
    }

    #[test]
    fn what_belongs_to_a_number_is_no_answer_without_it() {
        for (text, answer) in [
            ("The answer is 12 cm$^2$.", "12 cm$^2$"),
            (r"The angle is 12$^\circ$.", r"12$^\circ$"),
            (r"The area is $3 \times 4 = 12$ cm$^2$.", r"$3 \times 4 = 12$ cm$^2$"),
            (r"The answer is 12 $\text{cm}^2$.", r"12 $\text{cm}^2$"),
            (r"So it is 12\(\%\).", r"12\(\%\)"),
            ("It has 12 units$^2$.", "12 units$^2$"),
            ("The speed is 12 m/s$^2$.", "12 m/s$^2$"),
            ("The answer is 12 for $n$.", "12"),
            ("Answer: 12 values of $n$", "12"),
            ("The answer is 12 possible values of $x$.", "12"),
            (r"The answer is 12 integers $n \le 100$.", "12"),
            ("There are 12 ways to choose $k$.", "12"),
            ("Thus $f(x) = 2x$ for all $x$.", "f(x) = 2x"),
            ("The answer is 5 groups of $4$, so $20$.", "20"),
            ("So the answer is $k$.", "k"),
            ("We find $k$.", "k"),
        ] {
            assert_eq!(
                extracted(text).map(|(answer, _)| answer),
                Some(answer.to_owned()),
                "{text}"
            );
        }
        for text in [
            "The answer is 5 times $x$.",
            "There are 3 of 12 ways to choose $k$.",
            r"The angles are 10 and 12$^\circ$.",
            "It is in cm$^2$.",
        ] {
            assert_eq!(extracted(text), None, "{text}");
        }
    }

    #[test]
    fn all_of_several_answers_are_one() {
        let is_right =
            |target: &str, text: &str| judge(&[target], text).is_some_and(|found| found.credit.score() == 1.0);
        for text in [
            "The solutions are $x=2$ and $x=3$.",
            "The answers are $2$ and $3$",
            "The answers are 2 and 3.",
            "The values of $x$ are $2$ and $3$.",
            "The roots of the equation are: $2$, $3$.",
            "The solutions are 2 and 3.",
            r"The roots are $\boxed{2}$ and $\boxed{3}$.",
            r"So $x = \boxed{2}$ or $x = \boxed{3}$.",
        ] {
            assert!(is_right("2, 3", text), "{text}");
            assert!(!is_right("3", text), "{text}");
        }
        assert!(is_right("5", "The roots are $2$ and $3$, so the sum is $5$."));
        assert!(is_right("5", "The values are 2 and 3. The sum is 5"));
        assert!(is_right("3", r"First \boxed{2}. Then \boxed{3}."));
        assert!(is_right("3", r"\boxed{3}, \boxed{3}"));
        assert!(is_right("(2, 3)", r"$y = \boxed{3}$ and $x = \boxed{2}$"));
    }

    #[test]
    fn denials_and_what_changes_a_number_are_heard() {
        for (text, other) in [
            ("Answer: negative $3$", Some("-3")),
            ("Answer: minus $3$", Some("-3")),
            ("Answer: -$3$", Some("-3")),
            ("Answer: $3$ and a half", Some("3.5")),
            ("Answer: −$3$", Some("-3")),
            ("Answer: $3$ squared", Some("9")),
            ("Answer: $3$/$4$", Some("3/4")),
            ("Answer: $3$:$4$", Some("3:4")),
            ("Answer: $3$ + $4$", Some("7")),
            ("The answer is all real numbers except 3.", Some(r"x \ne 3")),
            ("Answer: all real numbers except $3$", Some(r"x \ne 3")),
            ("The answer is at least $3$", None),
            ("The answer is at most 3.", None),
            ("the answer cannot be $3$", None),
            ("the answer can't be 3", None),
            ("the answer isn't $3$", None),
            ("Answer: every number except $3$", None),
        ] {
            let is_right = |target: &str| judge(&[target], text).map(|found| found.credit.score() == 1.0);
            assert_ne!(is_right("3"), Some(true), "{text}");
            match other {
                Some(other) => assert_eq!(is_right(other), Some(true), "{text}"),
                None => assert_eq!(is_right("3"), None, "{text}"),
            }
        }
        assert_eq!(extracted("Answer:\n- $3$"), Some(("3".to_owned(), ANNOUNCED)));
        assert_eq!(
            extracted("The answer is $3$: $x$ is odd."),
            Some(("3".to_owned(), ANNOUNCED))
        );
    }

    #[test]
    fn several_announced_formulas_are_one_answer() {
        let is_right = |target: &str, text: &str| judge(&[target], text).unwrap().credit.score() == 1.0;
        for (target, text, wanted) in [
            ("5", "Answer: $5$ or $6$", false),
            ("5, 6", "Answer: $5$ or $6$", true),
            ("3", "the answer is $x = 3$ or $x = 4$", false),
            ("3, 4", "the answer is $x = 3$ or $x = 4$", true),
            ("3", "the answer is $3$ to $4$", false),
            ("3", "the answer is $A=3$, $B=4$", false),
            ("3, 4", "the answer is $A=3$, $B=4$", true),
            ("3, 4", "The answer is $3$ and $4$.", true),
            ("3", "the answer is $3$ million", false),
            ("3000000", "the answer is $3$ million", true),
            ("5000000", "答案是$500$万", true),
            ("5000000", "答案是$500$万元。", true),
            ("5000000", r"\boxed{500万}", true),
            ("5000000", r"\boxed{500\text{万}}", true),
            ("5", r"\boxed{5千米}", true),
            ("5000", r"\boxed{5千米}", false),
            (r"3\text{ m}", "the answer is $3$ cm", false),
            (r"3\text{ m}", "the answer is $3$ m", true),
            ("x=2", "2x + 3 = 7\n\nx = 2", true),
        ] {
            assert_eq!(is_right(target, text), wanted, "{target}: {text}");
        }
        let long = format!("the answer is 5{}", "+0".repeat(1_000));
        assert!(is_right("5", &long));
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
