//! The question's own options, one after the other, and no answer: "A) red B) green".
//!
//! Only labels right behind each other are an echo, on one line or on lines that follow each other. What is said of the other
//! options behind an answer ("The answer is B. It is in the UK.\n\nC. Berlin is German.") is none.

use super::Options;

/// What leads to labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lead {
    /// Words that say an answer, which ends where its sentence ends.
    Answer,
    /// Nothing, or a question: the options that follow may be sentences.
    Question,
}

/// A label with its mark, and the letters that stand behind it: `B)`.
struct Label<'t> {
    index: usize,
    mark: char,
    after: &'t str,
}

impl Options<'_> {
    /// From the place on the text lists the options.
    pub(super) fn lists_options(&self, text: &str, place: usize, lead: Lead) -> bool {
        let Some(first) = self.label_at(&text[place..]) else {
            return false;
        };
        let item = first.after.trim_start_matches([' ', '\t', '*', '_', ')', ']']);
        if item.is_empty() || item.starts_with(['\n', '\r']) {
            return false;
        }
        match self.forms.get(first.index).and_then(|form| form.begins(item, true)) {
            Some(length) => self.goes_on(&first, &item[length..], lead),
            // Without their texts, or with others, it takes three of them.
            None => [first.index + 1, first.index + 2]
                .iter()
                .try_fold(item, |item, next| self.next_item(item, *next, first.mark, lead))
                .is_some(),
        }
    }

    fn label_at<'t>(&self, text: &'t str) -> Option<Label<'t>> {
        let mut letters = text.chars();
        let index = self.letter(letters.next().filter(char::is_ascii_uppercase)?)?;
        let mark = letters.next().filter(|mark| matches!(mark, ')' | '.' | ':'))?;
        let after = letters.as_str();
        Some(Label { index, mark, after })
    }

    /// Behind an option and its own text stands the next one's label; behind an answer also the next one's text, of which nothing
    /// else is said.
    fn goes_on(&self, first: &Label<'_>, rest: &str, lead: Lead) -> bool {
        let next = rest.trim_start_matches(|letter: char| letter.is_whitespace() || ",;.(*-•>".contains(letter));
        let gap = &rest[..rest.len() - next.len()];
        let Some(next) = self.label_at(next) else {
            return false;
        };
        if next.index != first.index + 1 || next.mark != first.mark {
            return false;
        }
        if lead == Lead::Question {
            return true;
        }
        let ends_answer = gap.trim_start_matches('*').starts_with('.') && gap.contains('\n');
        let item = next.after.trim_start_matches([' ', '\t', '*', '_']);
        let begins = |form: &super::Form| form.begins(item, true);
        let Some(length) = self.forms.get(next.index).and_then(begins).filter(|_| !ends_answer) else {
            return false;
        };
        let behind = item[length..].trim_start_matches([' ', '\t', ',', ';', '.', '*', '_', '(']);
        behind.is_empty() || behind.starts_with(['\n', '\r']) || self.label_at(behind).is_some()
    }

    /// What stands behind the next label, which is the next of all, on the same line or at the beginning of the next one.
    fn next_item<'t>(&self, item: &'t str, next: usize, mark: char, lead: Lead) -> Option<&'t str> {
        let end = item.find('\n').unwrap_or(item.len());
        let (line, below) = item.split_at(end);
        let (said, label) = match self.first_label(line, mark) {
            Some(at) => (&line[..at], self.label_at(&item[at..])?),
            None => {
                let begin = |letter: char| letter.is_whitespace() || "(*-•>".contains(letter);
                (line, self.label_at(below.trim_start_matches(begin))?)
            }
        };
        let said = said.trim_end_matches([' ', '\t', '\r', '*', '_', '(']);
        let is_ended = lead == Lead::Answer && said.ends_with(['.', '!', '?']);
        let is_item = said.contains(char::is_alphanumeric) && said.starts_with(|first: char| !",;.".contains(first));
        (label.index == next && label.mark == mark && is_item && !is_ended).then_some(label.after.trim_start())
    }

    /// Where the first label with the mark stands that is set apart.
    fn first_label(&self, line: &str, mark: char) -> Option<usize> {
        line.match_indices(mark).find_map(|(at, _)| {
            let start = at.checked_sub(1).filter(|start| line.is_char_boundary(*start))?;
            let before = line[..start].chars().next_back();
            let is_apart = before.is_none_or(|before| before.is_whitespace() || "(*".contains(before));
            (is_apart && self.label_at(&line[start..]).is_some()).then_some(start)
        })
    }
}
