//! Python's regular expressions on a bounded engine.
//!
//! The dialects differ in a few signs, which are rewritten: what stands literally in a class, `$` before a last line break,
//! `\Z`, `\w` (letters, numbers and the low line, but no combining marks), escapes of letters beyond ASCII. All searches in one
//! text have so many steps of backtracking together as its length allows; what needs more is an error of its own and never
//! "no match". The engine does not tell how many steps a search took, so each is tried with few, then with ever more, and what
//! was allowed is what is spent.

use std::sync::{Arc, OnceLock};

use fancy_regex::{Captures, Error, Regex, RegexBuilder, RuntimeError};

/// Steps of backtracking that a search may take for nothing: each begins behind the last match, so there are not many.
const FREE_STEPS: usize = 1_000;
/// How many more steps a search is tried with after it was given up.
const GROWTH: usize = 8;
/// How often it is tried with more.
const TRIALS: usize = 7;
/// Steps that all searches in a text have, beside those for its length.
const STEPS: usize = 40_000_000;
/// Steps that they have for each byte of it.
const STEPS_PER_BYTE: usize = 200;

/// A compiled pattern.
#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    source: String,
    translated: String,
    /// With few steps.
    regex: Regex,
    /// With ever more steps, compiled where they are needed.
    patient: Arc<[OnceLock<Regex>; TRIALS]>,
    /// Whether a search may read the text to its end without a step that is counted.
    reads_on: bool,
    /// Steps that all searches in a text have, beside those for its length.
    steps: usize,
}

/// One result of `findall`: the match, or its groups where the pattern has some.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Found {
    Text(String),
    Groups(Vec<String>),
}

impl Pattern {
    pub(crate) fn new(source: &str) -> Result<Self, String> {
        let known =
            |reason| format!("{source:?} is no regular expression in Python, or none that is known here: {reason}");
        let translated = translate(source).map_err(known)?;
        Self::compiled(source, &translated)
    }

    /// A pattern that is already written for the engine.
    pub(crate) fn verbatim(source: &str) -> Result<Self, String> {
        Self::compiled(source, source)
    }

    fn compiled(source: &str, translated: &str) -> Result<Self, String> {
        let regex = limited(translated, FREE_STEPS);
        let regex = regex.map_err(|error| format!("{source:?} is not a regular expression here: {error}"))?;
        Ok(Self {
            source: source.to_owned(),
            translated: translated.to_owned(),
            regex,
            patient: Arc::default(),
            reads_on: looks_far(translated),
            steps: STEPS,
        })
    }

    /// As written.
    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    /// `re.findall`; a group that took no part is an empty text.
    pub(crate) fn find_all(&self, text: &str) -> Result<Vec<Found>, String> {
        let mut all = Vec::new();
        self.each(text, &mut |captures| {
            let group = |at| {
                captures
                    .get(at)
                    .map_or_else(String::new, |found| found.as_str().to_owned())
            };
            all.push(match captures.len() {
                0 | 1 => Found::Text(group(0)),
                2 => Found::Text(group(1)),
                groups => Found::Groups((1..groups).map(group).collect()),
            });
            Ok(true)
        })?;
        Ok(all)
    }

    /// Matches from left to right, none overlapping. An empty one may follow another match directly, as in Python, but not
    /// another empty one.
    fn each(&self, text: &str, take: &mut dyn FnMut(&Captures<'_, str>) -> Result<bool, String>) -> Result<(), String> {
        let mut left = Steps::new(self.steps + STEPS_PER_BYTE * text.len());
        let mut at = 0;
        let mut last_empty = None;
        while at <= text.len() {
            let captures = self.first(text, at, &mut left)?;
            let Some((captures, whole)) = captures.and_then(|found| found.get(0).map(|whole| (found, whole.range())))
            else {
                return Ok(());
            };
            let is_repeated = whole.is_empty() && last_empty == Some(whole.start);
            if is_repeated {
                at = whole.end + text[whole.end..].chars().next().map_or(1, char::len_utf8);
                continue;
            }
            if !take(&captures)? {
                return Ok(());
            }
            at = whole.end;
            last_empty = whole.is_empty().then_some(whole.end);
        }
        Ok(())
    }

    /// The first match from a place on.
    fn first<'t>(&self, text: &'t str, at: usize, left: &mut Steps) -> Result<Option<Captures<'t, str>>, String> {
        if self.reads_on {
            left.spend(text.len() - at)?;
        }
        let mut found = self.regex.captures_from_pos(text, at);
        let mut steps = FREE_STEPS;
        for patient in self.patient.iter() {
            if !is_given_up(&found) {
                break;
            }
            steps *= GROWTH;
            left.spend(steps)?;
            let regex = match patient.get() {
                Some(regex) => regex,
                None => {
                    let regex = limited(&self.translated, steps).map_err(|error| error.to_string())?;
                    patient.get_or_init(|| regex)
                }
            };
            found = regex.captures_from_pos(text, at);
        }
        found.map_err(|error| error.to_string())
    }

    /// `re.sub(pattern, replacement, text, count)`, where a count of 0 means all.
    pub(crate) fn replace(&self, text: &str, replacement: &str, count: usize) -> Result<String, String> {
        let mut out = String::new();
        let mut last = 0;
        let mut done = 0;
        self.each(text, &mut |captures| {
            if let Some(whole) = captures.get(0) {
                out.push_str(&text[last..whole.start()]);
                expand(replacement, captures, &mut out)?;
                last = whole.end();
                done += 1;
            }
            Ok(done != count)
        })?;
        out.push_str(&text[last..]);
        Ok(out)
    }
}

