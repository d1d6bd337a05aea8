//! Family `regex`: a pattern finds the answer, which must equal a target.

use tidemill_domain::{Item, Take};

use crate::Error;
use crate::answer::{Finding, same_text, trimmed};
use crate::pattern::Pattern;

pub(crate) const NAME: &str = "regex@1";

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

    pub(crate) fn judge(&self, item: &Item, text: &str) -> Result<Option<Finding>, Error> {
        if item.targets.is_empty() {
            return Err(Error::Target { wanted: "an answer" });
        }
        let found = match self.take {
            Take::First => self.pattern.first(text),
            Take::Last => self.pattern.last(text),
        };
        let Some(answer) = found.map(trimmed).filter(|answer| !answer.is_empty()) else {
            return Ok(None);
        };
        let is_right = item
            .targets
            .iter()
            .any(|target| same_text(answer, trimmed(target), self.ignore_case));
        Ok(Some(Finding::new(answer, is_right)))
    }
}
