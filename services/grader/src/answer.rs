//! What families share: where the answer is in a completion, and when two texts say the same.

use std::borrow::Cow;

use tidemill_domain::{Digest, Item, JudgeCost, Measured, Reasoning, Span};

/// The longest extraction a grade keeps, in bytes: a grade is a small message, whatever the model wrote.
const MAX_EXTRACTED_BYTES: usize = 2_048;

/// The longest canonical form, and how much of a longer one stays readable.
const MAX_CANONICAL_BYTES: usize = 200;
const KEPT_CANONICAL_BYTES: usize = 160;

/// What a family found in an answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Finding {
    /// As the grade keeps it.
    pub(crate) extracted: String,
    /// Kind and version of what found it.
    pub(crate) extractor: &'static str,
    /// Where it stands in the completion's text; `None` for what stands nowhere, as the choice of a likelihood.
    pub(crate) span: Option<Span>,
    /// The same for answers that are taken for equal; `None` where that is `extracted`.
    pub(crate) canonical: Option<String>,
    /// From 0, wrong, to 1, right.
    pub(crate) credit: Credit,
    /// What the sample adds to metrics, by their names: where the benchmark has them is no family's business.
    pub(crate) measures: Vec<(String, Measured)>,
    /// Why it is worth that much, where the rest does not say.
    pub(crate) reason: Option<String>,
    /// What a judge took for it.
    pub(crate) judge: Option<JudgeCost>,
}

/// What an answer is worth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Credit {
    /// Right or wrong.
    Whole(bool),
    /// A part, from 0 to 1: of a family whose every answer has such a score.
    Part(f64),
}

impl Credit {
    pub(crate) fn score(self) -> f64 {
        match self {
            Self::Whole(is_right) => f64::from(u8::from(is_right)),
            Self::Part(score) => score.clamp(0.0, 1.0),
        }
    }
}

impl Finding {
    pub(crate) fn new(extractor: &'static str, extracted: &str, credit: Credit) -> Self {
        Self {
            extracted: shortened(extracted, MAX_EXTRACTED_BYTES),
            extractor,
            span: None,
            canonical: None,
            credit,
            measures: Vec::new(),
            reason: None,
            judge: None,
        }
    }

    pub(crate) fn at(self, span: Option<Span>) -> Self {
        Self { span, ..self }
    }

    /// The form that is the same for equal answers.
    pub(crate) fn known_as(self, canonical: &str) -> Self {
        let canonical = if canonical.len() <= MAX_CANONICAL_BYTES {
            canonical.to_owned()
        } else {
            // The beginning is for people; what it leaves out is told apart by the hash.
            let hash = Digest::of(canonical.as_bytes()).to_string();
            format!("{}#{}", shortened(canonical, KEPT_CANONICAL_BYTES), &hash[..16])
        };
        let canonical = Some(canonical);
        Self { canonical, ..self }
    }

    pub(crate) fn because(self, reason: impl Into<String>) -> Self {
        let reason = Some(reason.into());
        Self { reason, ..self }
    }
}

/// What the model answered: a completion's text without its reasoning.
#[derive(Debug, Clone)]
pub(crate) struct Answer<'c> {
    text: Cow<'c, str>,
    /// Where its pieces begin in the answer, and where in the completion; in order.
    pieces: Vec<(usize, usize)>,
}

impl<'c> Answer<'c> {
    /// The answer in a completion; `None` when a reasoning block is open to the end, because what it holds is no answer.
    ///
    /// A closing mark without an opening one ends reasoning that the prompt's template began: all before it is reasoning.
    pub(crate) fn of(text: &'c str, reasoning: &Reasoning) -> Option<Self> {
        match reasoning {
            Reasoning::None => Some(Self::whole(text)),
            Reasoning::Think => Self::without(text, tags(text)),
            Reasoning::Marks { open, close } => Self::without(text, marks(text, open, close)),
        }
    }