fn limited(translated: &str, steps: usize) -> Result<Regex, Error> {
    RegexBuilder::new(translated).backtrack_limit(steps).build()
}

fn is_given_up<T>(found: &Result<T, Error>) -> bool {
    matches!(found, Err(Error::RuntimeError(RuntimeError::BacktrackLimitExceeded)))
}

/// Steps of backtracking that the searches in a text have together.
struct Steps {
    all: usize,
    left: usize,
}

impl Steps {
    const fn new(all: usize) -> Self {
        Self { all, left: all }
    }

    fn spend(&mut self, steps: usize) -> Result<(), String> {
        self.left = self.left.checked_sub(steps).ok_or_else(|| {
            format!(
                "its searches in this text take more than {} steps of backtracking together",
                self.all
            )
        })?;
        Ok(())
    }
}

/// Whether what is looked for ahead or behind repeats something without end: the engine reads on there in one step.
fn looks_far(pattern: &str) -> bool {
    let mut letters = pattern.char_indices();
    let mut groups: Vec<bool> = Vec::new();
    let mut in_class = false;
    while let Some((at, letter)) = letters.next() {
        let from = &pattern[at..];
        match letter {
            '\\' => _ = letters.next(),
            ']' => in_class = false,
            _ if in_class => {}
            '[' => in_class = true,
            '(' => {
                let is_look = ["(?=", "(?!", "(?<=", "(?<!"].iter().any(|look| from.starts_with(look));
                groups.push(is_look || groups.last() == Some(&true));
            }
            ')' => _ = groups.pop(),
            '*' | '+' if groups.last() == Some(&true) => return true,
            ',' if from.starts_with(",}") && groups.last() == Some(&true) => return true,
            _ => {}
        }
    }
    false
}

fn expand(replacement: &str, captures: &Captures<'_, str>, out: &mut String) -> Result<(), String> {
    let mut letters = replacement.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter != '\\' {
            out.push(letter);
            continue;
        }
        match letters.next() {
            Some(digit @ '1'..='9') => {
                let mut number = digit.to_digit(10).unwrap_or(0) as usize;
                if let Some(next) = letters.next_if(char::is_ascii_digit) {
                    number = number * 10 + next.to_digit(10).unwrap_or(0) as usize;
                }
                out.push_str(captures.get(number).map_or("", |group| group.as_str()));
            }
            Some('g') if letters.next_if_eq(&'<').is_some() => {
                let name: String = letters.by_ref().take_while(|letter| *letter != '>').collect();
                let group = match name.parse::<usize>() {
                    Ok(number) => captures.get(number),
                    Err(_) => captures.name(&name),
                };
                out.push_str(group.map_or("", |group| group.as_str()));
            }
            Some('n') => out.push('\n'),
            Some('t') => out.push('\t'),
            Some('r') => out.push('\r'),
            Some('\\') => out.push('\\'),
            Some(letter) if letter.is_ascii_alphanumeric() => {
                return Err(format!("\\{letter} is no escape in a replacement"));
            }
            Some(letter) => {
                out.push('\\');
                out.push(letter);
            }
            None => return Err("a replacement ends in a backslash".to_owned()),
        }
    }
    Ok(())
}

const WORD: &str = r"\p{L}\p{N}_";

/// Letters that a backslash gives a meaning in Python.
const ESCAPES: &str = "AbBdDsSwWZafnrtuUvx";
/// What may stand behind `(?`, beside flags.
const EXTENSIONS: [&str; 10] = ["P<", "P=", ":", "#", "=", "!", "<=", "<!", "(", ">"];

