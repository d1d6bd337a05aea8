//! Family `regex`: a pattern finds the answer, which must equal a target.
//!
//! Of several patterns the first that finds anything counts: the later ones are for answers that do not keep to the form.

use tidemill_domain::{AnswerPattern, Item, Normaliser, Take};

use crate::Error;
use crate::answer::{Answer, Finding, trimmed};
use crate::exact::compared;
use crate::family::Family;
use crate::normal::Normalisers;
use crate::pattern::Pattern;

const NAME: &str = "regex@2";
const MATCH: &str = "match@1";
const FALLBACK: &str = "match-of-a-later-pattern@1";

#[derive(Debug, Clone)]
pub(crate) struct Regex {
    patterns: Vec<Finder>,
    normalisers: Normalisers,
}

#[derive(Debug, Clone)]
struct Finder {
    pattern: Pattern,
    group: Option<usize>,
    take: Take,
}

impl Regex {
    pub(crate) fn try_new(patterns: &[AnswerPattern], normalisers: &[Normaliser]) -> Result<Self, Error> {
        let patterns: Result<Vec<Finder>, Error> = patterns.iter().map(finder).collect();
        Ok(Self {
            patterns: patterns?,
            normalisers: Normalisers::new(normalisers),
        })
    }

    /// One pattern, as suites of the first kind say it.
    pub(crate) fn of_one(pattern: &str, take: Take, ignore_case: bool) -> Result<Self, Error> {
        let pattern = AnswerPattern {
            pattern: pattern.to_owned(),
            group: None,
            take,
        };
        let normalisers: &[Normaliser] = if ignore_case { &[Normaliser::Case] } else { &[] };
        Self::try_new(&[pattern], normalisers)
    }
}

fn finder(spec: &AnswerPattern) -> Result<Finder, Error> {
    let pattern = Pattern::try_new(&spec.pattern)?;
    let group = spec.group.map(|group| group as usize);
    if let Some(group) = group.filter(|group| *group >= pattern.groups()) {
        return Err(Error::Pattern {
            pattern: spec.pattern.clone(),
            reason: format!("it has no group {group}"),
        });
    }
    Ok(Finder {
        pattern,
        group,
        take: spec.take,
    })
}

impl Family for Regex {
    fn name(&self) -> &'static str {
        NAME
    }

    fn judge(&self, item: &Item, answer: &Answer<'_>) -> Result<Option<Finding>, Error> {
        if item.targets.is_empty() {
            return Err(Error::Target { wanted: "an answer" });
        }
        let found = self.patterns.iter().enumerate().find_map(|(index, finder)| {
            let found = finder.pattern.take(answer.text(), finder.take, finder.group)?;
            let text = trimmed(found);
            (!text.is_empty()).then_some((index, text))
        });
        Ok(found.map(|(index, text)| {
            let extractor = if index == 0 { MATCH } else { FALLBACK };
            compared(&self.normalisers, item, extractor, text).at(answer.span(text))
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::tests::item;

    fn pattern(pattern: &str, group: Option<u32>, take: Take) -> AnswerPattern {
        AnswerPattern {
            pattern: pattern.to_owned(),
            group,
            take,
        }
    }

    fn found(patterns: &[AnswerPattern], text: &str) -> Option<(String, &'static str)> {
        let regex = Regex::try_new(patterns, &[]).unwrap();
        let finding = regex.judge(&item(&["x"], &[]), &Answer::whole(text)).unwrap()?;
        Some((finding.extracted, finding.extractor))
    }

    #[test]
    fn a_later_pattern_counts_only_where_the_earlier_find_nothing() {
        let patterns = [
            pattern(r"#### (\S+)", None, Take::Last),
            pattern(r"answer is (\S+)", None, Take::First),
        ];
        assert_eq!(
            found(&patterns, "the answer is 4\n#### 5").unwrap(),
            ("5".to_owned(), MATCH)
        );
        assert_eq!(
            found(&patterns, "the answer is 4, the answer is 6").unwrap(),
            ("4,".to_owned(), FALLBACK)
        );
        assert_eq!(found(&patterns, "none"), None);
    }

    #[test]
    fn the_group_that_counts_can_be_named() {
        let text = "x = 5";
        for (group, expected) in [(None, "x"), (Some(0), "x = 5"), (Some(1), "x"), (Some(2), "5")] {
            let patterns = [pattern(r"(\w) = (\d)", group, Take::Last)];
            assert_eq!(found(&patterns, text).unwrap().0, expected);
        }
        let missing = Regex::try_new(&[pattern(r"(\w)", Some(2), Take::Last)], &[]);
        assert!(missing.unwrap_err().to_string().contains("no group 2"));
    }

    #[test]
    fn answers_and_targets_are_normalised_alike() {
        let regex = Regex::try_new(
            &[pattern(r"is (.*)", None, Take::Last)],
            &[Normaliser::Numbers, Normaliser::Punctuation],
        )
        .unwrap();
        let finding = regex
            .judge(&item(&["$1,000.00"], &[]), &Answer::whole("It is 1000."))
            .unwrap()
            .unwrap();
        assert_eq!(finding.credit.score(), 1.0);
        assert_eq!(finding.canonical.as_deref(), Some("1000"));
        assert_eq!(finding.span.map(|span| (span.start, span.end)), Some((6, 11)));
    }
}
