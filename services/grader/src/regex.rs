//! Family `regex`: a pattern finds the answer, which must equal a target.

use tidemill_domain::{Item, Take};

use crate::Error;
use crate::answer::{Answer, Credit, Finding, same_text, trimmed};
use crate::family::Family;
use crate::pattern::Pattern;

const NAME: &str = "regex@1";
const MATCH: &str = "match@1";

#[derive(Debug, Clone)]
pub(crate) struct Regex {
    pattern: Pattern,
    take: Take,
    ignore_case: bool,
}

impl Regex {
    pub(crate) fn try_new(pattern: &str, take: Take, ignore_case: bool) -> Result<Self, Error> {
        Ok(Self {
            pattern: Pattern::try_new(pattern)?,
            take,
            ignore_case,
        })
    }
}

impl Family for Regex {
    fn name(&self) -> &'static str {
        NAME
    }

    fn judge(&self, item: &Item, answer: &Answer<'_>) -> Result<Option<Finding>, Error> {
        if item.targets.is_empty() {
            return Err(Error::Target { wanted: "an answer" });
        }
        let found = match self.take {
            Take::First => self.pattern.first(answer.text()),
            Take::Last => self.pattern.last(answer.text()),
        };
        let Some(text) = found.map(trimmed).filter(|text| !text.is_empty()) else {
            return Ok(None);
        };
        let is_right = item
            .targets
            .iter()
            .any(|target| same_text(text, trimmed(target), self.ignore_case));
        let finding = Finding::new(MATCH, text, Credit::Whole(is_right));
        Ok(Some(finding.at(answer.span(text))))
    }
}
