//! What families share: where the answer is in a completion, and when two texts say the same.

use std::borrow::Cow;

/// The longest extraction a grade keeps, in bytes: a grade is a small message, whatever the model wrote.
const MAX_EXTRACTED_BYTES: usize = 2_048;

/// An answer that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    /// As the grade keeps it.
    pub(crate) extracted: String,
    /// It equals a target.
    pub(crate) is_right: bool,
}

impl Finding {
    pub(crate) fn new(extracted: &str, is_right: bool) -> Self {
        Self {
            extracted: shortened(extracted),
            is_right,
        }
    }
}

/// The text without its reasoning; `None` when a reasoning block is open to the end, because what it holds is no answer.
///
/// A closing tag without an opening one ends reasoning that the prompt's template began: all before it is reasoning.
pub(crate) fn without_reasoning(text: &str) -> Option<Cow<'_, str>> {
    let mut kept = String::new();
    let mut kept_to = 0;
    let mut is_open = false;
    for (start, tag) in tags(text) {
        match tag {
            Tag::Open if is_open => {}
            Tag::Open => {
                kept.push_str(&text[kept_to..start]);
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
    if kept.is_empty() {
        return Some(Cow::Borrowed(&text[kept_to..]));
    }
    kept.push_str(&text[kept_to..]);
    Some(Cow::Owned(kept))
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

/// The same letters in the same order.
pub(crate) fn same_text(one: &str, other: &str, ignore_case: bool) -> bool {
    if ignore_case {
        folded(one).eq(folded(other))
    } else {
        one == other
    }
}

/// The same words in the same order, whatever punctuation and white space is between and within them.
pub(crate) fn same_words(one: &str, other: &str, ignore_case: bool) -> bool {
    words(one, ignore_case).eq(words(other, ignore_case))
}

/// The words without punctuation, one after the other.
pub(crate) fn words(text: &str, ignore_case: bool) -> impl Iterator<Item = String> + '_ {
    text.split_whitespace().filter_map(move |word| {
        let letters = word.chars().filter(|&letter| !is_punctuation(letter));
        let word: String = if ignore_case {
            letters.flat_map(fold).collect()
        } else {
            letters.collect()
        };
        (!word.is_empty()).then_some(word)
    })
}

fn folded(text: &str) -> impl Iterator<Item = char> + '_ {
    text.chars().flat_map(fold)
}

/// Upper case first, because it joins what lower case keeps apart: the two small sigmas, ß and SS.
pub(crate) fn fold(letter: char) -> impl Iterator<Item = char> {
    letter.to_uppercase().flat_map(char::to_lowercase)
}

/// ASCII punctuation and symbols, the general punctuation block, and the marks of scripts that have their own.
const fn is_punctuation(letter: char) -> bool {
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

fn shortened(text: &str) -> String {
    if text.len() <= MAX_EXTRACTED_BYTES {
        return text.to_owned();
    }
    let mut end = MAX_EXTRACTED_BYTES;
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
        }
    }

    fn answer(text: &str) -> Option<String> {
        without_reasoning(text).map(Cow::into_owned)
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
    fn case_folding_joins_what_readers_take_for_the_same() {
        assert!(same_text("STRASSE", "straße", true));
        assert!(same_text("ΟΔΟΣ", "οδος", true));
        assert!(!same_text("Paris", "paris", false));
    }

    #[test]
    fn words_are_compared_without_punctuation() {
        assert!(same_words("«Hello», world!", "hello world", true));
        assert!(same_words("你好，世界。", "你好世界", false));
        assert!(same_words("a - b", "a b", false));
        assert!(!same_words("a b", "ab", false));
    }

    #[test]
    fn a_long_extraction_is_cut_between_letters() {
        let finding = Finding::new(&"é".repeat(5_000), false);
        assert!(finding.extracted.ends_with("é…"));
        assert!(finding.extracted.len() <= MAX_EXTRACTED_BYTES + '…'.len_utf8());
    }
}
