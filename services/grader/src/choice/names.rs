//! Which option a text is that is nothing else: by its letter, by its own words, by a label at its beginning.

use tidemill_maths::unwrapped;

use super::form::{Same, peeled, same};
use super::{Options, is_opener};
use crate::answer::trimmed;

/// A letter with more marks around it than this is no answer.
const MAX_DRESSED_BYTES: usize = 256;

impl Options<'_> {
    /// The option that the whole text is, marks around it aside: by its letter, or by its text.
    pub(super) fn named_by(&self, text: &str) -> Same {
        let by_text = same(&self.forms, text);
        let Some(letter) = self.bare_letter(text) else {
            return by_text;
        };
        match by_text {
            Same::One(index) if index != letter => self.letter_or_text(text, peeled(text), letter, index),
            _ => Same::One(letter),
        }
    }

    /// Of a letter that labels one option and is the text of another one: in brackets it is the label, a small one that is written
    /// so is the text, and else there is no telling.
    pub(super) fn letter_or_text(&self, dressed: &str, letter: &str, label: usize, text: usize) -> Same {
        let is_exact = self.texts.get(text).is_some_and(|option| trimmed(option) == letter);
        let is_label = dressed.contains(')') || dressed.contains(']');
        match (is_exact, letter.starts_with(char::is_lowercase)) {
            (false, _) => Same::One(label),
            (true, _) if is_label => Same::One(label),
            (true, true) => Same::One(text),
            (true, false) => Same::Several,
        }
    }

    /// The whole text is a letter, marks around it aside.
    pub(super) fn bare_letter(&self, text: &str) -> Option<usize> {
        if text.trim().len() > MAX_DRESSED_BYTES {
            return None;
        }
        let mut letters = peeled(unwrapped(text)).chars();
        let letter = letters.next()?;
        letters.next().is_none().then(|| self.letter(letter)).flatten()
    }

    /// The text begins with a letter and a mark that makes it a label: `(B) green`, `B. green`.
    pub(super) fn heading(&self, text: &str) -> Option<usize> {
        let text = text.trim_start_matches(is_opener);
        let mut letters = text.chars();
        let index = self.letter(letters.next().filter(|letter| letter.is_uppercase())?)?;
        let rest = letters.as_str().trim_start_matches(['}', '*', '_', ' ']);
        rest.starts_with([')', ']', '.', ':']).then_some(index)
    }

    /// The text is a label and its own option, and nothing else: `**B. green**`.
    pub(super) fn labelled(&self, text: &str) -> Option<usize> {
        let index = self.heading(text)?;
        let label = text.find(char::is_uppercase)?;
        let option = text
            .get(label + 1..)?
            .trim_start_matches([')', ']', '}', '.', ':', '*', '_', ' ']);
        (same(&self.forms, option) == Same::One(index)).then_some(index)
    }

    pub(super) fn letter(&self, letter: char) -> Option<usize> {
        let index = match letter {
            'a'..='z' => letter as usize - 'a' as usize,
            'A'..='Z' => letter as usize - 'A' as usize,
            'Ａ'..='Ｚ' => letter as usize - 'Ａ' as usize,
            _ => return None,
        };
        (index < self.letters()).then_some(index)
    }
}
