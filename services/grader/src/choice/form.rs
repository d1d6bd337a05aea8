//! When a text is an option's text: first as it is, then by what makes less and less of a difference.
//!
//! White space makes none. Marks at the ends, case, and punctuation are left aside only after that, and only where one option
//! alone is then the same: of `PH` and `pH` neither is `ph`. Signs, decimal marks and operators are never left aside: `-12` is not
//! `12`, `1.5` not `15`, `x > 3` not `x < 3`, `C#` not `C`.

use crate::answer::{fold, is_punctuation};

/// An option's text in the forms in which it is compared.
#[derive(Debug)]
pub(super) struct Form {
    /// White space aside.
    squeezed: String,
    /// Marks at the ends aside.
    bare: String,
    /// And case.
    folded: String,
    /// And punctuation within.
    weak: Vec<String>,
}

impl Form {
    pub(super) fn of(text: &str) -> Self {
        let bare = squeezed(peeled(text));
        Self {
            squeezed: squeezed(text),
            folded: folded(&bare),
            weak: weak_words(text),
            bare,
        }
    }

    pub(super) fn weak(&self) -> &[String] {
        &self.weak
    }

    pub(super) fn is_blank(&self) -> bool {
        self.squeezed.is_empty()
    }

    /// How many characters the option has.
    pub(super) fn is_one_character(&self) -> bool {
        let mut letters = self.squeezed.chars();
        letters.next().is_some() && letters.next().is_none()
    }

    /// How far the option goes that the text begins with, white space aside.
    pub(super) fn begins(&self, text: &str, ignores_case: bool) -> Option<usize> {
        let mut rest = text;
        let mut before: Option<char> = None;
        for wanted in self.squeezed.chars() {
            let after = rest.trim_start();
            if wanted == ' ' {
                if after.len() == rest.len() {
                    return None;
                }
                (rest, before) = (after, Some(' '));
                continue;
            }
            let next = after.chars().next()?;
            let is_apart = after.len() != rest.len() && before != Some(' ');
            if is_apart && (before.is_none_or(is_tight) && is_tight(next)) {
                return None;
            }
            let is_same =
                next == wanted || minus(next) == minus(wanted) || (ignores_case && fold(next).eq(fold(wanted)));
            if !is_same {
                return None;
            }
            rest = &after[next.len_utf8()..];
            before = Some(wanted);
        }
        let last = before?;
        (!goes_on(last, rest)).then_some(text.len() - rest.len())
    }
}

