//! Family `choice`: a letter or an option's text names one of the choices.
//!
//! The last announced answer counts, because models correct themselves. Only a text that announces none is searched for a
//! letter that stands alone, then for the options' own words, and there an answer must be the only one: of two letters that
//! are merely mentioned neither is an answer.

use tidemill_domain::Item;
use tidemill_maths::{boxes, unwrapped};

use crate::Error;
use crate::anchor::{announced, claimed};
use crate::answer::{Answer, Credit, Finding, fold, same_words, trimmed, words};
use crate::family::Family;
use crate::pattern::Pattern;

const NAME: &str = "choice@2";
const NAMED_OPTION: &str = "named-option@2";

/// Letters that label options when an item does not list their texts.
const MAX_LETTERS: usize = 26;

#[derive(Debug, Clone)]
pub(crate) struct Choice {
    pattern: Option<Pattern>,
}

impl Choice {
    pub(crate) fn try_new(pattern: Option<&str>) -> Result<Self, Error> {
        Ok(Self {
            pattern: pattern.map(Pattern::try_new).transpose()?,
        })
    }
}

impl Family for Choice {
    fn name(&self) -> &'static str {
        NAME
    }

    fn judge(&self, item: &Item, answer: &Answer<'_>) -> Result<Option<Finding>, Error> {
        let options = Options { texts: &item.choices };
        let right = options.right(item).ok_or(Error::Target {
            wanted: "one of the choices",
        })?;
        let place = match &self.pattern {
            Some(pattern) => pattern.last(answer.text()),
            None => Some(answer.text()),
        };
        let found = place.and_then(|place| options.find(place));
        Ok(found.map(|named| {
            let (said, wanted) = (options.label(named.index), options.label(right));
            Finding::new(NAMED_OPTION, &said, Credit::Whole(named.index == right))
                .at(answer.span(named.written))
                .known_as(&said)
                .because(format!("{} {}; {wanted} is right", said, named.how))
        }))
    }
}

/// An option that a text names.
#[derive(Debug, Clone, Copy)]
struct Named<'t> {
    index: usize,
    /// The part of the text that names it.
    written: &'t str,
    how: &'static str,
}

/// The options of one item, named by their index.
#[derive(Clone, Copy)]
struct Options<'i> {
    texts: &'i [String],
}

