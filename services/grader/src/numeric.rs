//! Family `numeric`: the last number of the answer equals the target as a number.
//!
//! Numbers are compared as exact fractions, with a tolerance and without: no rounding makes two of them equal.
//!
//! A balanced `\boxed{...}` narrows where the number is looked for, and so does the suite's pattern. A comma separates
//! thousands or ends the number; it is never the decimal mark, because `3,141` cannot be told from three thousand.

use tidemill_domain::Item;
use tidemill_maths::boxes;

use crate::Error;
use crate::answer::{Answer, Credit, Finding};
use crate::family::Family;
use crate::number::{Number, Place, Placed, last_formula, last_number};
use crate::pattern::Pattern;

const NAME: &str = "numeric@6";
const LAST_NUMBER: &str = "last-number@5";

/// Targets that a reason names.
const SHOWN: usize = 3;

#[derive(Debug, Clone)]
pub(crate) struct Numeric {
    pattern: Option<Pattern>,
    tolerance: f64,
}

impl Numeric {
    pub(crate) fn try_new(pattern: Option<&str>, tolerance: f64) -> Result<Self, Error> {
        Ok(Self {
            pattern: pattern.map(Pattern::try_new).transpose()?,
            tolerance,
        })
    }
}

impl Family for Numeric {
    fn name(&self) -> &'static str {
        NAME
    }

    fn judge(&self, item: &Item, answer: &Answer<'_>) -> Result<Option<Finding>, Error> {
        let targets: Vec<Number> = item
            .targets
            .iter()
            .filter_map(|target| Some(found(target, Place::Answer)?.0))
            .collect();
        if targets.is_empty() {
            return Err(Error::Target { wanted: "a number" });
        }
        let placed = self.place(answer).and_then(|place| {
            let (number, range) = found(place, self.kind())?;
            Some((number, place.get(range)?))
        });
        Ok(placed.map(|(number, written)| self.finding(&targets, &number).at(answer.span(written))))
    }

    fn why_none(&self, answer: &Answer<'_>) -> Option<String> {
        /// So much of a formula is told, in letters.
        const TOLD: usize = 80;
        let place = self.place(answer)?;
        let boxes = boxes(place);
        let (place, kind) = match boxes.last {
            Some(boxed) => (boxed.content, Place::Answer),
            None => (boxes.before_unclosed, self.kind()),
        };
        let formula: String = place.get(last_formula(place, kind)?)?.chars().take(TOLD).collect();
        Some(format!(
            "the answer is the formula {formula}, which `numeric` does not compute; the family `math` does"
        ))
    }
}

impl Numeric {
    /// Where the number is looked for.
    fn place<'a>(&self, answer: &'a Answer<'_>) -> Option<&'a str> {
        match &self.pattern {
            Some(pattern) => pattern.last(answer.text()),
            None => Some(answer.text()),
        }
    }

    /// What a pattern finds is an answer and nothing else.
    const fn kind(&self) -> Place {
        match self.pattern {
            Some(_) => Place::Answer,
            None => Place::Prose,
        }
    }

    fn finding(&self, targets: &[Number], number: &Number) -> Finding {
        let equal = targets.iter().find(|target| number.equals(target, self.tolerance));
        let within = match self.tolerance {
            0.0 => String::new(),
            tolerance => format!(" within {tolerance}"),
        };
        let reason = match equal {
            Some(target) => format!("equals {}{within}", target.text()),
            None => {
                let targets: Vec<&str> = targets.iter().take(SHOWN).map(Number::text).collect();
                format!("does not equal {}{within}", targets.join(" or "))
            }
        };
        Finding::new(LAST_NUMBER, number.text(), Credit::Whole(equal.is_some()))
            .known_as(&number.canonical())
            .because(reason)
    }
}