    /// All of a text.
    pub(crate) fn whole(text: &'c str) -> Self {
        Self {
            text: Cow::Borrowed(text),
            pieces: vec![(0, 0)],
        }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Where a part of [`Answer::text`] stands in the completion; `None` for a text that is no part of it, or that was put
    /// together from both sides of a reasoning block.
    pub(crate) fn span(&self, part: &str) -> Option<Span> {
        let start = part.as_ptr().addr().checked_sub(self.text.as_ptr().addr())?;
        let end = start.checked_add(part.len()).filter(|end| *end <= self.text.len())?;
        let index = self
            .pieces
            .partition_point(|(begin, _)| *begin <= start)
            .checked_sub(1)?;
        let (begin, place) = self.pieces.get(index)?;
        let is_cut = self.pieces.get(index + 1).is_some_and(|(next, _)| *next < end);
        let moved = |offset: usize| (offset - begin + place) as u64;
        (!is_cut).then(|| Span {
            start: moved(start),
            end: moved(end),
        })
    }

    fn without(text: &'c str, tags: impl Iterator<Item = (usize, Tag)>) -> Option<Self> {
        let mut kept: Vec<(usize, usize)> = Vec::new();
        let (mut kept_to, mut is_open) = (0, false);
        for (start, tag) in tags {
            match tag {
                Tag::Open if is_open => {}
                Tag::Open => {
                    kept.push((kept_to, start));
                    is_open = true;
                }
                Tag::Close { end } => {
                    if !is_open {
                        kept.clear();
                    }
                    kept_to = end;
                    is_open = false;
                }
            }
        }
        if is_open {
            return None;
        }
        kept.push((kept_to, text.len()));
        kept.retain(|(start, end)| start < end);
        Some(Self::joined(text, &kept))
    }

    fn joined(text: &'c str, kept: &[(usize, usize)]) -> Self {
        match kept {
            [] => Self::whole(&text[text.len()..]).moved(text.len()),
            [(start, end)] => Self::whole(&text[*start..*end]).moved(*start),
            several => {
                let mut answer = Self {
                    text: Cow::Owned(String::new()),
                    pieces: Vec::new(),
                };
                for (start, end) in several {
                    answer.pieces.push((answer.text.len(), *start));
                    answer.text.to_mut().push_str(&text[*start..*end]);
                }
                answer
            }
        }
    }

    fn moved(self, place: usize) -> Self {
        Self {
            pieces: vec![(0, place)],
            ..self
        }
    }
}

enum Tag {
    Open,
    Close { end: usize },
}

fn tags(text: &str) -> impl Iterator<Item = (usize, Tag)> + '_ {
    text.match_indices('<').filter_map(|(start, _)| {
        let rest = text.as_bytes().get(start + 1..)?;
        let (is_close, name) = match rest.first()? {
            b'/' => (true, &rest[1..]),
            _ => (false, rest),
        };
        let length = ["think>", "thinking>"].into_iter().find_map(|tag| {
            let head = name.get(..tag.len())?;
            head.eq_ignore_ascii_case(tag.as_bytes()).then_some(tag.len())
        })?;
        let tag = if is_close {
            Tag::Close {
                end: start + 2 + length,
            }
        } else {
            Tag::Open
        };
        Some((start, tag))
    })
}

/// A suite's own marks, as they are.
fn marks<'t>(text: &'t str, open: &'t str, close: &'t str) -> impl Iterator<Item = (usize, Tag)> + 't {
    let mut next = 0;
    std::iter::from_fn(move || {
        let rest = text.get(next..)?;
        let opening = (!open.is_empty()).then(|| rest.find(open)).flatten();
        let closing = (!close.is_empty()).then(|| rest.find(close)).flatten();
        let is_opening = match (opening, closing) {
            (Some(opening), Some(closing)) => opening < closing,
            (opening, _) => opening.is_some(),
        };
        let start = next + if is_opening { opening? } else { closing? };
        next = start + if is_opening { open.len() } else { close.len() };
        let tag = if is_opening {
            Tag::Open
        } else {
            Tag::Close { end: next }
        };
        Some((start, tag))
    })
}

/// The question has no answer, and whoever gives none is right. A suite says so by one empty target.
pub(crate) fn is_unanswerable(item: &Item) -> bool {
    matches!(item.targets.as_slice(), [only] if only.is_empty())
}

/// The text without white space and invisible direction marks at both ends.
pub(crate) fn trimmed(text: &str) -> &str {
    text.trim_matches(|letter: char| letter.is_whitespace() || is_invisible(letter))
}

/// Marks that steer the direction or the joining of text and have no shape of their own.
const fn is_invisible(letter: char) -> bool {
    matches!(
        letter,
        '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}' | '\u{2066}'..='\u{2069}' | '\u{feff}'
    )
}

/// Upper case first, because it joins what lower case keeps apart: the two small sigmas, ß and SS.
pub(crate) fn fold(letter: char) -> impl Iterator<Item = char> {
    letter.to_uppercase().flat_map(char::to_lowercase)
}