impl Options<'_> {
    fn right(self, item: &Item) -> Option<usize> {
        match item.correct_choice {
            Some(index) => Some(index as usize).filter(|&index| index < self.letters()),
            None => item.targets.iter().find_map(|target| self.named_by(target)),
        }
    }

    fn letters(self) -> usize {
        if self.texts.is_empty() {
            MAX_LETTERS
        } else {
            self.texts.len()
        }
    }

    /// The option's letter, or its text past the alphabet.
    fn label(self, index: usize) -> String {
        match u8::try_from(index)
            .ok()
            .filter(|&index| usize::from(index) < MAX_LETTERS)
        {
            Some(index) => char::from(b'A' + index).to_string(),
            None => self.texts.get(index).cloned().unwrap_or_default(),
        }
    }

    fn find(self, text: &str) -> Option<Named<'_>> {
        let whole = |text| {
            let index = self.named_by(text)?;
            let written = trimmed(text);
            let how = "is all that was answered";
            Some(Named { index, written, how })
        };
        self.announced_last(text)
            .or_else(|| whole(text))
            .or_else(|| self.mentioned_alone(text))
            .or_else(|| self.words_in_last_line(text))
    }

    /// The last of: announced answers, boxes, letters claimed to be correct.
    fn announced_last(self, text: &str) -> Option<Named<'_>> {
        let boxed = boxes(text).last.and_then(|boxed| {
            let index = self.named_by(unwrapped(boxed.content))?;
            let (written, how) = (boxed.content, "stands in the last box");
            Some((boxed.start, Named { index, written, how }))
        });
        let announced = announced(text).filter_map(|place| {
            let (index, length) = self.at_start(&text[place..])?;
            let (written, how) = (&text[place..place + length], "was announced last");
            Some((place, Named { index, written, how }))
        });
        let claimed = claimed(text).filter_map(|place| {
            let letter = text[place..].chars().next()?;
            let (written, how) = (&text[place..place + letter.len_utf8()], "was called right last");
            Some((
                place,
                Named {
                    index: self.letter(letter)?,
                    written,
                    how,
                },
            ))
        });
        announced
            .chain(claimed)
            .chain(boxed)
            .max_by_key(|&(place, _)| place)
            .map(|(_, named)| named)
    }

    /// The whole text is a letter or an option's text, marks around it aside.
    fn named_by(self, text: &str) -> Option<usize> {
        let bare = trimmed(text).trim_matches(|mark: char| mark.is_ascii_punctuation() || mark.is_whitespace());
        let mut letters = bare.chars();
        let sole = letters.next().filter(|_| letters.next().is_none());
        let by_text = self
            .texts
            .iter()
            .position(|option| same_words(option, text, true) && !is_blank(option));
        sole.and_then(|letter| self.letter(letter)).or(by_text)
    }

    /// What the text begins with: an option's text, else a letter that is no part of a word and no article; and its length.
    fn at_start(self, text: &str) -> Option<(usize, usize)> {
        let by_text = self
            .texts
            .iter()
            .enumerate()
            .filter(|(_, option)| option.chars().count() > 1)
            .filter_map(|(index, option)| Some((index, option, starts_with(text, option)?)))
            .max_by_key(|(index, option, _)| (option.len(), usize::MAX - index));
        if let Some((index, _, length)) = by_text {
            return Some((index, length));
        }
        let mut letters = text.chars();
        let letter = letters.next()?;
        let index = self.letter(letter)?;
        let is_named = !continues_word(letters.clone().next()) && !is_article(letter, letters.as_str());
        is_named.then_some((index, letter.len_utf8()))
    }

    fn letter(self, letter: char) -> Option<usize> {
        let index = match letter {
            'a'..='z' => letter as usize - 'a' as usize,
            'A'..='Z' => letter as usize - 'A' as usize,
            'Ａ'..='Ｚ' => letter as usize - 'Ａ' as usize,
            _ => return None,
        };
        (index < self.letters()).then_some(index)
    }

    /// The only letter that is set apart: `(C)`, `[C]`, `**C**`, or `C)`, `C.`, `C:` at the start of a line.
    fn mentioned_alone(self, text: &str) -> Option<Named<'_>> {
        let mut only: Option<Named<'_>> = None;
        for line in text.lines() {
            let bytes = line.as_bytes();
            let starts = line.len()
                - line
                    .trim_start_matches(|mark: char| mark.is_whitespace() || "([*".contains(mark))
                    .len();
            for (at, &byte) in bytes.iter().enumerate().filter(|(_, byte)| byte.is_ascii_uppercase()) {
                let before = at.checked_sub(1).and_then(|before| bytes.get(before));
                let after = bytes.get(at + 1);
                let is_enclosed = matches!(
                    (before, after),
                    (Some(b'('), Some(b')')) | (Some(b'['), Some(b']')) | (Some(b'*'), Some(b'*'))
                );
                let is_heading = at == starts && matches!(after, Some(b')' | b'.' | b':'));
                if !(is_enclosed || is_heading) {
                    continue;
                }
                let Some(index) = self.letter(char::from(byte)) else {
                    continue;
                };
                if only.is_some_and(|earlier| earlier.index != index) {
                    return None;
                }
                let (written, how) = (&line[at..=at], "is the only letter set apart");
                only = Some(Named { index, written, how });
            }
        }
        only
    }

    /// The only option whose words occur in the last line. An option within a longer one that occurs does not count.
    fn words_in_last_line(self, text: &str) -> Option<Named<'_>> {
        let last = text.lines().rfind(|line| !is_blank(line))?;
        let line: Vec<String> = words(last, true).collect();
        let occurring: Vec<(usize, Vec<String>)> = self
            .texts
            .iter()
            .map(|option| words(option, true).collect::<Vec<_>>())
            .enumerate()
            .filter(|(_, option)| contains(&line, option))
            .collect();
        let mut longest = occurring.iter().filter(|(index, option)| {
            let is_part = |(other, longer): &(usize, Vec<String>)| {
                other != index && longer.len() > option.len() && contains(longer, option)
            };
            !occurring.iter().any(is_part)
        });
        let (index, _) = longest.next()?;
        longest.next().is_none().then_some(Named {
            index: *index,
            written: trimmed(last),
            how: "alone has its words in the last line",
        })
    }
}