/// Targets and answers are read the same way; a box holds an answer, whatever the text around it is.
fn found(text: &str, place: Place) -> Option<Placed> {
    let boxes = boxes(text);
    match boxes.last {
        Some(boxed) => {
            let (number, range) = last_number(boxed.content, Place::Answer)?;
            let start = boxed.range.start;
            Some((number, start + range.start..start + range.end))
        }
        None => last_number(boxes.before_unclosed, place),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::tests::item;

    fn judge(pattern: Option<&str>, tolerance: f64, target: &str, text: &str) -> Option<(String, bool)> {
        let numeric = Numeric::try_new(pattern, tolerance).unwrap();
        let finding = numeric.judge(&item(&[target], &[]), &Answer::whole(text)).unwrap()?;
        Some((finding.extracted, finding.credit == Credit::Whole(true)))
    }

    #[test]
    fn target_and_answer_are_read_the_same_way() {
        for (target, text) in [
            ("$9{,}500", "The total is 9500."),
            ("9500", "The total is $9{,}500$."),
            ("#### 72", "72 clips, altogether."),
            (r"\frac{1}{2}", "0.5"),
            ("1,000", "1.0e3"),
        ] {
            assert!(judge(None, 0.0, target, text).unwrap().1, "{target} {text}");
        }
    }

    #[test]
    fn the_finding_says_where_and_why() {
        let numeric = Numeric::try_new(None, 0.0).unwrap();
        let text = r"é so \boxed{\text{about } 0.50}";
        let finding = numeric
            .judge(&item(&["1/2"], &[]), &Answer::whole(text))
            .unwrap()
            .unwrap();
        let span = finding.span.unwrap();
        assert_eq!(&text[span.start as usize..span.end as usize], "0.50");
        assert_eq!(finding.canonical.as_deref(), Some("1/2"));
        assert_eq!(finding.reason.as_deref(), Some("equals 1/2"));
        let finding = numeric
            .judge(&item(&["3"], &[]), &Answer::whole(text))
            .unwrap()
            .unwrap();
        assert_eq!(finding.reason.as_deref(), Some("does not equal 3"));
    }

    #[test]
    fn a_box_narrows_the_place() {
        let text = r"\boxed{5} ... corrected \boxed{\frac{1}{2}} as 3 of 6";
        assert_eq!(judge(None, 0.0, "0.5", text), Some(("1/2".to_owned(), true)));
        assert_eq!(
            judge(None, 0.0, "4", r"so 4 and \boxed{5"),
            Some(("4".to_owned(), true))
        );
        assert_eq!(judge(None, 0.0, "4", r"4 = \boxed{x}"), None);
    }

    #[test]
    fn a_pattern_narrows_the_place() {
        let pattern = Some("#### (.*)");
        assert_eq!(
            judge(pattern, 0.0, "8", "7\n#### 8\nof 9"),
            Some(("8".to_owned(), true))
        );
        assert_eq!(judge(pattern, 0.0, "8", "8"), None);
    }

    #[test]
    fn working_in_brackets_behind_what_a_pattern_finds_says_nothing_more() {
        let pattern = Some("#### (.*)");
        assert_eq!(
            judge(pattern, 0.0, "18", "#### 18 (9*2)"),
            Some(("18".to_owned(), true))
        );
        assert_eq!(judge(pattern, 0.0, "18", "#### 9 (2)"), None);
    }

    #[test]
    fn the_tolerance_is_the_largest_difference_that_counts_as_equal() {
        assert!(judge(None, 0.01, "100", "100.01").unwrap().1);
        assert!(!judge(None, 0.01, "100", "100.02").unwrap().1);
        assert!(!judge(None, 0.0, "100", "100.0000001").unwrap().1);
    }

    #[test]
    fn a_formula_in_place_of_a_number_is_no_answer_and_the_reason_says_what_reads_it() {
        let numeric = Numeric::try_new(None, 0.0).unwrap();
        for text in [r"so \boxed{\sqrt{4}}", r"16, so \sqrt{4}"] {
            assert_eq!(judge(None, 0.0, "4", text), None, "{text}");
            let why = numeric.why_none(&Answer::whole(text)).unwrap();
            assert!(why.contains(r"\sqrt{4}") && why.contains("`math`"), "{why}");
        }
        assert_eq!(numeric.why_none(&Answer::whole("nobody knows")), None);
        assert_eq!(
            judge(None, 0.0, "12", r"\boxed{12\text{ cm}^2}"),
            Some(("12".to_owned(), true))
        );
    }

    #[test]
    fn an_item_without_a_number_to_compare_with_is_the_graders_fault() {
        let numeric = Numeric::try_new(None, 0.0).unwrap();
        assert!(numeric.judge(&item(&["none"], &[]), &Answer::whole("5")).is_err());
        assert!(numeric.judge(&item(&[], &[]), &Answer::whole("5")).is_err());
    }
}