/// # Errors
/// What Python does not know, or what is not known here.
fn translate(source: &str) -> Result<String, String> {
    let letters: Vec<char> = source.chars().collect();
    let mut out = String::new();
    let mut at = 0;
    // Where the class that is open began, if one is.
    let mut class: Option<usize> = None;
    while let Some(letter) = letters.get(at).copied() {
        at += 1;
        match letter {
            '\\' => {
                let Some(next) = letters.get(at).copied() else {
                    out.push_str("\\\\");
                    break;
                };
                at += 1;
                if next.is_ascii_alphabetic() && !ESCAPES.contains(next) {
                    return Err(format!("\\{next}"));
                }
                escaped(next, class.is_some(), &mut out);
            }
            '(' if class.is_none() && letters.get(at) == Some(&'?') => {
                let rest: String = letters[at + 1..].iter().take(2).collect();
                let is_flag = rest.starts_with(|letter: char| letter == '-' || "aiLmsux".contains(letter));
                if !is_flag && !EXTENSIONS.iter().any(|known| rest.starts_with(known)) {
                    return Err(format!("(?{rest}"));
                }
                out.push('(');
            }
            '[' if class.is_none() => {
                out.push('[');
                if letters.get(at) == Some(&'^') {
                    out.push('^');
                    at += 1;
                }
                class = Some(at);
                // A closing bracket that comes first is one of the class.
                if letters.get(at) == Some(&']') {
                    out.push_str("\\]");
                    at += 1;
                }
            }
            ']' if class.is_some() => {
                class = None;
                out.push(']');
            }
            '[' | '&' | '~' | '|' if class.is_some() => {
                out.push('\\');
                out.push(letter);
            }
            '-' if class.is_some() => {
                let is_first = class == Some(at - 1);
                let is_last = letters.get(at) == Some(&']');
                let is_literal = is_first || is_last || letters.get(at) == Some(&'-') || out.ends_with("\\-");
                out.push_str(if is_literal { "\\-" } else { "-" });
            }
            '$' if class.is_none() => out.push_str(r"(?:$|(?=\n\z))"),
            '{' if class.is_none() && !is_repetition(&letters[at..]) => out.push_str("\\{"),
            '}' if class.is_none() && !ends_repetition(&letters[..at - 1]) => out.push_str("\\}"),
            _ => out.push(letter),
        }
    }
    Ok(out)
}

fn escaped(letter: char, in_class: bool, out: &mut String) {
    match letter {
        'Z' if !in_class => out.push_str("\\z"),
        'w' if in_class => out.push_str(WORD),
        'w' => out.push_str(&format!("[{WORD}]")),
        'W' if !in_class => out.push_str(&format!("[^{WORD}]")),
        's' if in_class => out.push_str(r"\s\x1c-\x1f"),
        's' => out.push_str(r"[\s\x1c-\x1f]"),
        'S' if !in_class => out.push_str(r"[^\s\x1c-\x1f]"),
        letter if letter.is_ascii_alphanumeric() => {
            out.push('\\');
            out.push(letter);
        }
        '<' | '>' | '_' => out.push(letter),
        letter if letter.is_ascii_punctuation() => {
            out.push('\\');
            out.push(letter);
        }
        letter => out.push(letter),
    }
}

/// Whether what follows a brace is a count: `{2}`, `{2,}`, `{,3}` or `{2,3}`.
fn is_repetition(rest: &[char]) -> bool {
    let inner: String = rest.iter().take_while(|letter| **letter != '}').collect();
    let is_closed = rest.len() > inner.chars().count();
    let mut parts = inner.split(',');
    let (low, high) = (parts.next().unwrap_or(""), parts.next());
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let has_any = !low.is_empty() || high.is_some_and(|high| !high.is_empty());
    is_closed && parts.next().is_none() && digits(low) && high.is_none_or(digits) && has_any
}