/// The only option that the whole text is, by the strictest form by which there is one.
pub(super) fn same(forms: &[Form], text: &str) -> Same {
    // A text that is so much longer than every option is none of them.
    let longest = forms.iter().map(|form| form.squeezed.len()).max().unwrap_or_default();
    if text.trim().len() > 8 * longest + 256 {
        return Same::None;
    }
    let wanted = Form::of(text);
    if wanted.is_blank() {
        return Same::None;
    }
    let levels: [fn(&Form, &Form) -> bool; 4] = [
        |one, other| one.squeezed == other.squeezed,
        |one, other| one.bare == other.bare && !one.bare.is_empty(),
        |one, other| one.folded == other.folded && !one.folded.is_empty(),
        |one, other| one.weak == other.weak && !one.weak.is_empty(),
    ];
    for level in levels {
        let mut equal = forms.iter().enumerate().filter(|(_, form)| level(form, &wanted));
        match (equal.next(), equal.next()) {
            (Some((index, _)), None) => return Same::One(index),
            (Some(_), Some(_)) => return Same::Several,
            _ => {}
        }
    }
    Same::None
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Same {
    None,
    One(usize),
    /// Which one is meant cannot be known.
    Several,
}

/// White space stands only between two words, once; minus signs are one.
fn squeezed(text: &str) -> String {
    let mut squeezed = String::with_capacity(text.len());
    let mut before: Option<char> = None;
    let mut letters = text.trim().chars().peekable();
    while let Some(letter) = letters.next() {
        if letter.is_whitespace() {
            while letters.peek().is_some_and(|next| next.is_whitespace()) {
                letters.next();
            }
            let is_between = before.is_some_and(is_tight) && letters.peek().is_some_and(|next| is_tight(*next));
            if is_between {
                squeezed.push(' ');
            }
            continue;
        }
        squeezed.push(minus(letter));
        before = Some(letter);
    }
    squeezed
}

/// White space between two of these makes a difference: `1. 5` is not `1.5`.
fn is_tight(letter: char) -> bool {
    letter == '.' || !is_punctuation(letter)
}

const fn minus(letter: char) -> char {
    match letter {
        '\u{2212}' | '\u{fe63}' | '\u{ff0d}' => '-',
        other => other,
    }
}

fn folded(text: &str) -> String {
    text.chars().flat_map(fold).collect()
}

/// The text without the marks around it. A sign, an operator or a decimal point is none, nor are the brackets of a tuple.
pub(super) fn peeled(text: &str) -> &str {
    let is_tuple = is_tuple(text);
    let is_mark = |letter: char| {
        letter.is_whitespace()
            || match letter {
                '(' | ')' | '[' | ']' | '{' | '}' => !is_tuple,
                _ => {
                    is_punctuation(letter)
                        && !is_operator(letter)
                        && !matches!(letter, '-' | '%' | '&' | '@' | '~' | '\u{2010}'..='\u{2015}')
                }
            }
    };
    // A list's or a quotation's mark at the start of a line.
    let text = text.trim();
    let text = ["- ", "> "]
        .iter()
        .find_map(|mark| text.strip_prefix(mark))
        .unwrap_or(text);
    let text = text.trim_end_matches(is_mark);
    let start = text.trim_start_matches(is_mark);
    // The point of `.5`, which no mark goes before.
    let point =
        text[..text.len() - start.len()].ends_with('.') && start.starts_with(|next: char| next.is_ascii_digit());
    if point {
        &text[text.len() - start.len() - 1..]
    } else {
        start
    }
}

/// `(0, 1]`: brackets, a comma and digits without a word.
fn is_tuple(text: &str) -> bool {
    text.contains(',') && text.contains(|letter: char| letter.is_ascii_digit()) && !text.contains(char::is_alphabetic)
}

pub(super) const fn is_operator(letter: char) -> bool {
    matches!(letter, '+' | '<' | '>' | '=' | '/' | '^' | '#' | '|' | '\u{2044}')
}

/// The words, case and punctuation aside; marks that belong to a number, and operators, stay.
pub(super) fn weak_words(text: &str) -> Vec<String> {
    if is_tuple(text) && text.contains(['(', '[', '{']) {
        return vec![squeezed(text)];
    }
    // White space around an operator is none.
    let mut letters: Vec<char> = Vec::with_capacity(text.len());
    for letter in text.trim().chars().map(minus) {
        let is_space = letter.is_whitespace();
        match letters.last().copied() {
            Some(' ') if is_space => {}
            Some(last) if is_space && is_operator(last) => {}
            Some(' ') if is_operator(letter) => {
                letters.pop();
                letters.push(letter);
            }
            _ => letters.push(if is_space { ' ' } else { letter }),
        }
    }
    let (mut words, mut word) = (Vec::new(), String::new());
    for (at, &letter) in letters.iter().enumerate() {
        if letter == ' ' {
            if !word.is_empty() {
                words.push(std::mem::take(&mut word));
            }
        } else if is_kept(&letters, at) {
            word.extend(fold(letter));
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

fn is_kept(letters: &[char], at: usize) -> bool {
    let letter = letters[at];
    let before = at.checked_sub(1).and_then(|before| letters.get(before)).copied();
    let after = letters.get(at + 1).copied();
    let is_digit = |letter: Option<char>| letter.is_some_and(|letter| letter.is_ascii_digit());
    let follows_word = before.is_some_and(|before| before.is_alphanumeric() || matches!(before, ')' | ']' | '}'));
    match letter {
        // "+5" is 5.
        '+' => !is_digit(after) || follows_word,
        '-' | '\u{2013}' => (is_digit(after) || after == Some('.')) && (is_digit(before) || !follows_word),
        ',' => is_digit(before) && is_digit(after) && !joins_thousands(letters, at),
        '.' => is_digit(after) && !before.is_some_and(char::is_alphabetic),
        ':' | '*' => is_digit(before) && is_digit(after),
        _ => is_operator(letter) || !is_punctuation(letter),
    }
}

/// The comma stands before three digits and no fourth.
fn joins_thousands(letters: &[char], comma: usize) -> bool {
    let digits = letters[comma + 1..]
        .iter()
        .take(4)
        .take_while(|letter| letter.is_ascii_digit())
        .count();
    digits == 3
}

/// What comes next belongs to the same word or number: 12.5 does not begin with 12, nor C++ with C.
fn goes_on(last: char, rest: &str) -> bool {
    let mut next = rest.chars();
    let Some(first) = next.next() else {
        return false;
    };
    let second = next.next();
    let joins = continues_word(second);
    if !last.is_alphanumeric() {
        // An option of marks alone, or one that ends with a mark, is followed by no number.
        return false;
    }
    let is_number = last.is_ascii_digit();
    match first {
        '#' | '^' => true,
        '+' => second == Some('+'),
        '\'' | '’' | '-' | '/' | '\u{2010}' | '\u{2011}' | '\u{2013}' | '\u{2212}' => joins,
        '.' | ',' | ':' => is_number && second.is_some_and(|second| second.is_ascii_digit()),
        other => continues_word(Some(other)),
    }
}

/// Scripts without spaces between words do not continue a Latin letter: in 答案是C项 the answer is C.
pub(super) fn continues_word(next: Option<char>) -> bool {
    next.is_some_and(|letter| letter == '_' || (letter.is_alphanumeric() && letter < '\u{2e80}'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forms(options: &[&str]) -> Vec<Form> {
        options.iter().map(|option| Form::of(option)).collect()
    }

    #[test]
    fn weaker_forms_count_only_where_one_option_is_the_same() {
        use Same::{None, One, Several};
        for (options, text, expected) in [
            (["12", "-12"], "-12", One(1)),
            (["12", "-12"], "\u{2212}12", One(1)),
            (["12", "13"], "-12", None),
            (["12", "13"], "+12.", One(0)),
            (["15", "1.5"], "1.5", One(1)),
            (["15", "16"], "1.5", None),
            (["$150", "$1.50"], "1.50", One(1)),
            (["1000", "10"], "$1,000", One(0)),
            (["12", "1-2"], "1-2", One(1)),
            (["12", "13"], "1/2", None),
            (["x<3", "x>3"], "x > 3", One(1)),
            (["x<3", "x>4"], "x>3", None),
            (["PH", "pH"], "pH", One(1)),
            (["PH", "pH"], "ph", Several),
            (["C#", "C++"], "C", None),
            (["C", "Java"], "C#", None),
            (["C#", "C++"], "c++.", One(1)),
            (["-", "+"], "+", One(1)),
            (["-", "+"], "*", None),
            (["its", "it's"], "it's", One(1)),
            (["a well", "it is"], "**It is.**", One(1)),
            (["(0, 1)", "[0, 1]"], "[0,1]", One(1)),
            (["(0, 1)", "(2, 3)"], "[0,1]", None),
            (["0.5", ".5 m"], ".5 m", One(1)),
            (["red", "red"], "red", Several),
            (["rock-and-roll", "jazz"], "rock and roll!", None),
        ] {
            assert_eq!(same(&forms(&options), text), expected, "{options:?}: {text}");
        }
    }

    #[test]
    fn an_option_ends_where_its_word_or_number_ends() {
        for (option, text, length) in [
            ("12", "12.5", None),
            ("12", "12.", Some(2)),
            ("12", "12/5", None),
            ("12", "12 of them", Some(2)),
            ("C", "C++ it is", None),
            ("C", "C, not Java", Some(1)),
            ("x < 3", "x<3.", Some(3)),
            ("New York", "New\n York!", Some(9)),
            ("New York", "NewYork", None),
            ("Paris", "Parisian", None),
            ("1.5", "1. 5", None),
        ] {
            assert_eq!(Form::of(option).begins(text, false), length, "{option}: {text}");
        }
    }
}