fn contains(words: &[String], part: &[String]) -> bool {
    !part.is_empty() && words.windows(part.len()).any(|window| window == part)
}

fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

/// How far the option goes that the text begins with, case aside; no word goes on after it.
fn starts_with(text: &str, option: &str) -> Option<usize> {
    let mut rest = text.chars();
    for wanted in option.trim().chars() {
        if !rest.next().is_some_and(|letter| fold(letter).eq(fold(wanted))) {
            return None;
        }
    }
    let length = text.len() - rest.as_str().len();
    (!continues_word(rest.next())).then_some(length)
}

/// Scripts without spaces between words do not continue a Latin letter: in 答案是C项 the answer is C.
fn continues_word(next: Option<char>) -> bool {
    next.is_some_and(|letter| letter == '_' || (letter.is_alphanumeric() && letter < '\u{2e80}'))
}

/// "The answer is a car", "A car moves", "I think": a small letter, an A or an I before a further word names no option,
/// unless that word gives a reason.
fn is_article(letter: char, rest: &str) -> bool {
    const REASONS: [&str; 10] = [
        "because", "since", "as", "and", "for", "is", "due", "which", "with", "given",
    ];
    if !(letter.is_lowercase() || matches!(letter, 'A' | 'I')) {
        return false;
    }
    let after = rest.trim_start_matches([' ', '\t']);
    if after.len() == rest.len() || !after.starts_with(char::is_lowercase) {
        return false;
    }
    let end = after
        .find(|letter: char| !letter.is_alphanumeric())
        .unwrap_or(after.len());
    !REASONS.contains(&&after[..end])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::tests::item;

    const CITIES: [&str; 4] = ["Paris", "New York", "York", "a car"];

    fn find(text: &str) -> Option<String> {
        find_with(None, text)
    }

    fn find_with(pattern: Option<&str>, text: &str) -> Option<String> {
        let choice = Choice::try_new(pattern).unwrap();
        choice
            .judge(&item(&["B"], &CITIES), &Answer::whole(text))
            .unwrap()
            .map(|finding| finding.extracted)
    }

    fn assert_finds(cases: &[(&str, &str)]) {
        for (text, letter) in cases {
            assert_eq!(find(text).as_deref(), Some(*letter), "{text}");
        }
    }

    fn assert_finds_none(cases: &[&str]) {
        for text in cases {
            assert_eq!(find(text), None, "{text}");
        }
    }

    #[test]
    fn the_last_announced_answer_counts() {
        assert_finds(&[
            ("Answer: A ... wait ... **Answer: D**", "D"),
            ("The answer is B because a car moves", "B"),
            ("Answer: A\nFinal answer: option (C). It was not B.", "C"),
            ("**Answer:** (b)\n", "B"),
            ("The correct answer is **D**, not A.", "D"),
            ("The answer is A because of this", "A"),
            ("I choose C since it fits", "C"),
            ("Answer: the answer is\n\nD", "D"),
            ("(B) is the correct answer", "B"),
            ("Answer: A. No, B is correct.", "B"),
        ]);
    }

    #[test]
    fn answers_are_announced_in_many_languages() {
        assert_finds(&[
            ("Antwort: C", "C"),
            ("答案：C", "C"),
            ("所以答案是C项。", "C"),
            ("Die richtige Antwort lautet B.", "B"),
            ("La réponse est (D).", "D"),
            ("La respuesta correcta es: Respuesta: C", "C"),
            ("La respuesta correcta es C.", "C"),
            ("La risposta corretta è la B.", "B"),
            ("Ответ: C", "C"),
            ("答えはＣです", "C"),
            ("정답은 C입니다", "C"),
            ("\u{200f}الإجابة: C\u{200f}", "C"),
        ]);
    }

    #[test]
    fn an_article_is_no_answer() {
        assert_finds_none(&[
            "To answer a question like this needs thought",
            "The answer is a matter of taste",
            "The answer: A dog would know",
            "Answer: I think so",
        ]);
        assert_finds(&[
            ("The answer is a.", "A"),
            ("answer: a", "A"),
            ("Answer: a because it is", "A"),
        ]);
    }

    #[test]
    fn a_letter_is_no_part_of_a_word() {
        assert_finds_none(&[
            "Answer: Because",
            "Answer: B2",
            "The answers: C_x",
            "Answer: Dé",
            "Answer: E",
        ]);
    }

    #[test]
    fn boxes_count_by_their_place() {
        assert_finds(&[
            (r"\boxed{C}", "C"),
            (r"Answer: A, rather $\boxed{\text{D}}$", "D"),
            (r"\boxed{A} but finally: Answer: B", "B"),
            (r"\boxed{New York}", "B"),
            (r"\boxed{A} and \boxed{B", "A"),
        ]);
    }

    #[test]
    fn a_sole_letter_in_any_dress_is_an_answer() {
        assert_finds(&[
            ("C", "C"),
            ("(C)", "C"),
            (" **c**. ", "C"),
            ("C) York", "C"),
            ("\u{200f}C\u{200f}", "C"),
        ]);
        assert_finds(&[("Well, I say (C), that is it", "C"), ("Both times:\n(D) and (D)", "D")]);
        assert_finds_none(&["Either (A) or (B)", "A. one\nB. two", "", "\0", "E"]);
    }

    #[test]
    fn the_text_of_an_option_is_an_answer() {
        assert_finds(&[
            ("Paris", "A"),
            ("paris!", "A"),
            ("The answer is New York.", "B"),
            ("Answer: a car", "D"),
            ("Let me think.\nIt must be New York", "B"),
            ("It is york", "C"),
        ]);
        assert_finds_none(&["Paris or York", "Yorkshire", "Parisian"]);
    }

    #[test]
    fn a_pattern_narrows_the_place() {
        let pattern = Some(r"<answer>(.*?)</answer>");
        assert_eq!(find_with(pattern, "Answer: A <answer>C</answer>").as_deref(), Some("C"));
        assert_eq!(
            find_with(pattern, "<answer>A</answer> <answer>york</answer>").as_deref(),
            Some("C")
        );
        assert_eq!(find_with(pattern, "Answer: A"), None);
    }

    #[test]
    fn the_right_choice_is_an_index_a_letter_or_a_text() {
        let choice = Choice::try_new(None).unwrap();
        let answer = Answer::whole("Answer: B");
        let judge = |item: &Item| {
            let finding = choice.judge(item, &answer);
            finding.map(|finding| finding.unwrap().credit == Credit::Whole(true))
        };
        assert_eq!(judge(&item(&["B"], &CITIES)), Ok(true));
        assert_eq!(judge(&item(&["new york"], &CITIES)), Ok(true));
        assert_eq!(judge(&item(&["C"], &[])), Ok(false));
        let by_index = Item {
            correct_choice: Some(1),
            ..item(&[], &CITIES)
        };
        assert_eq!(judge(&by_index), Ok(true));
        assert!(judge(&item(&["Rome"], &CITIES)).is_err());
        assert!(
            judge(&Item {
                correct_choice: Some(4),
                ..item(&[], &CITIES)
            })
            .is_err()
        );
    }
}