fn ends_repetition(before: &[char]) -> bool {
    match before.iter().rposition(|letter| *letter == '{') {
        Some(start) => {
            let mut rest = before[start + 1..].to_vec();
            rest.push('}');
            // A brace that is escaped starts no count; one as part of `\p{..}` or `\x{..}` keeps its end.
            is_repetition(&rest)
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(pattern: &str, text: &str) -> Vec<Found> {
        Pattern::new(pattern).unwrap().find_all(text).unwrap()
    }

    fn texts(found: &[&str]) -> Vec<Found> {
        found.iter().map(|text| Found::Text((*text).to_owned())).collect()
    }

    #[test]
    fn patterns_mean_what_they_mean_in_python() {
        assert_eq!(all(r"#### (\-?[0-9\.\,]+)", "x #### -1,234.5 y"), texts(&["-1,234.5"]));
        assert_eq!(
            all(r"(?<=The answer is )(.*)(?=.)", "The answer is 12."),
            texts(&["12"])
        );
        assert_eq!(all("[[(]a[])]", "[a] (a)"), texts(&["[a]", "(a)"]));
        assert_eq!(all(r"a$", "a\n"), texts(&["a"]));
        assert_eq!(all(r"a\Z", "a\n"), texts(&[]));
        assert_eq!(all(r"\<b\>", "<b>"), texts(&["<b>"]));
        assert_eq!(all(r"{a}", "{a}"), texts(&["{a}"]));
        assert_eq!(all(r"a{2,3}", "aaaa"), texts(&["aaa"]));
        assert_eq!(all(r"[a&&b]", "a&b"), texts(&["a", "&", "b"]));
        assert_eq!(all(r"\w+", "e\u{301}a"), texts(&["e", "a"]));
        assert_eq!(
            all(r"(a)|(b)", "ba"),
            [
                Found::Groups(vec![String::new(), "b".into()]),
                Found::Groups(vec!["a".into(), String::new()]),
            ]
        );
        assert_eq!(all("x*", "ax"), texts(&["", "x", ""]));
    }

    #[test]
    fn what_python_does_not_know_is_refused() {
        for pattern in [
            r"\h",
            r"\K",
            r"\G",
            r"\z",
            r"\e",
            r"\R",
            r"[\h]",
            r"\N{DIGIT ONE}",
            r"\p{L}",
            "(?R)",
            "(?<n>a)",
            "(?'n'a)",
            "(?|a)",
        ] {
            assert!(Pattern::new(pattern).is_err(), "{pattern}");
        }
        for pattern in [
            "(?i)a",
            "(?i:a)",
            "(?P<n>a)(?P=n)",
            "(?<=a)b",
            "(?<!a)b",
            "[(?R]",
            r"\(?R",
            "(?:a)",
            r"\x41\b\d",
        ] {
            assert!(Pattern::new(pattern).is_ok(), "{pattern}");
        }
    }

    #[test]
    fn replacements_take_groups() {
        let pattern = Pattern::new(r"(?P<key>\w)=(\d)").unwrap();
        assert_eq!(pattern.replace("a=1 b=2", r"\2:\g<key>", 0).unwrap(), "1:a 2:b");
        assert_eq!(pattern.replace("a=1 b=2", "", 1).unwrap(), " b=2");
        assert!(pattern.replace("a=1", r"\q", 0).is_err());
    }

    #[test]
    fn a_pattern_that_explodes_is_given_up_with_an_error() {
        let mut pattern = Pattern::new(r"^((a|aa)+)\1$").unwrap();
        pattern.steps = 1_000_000;
        let said = pattern.find_all(&("a".repeat(64) + "x")).unwrap_err();
        assert!(said.contains("steps of backtracking together"), "{said}");
        assert!(Pattern::new("(a").is_err());
    }

    /// The first pattern is that of acpbench, whose texts are long.
    #[test]
    fn long_texts_have_more_steps() {
        let pattern = r"(((?<=[answer is ])[A-D])|([A-D]\n)|([A-D]\.)|( [A-D] )|(^[A-D]$)|(\[[A-D]\])|([A-D])|(?<=..Final Answer..: )(.*)(?=.)|(?<=..answer..: )(.*)(?=.)|(?<=..Answer..: )(.*)(?=.))";
        let found = all(pattern, &("word ".repeat(20_000) + "\nB"));
        let Some(Found::Groups(groups)) = found.last() else {
            panic!("{found:?}")
        };
        assert_eq!((found.len(), groups[0].as_str()), (1, "B"));
        assert_eq!(all("(?<=a)a+(?=b)", &"a".repeat(2_000)), []);
        assert_eq!(
            all("(?<=a)a+(?=b)", &("a".repeat(2_000) + "b")),
            texts(&[&"a".repeat(1_999)])
        );
    }

    #[test]
    fn all_searches_in_a_text_are_bounded_together() {
        for (source, text) in [
            ("(?=(a+)+$)x?", "a".repeat(1_500)),
            ("(?=a{2,})x?", "a".repeat(1_500)),
            // Each search alone is quick enough.
            (r"((a|aa)+)\2c|b", ("b".to_owned() + &"a".repeat(14)).repeat(200)),
        ] {
            let mut pattern = Pattern::new(source).unwrap();
            pattern.steps = 500_000;
            let said = pattern.find_all(&text).map(|found| found.len()).unwrap_err();
            assert!(said.contains("steps of backtracking together"), "{source}: {said}");
        }
        assert_eq!(all("(?<=,)[^,]+(?=,)|x", &",ab".repeat(2_000)).len(), 1_999);
        assert!(!looks_far(r"(?<=[answer* ])(.*)(?=\+.)(a+)"));
        assert!(looks_far(r"a(?!b(c|d*))"));
    }
}