/// ASCII punctuation and symbols, the general punctuation block, and the marks of scripts that have their own.
pub(crate) const fn is_punctuation(letter: char) -> bool {
    letter.is_ascii_punctuation()
        || is_invisible(letter)
        || matches!(
            letter,
            '¡' | '§' | '«' | '¶' | '·' | '»' | '¿'
                | '\u{55a}'..='\u{55f}' | '\u{589}' | '\u{5be}' | '\u{5f3}' | '\u{5f4}'
                | '\u{60c}' | '\u{61b}' | '\u{61f}' | '\u{66a}'..='\u{66d}' | '\u{6d4}'
                | '\u{964}' | '\u{965}'
                | '\u{2010}'..='\u{2027}' | '\u{2030}'..='\u{205e}'
                | '\u{3001}'..='\u{3003}' | '\u{3008}'..='\u{3011}' | '\u{3014}'..='\u{301f}' | '\u{30fb}'
                | '\u{ff01}'..='\u{ff0f}' | '\u{ff1a}'..='\u{ff20}' | '\u{ff3b}'..='\u{ff40}' | '\u{ff5b}'..='\u{ff65}'
        )
}

pub(crate) fn shortened(text: &str, bytes: usize) -> String {
    if text.len() <= bytes {
        return text.to_owned();
    }
    let mut end = bytes;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", &text[..end])
}

#[cfg(test)]
pub(crate) mod tests {
    use tidemill_domain::{Item, Prompt};

    use super::*;

    pub(crate) fn item(targets: &[&str], choices: &[&str]) -> Item {
        let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
        Item {
            id: "1".to_owned(),
            prompt: Prompt::Text("?".to_owned()),
            targets: owned(targets),
            choices: owned(choices),
            correct_choice: None,
            cluster: None,
            subset: None,
            weight: 1.0,
            material: Vec::new(),
        }
    }

    fn answer(text: &str) -> Option<String> {
        Answer::of(text, &Reasoning::Think).map(|answer| answer.text().to_owned())
    }

    #[test]
    fn a_part_of_the_answer_is_found_in_the_completion() {
        for text in [
            "so 42.",
            "<think>7</think>so 42.",
            "so <think>7</think>42.",
            "a</think> 42 <think>b</think> c",
        ] {
            let answer = Answer::of(text, &Reasoning::Think).unwrap();
            let start = answer.text().find("42").unwrap();
            let span = answer.span(&answer.text()[start..start + 2]).unwrap();
            assert_eq!(&text[span.start as usize..span.end as usize], "42", "{text}");
        }
        let joined = Answer::of("4<think>x</think>2", &Reasoning::Think).unwrap();
        assert_eq!((joined.text(), joined.span(joined.text())), ("42", None));
        assert_eq!(joined.span("42"), None, "another text");
    }

    #[test]
    fn marks_of_the_suite_tell_reasoning_and_none_are_told_where_it_has_none() {
        let marks = Reasoning::Marks {
            open: "[[".to_owned(),
            close: "]]".to_owned(),
        };
        let answer = |text| Answer::of(text, &marks).map(|answer| answer.text().to_owned());
        assert_eq!(answer("[[a]]b<think>").unwrap(), "b<think>");
        assert_eq!(answer("a]]b").unwrap(), "b");
        assert_eq!(answer("b[[a"), None);
        let all = Answer::of("<think>a", &Reasoning::None).unwrap();
        assert_eq!(all.text(), "<think>a");
    }

    #[test]
    fn an_open_reasoning_block_holds_no_answer() {
        assert_eq!(answer("<think> Answer: B"), None);
        assert_eq!(answer("Answer: A <THINK> wait, Answer: B"), None);
        assert_eq!(answer("<think>a</think> Answer: A <thinking> no"), None);
    }

    #[test]
    fn closed_reasoning_is_left_out() {
        assert_eq!(answer("<think>Answer: A</think>Answer: B").unwrap(), "Answer: B");
        assert_eq!(answer("Answer: B<think>or A?</think>").unwrap(), "Answer: B");
        assert_eq!(answer("1<think>x</think>2<think>y</think>3").unwrap(), "123");
        assert_eq!(answer("<think>the <think> tag</think>3").unwrap(), "3");
    }

    #[test]
    fn a_lone_closing_tag_ends_reasoning_that_the_template_began() {
        assert_eq!(answer("Answer: A</think>\nAnswer: B").unwrap(), "\nAnswer: B");
        assert_eq!(answer("<think>a</think>b</think>c").unwrap(), "c");
        assert_eq!(answer("no reasoning, 1 < 2").unwrap(), "no reasoning, 1 < 2");
    }

    #[test]
    fn a_long_extraction_is_cut_between_letters() {
        let finding = Finding::new("test@1", &"é".repeat(5_000), Credit::Whole(false));
        assert!(finding.extracted.ends_with("é…"));
        assert!(finding.extracted.len() <= MAX_EXTRACTED_BYTES + '…'.len_utf8());
    }
}
