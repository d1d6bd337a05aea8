//! Porter's stemmer with the changes of NLTK, which is the one that ROUGE is computed with.
//!
//! Source: Porter, "An algorithm for suffix stripping", 1980; the changes are those of `nltk.stem.porter` in its default mode.

/// Words that the rules would take apart wrongly.
const IRREGULAR: &[(&str, &str)] = &[
    ("sky", "sky"),
    ("skies", "sky"),
    ("dying", "die"),
    ("lying", "lie"),
    ("tying", "tie"),
    ("news", "news"),
    ("innings", "inning"),
    ("inning", "inning"),
    ("outings", "outing"),
    ("outing", "outing"),
    ("cannings", "canning"),
    ("canning", "canning"),
    ("howe", "howe"),
    ("proceed", "proceed"),
    ("exceed", "exceed"),
    ("succeed", "succeed"),
];

const STEP_2: &[(&str, &str)] = &[
    ("ational", "ate"),
    ("tional", "tion"),
    ("enci", "ence"),
    ("anci", "ance"),
    ("izer", "ize"),
    ("bli", "ble"),
    ("alli", "al"),
    ("entli", "ent"),
    ("eli", "e"),
    ("ousli", "ous"),
    ("ization", "ize"),
    ("ation", "ate"),
    ("ator", "ate"),
    ("alism", "al"),
    ("iveness", "ive"),
    ("fulness", "ful"),
    ("ousness", "ous"),
    ("aliti", "al"),
    ("iviti", "ive"),
    ("biliti", "ble"),
    ("fulli", "ful"),
    ("logi", "log"),
];

const STEP_3: &[(&str, &str)] = &[
    ("icate", "ic"),
    ("ative", ""),
    ("alize", "al"),
    ("iciti", "ic"),
    ("ical", "ic"),
    ("ful", ""),
    ("ness", ""),
];

const STEP_4: &[&str] = &[
    "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion", "ou", "ism", "ate", "iti",
    "ous", "ive", "ize",
];

/// The stem of a word of lower-case ASCII letters and digits.
pub(crate) fn stem(word: &str) -> String {
    if let Some((_, stem)) = IRREGULAR.iter().find(|(irregular, _)| *irregular == word) {
        return (*stem).to_owned();
    }
    if word.len() <= 2 {
        return word.to_owned();
    }
    let mut word = step_1a(word);
    step_1b(&mut word);
    step_1c(&mut word);
    step_2(&mut word);
    replace_first(&mut word, STEP_3, |word, suffix| measure(before(word, suffix)) > 0);
    step_4(&mut word);
    step_5(&mut word);
    word
}

fn is_vowel(letter: u8) -> bool {
    matches!(letter, b'a' | b'e' | b'i' | b'o' | b'u')
}

/// For each letter, whether it is a consonant: y is one at the start and after a vowel.
fn consonants(word: &str) -> impl Iterator<Item = bool> + '_ {
    let mut before = None;
    word.bytes().map(move |letter| {
        let is_consonant = match letter {
            b'y' => !before.unwrap_or(false),
            _ => !is_vowel(letter),
        };
        before = Some(is_consonant);
        is_consonant
    })
}

/// How often a consonant follows a vowel.
fn measure(stem: &str) -> usize {
    let mut after_vowel = false;
    let mut measure = 0;
    for is_consonant in consonants(stem) {
        measure += usize::from(after_vowel && is_consonant);
        after_vowel = !is_consonant;
    }
    measure
}

fn has_vowel(stem: &str) -> bool {
    consonants(stem).any(|is_consonant| !is_consonant)
}

fn ends_in_double_consonant(word: &str) -> bool {
    let bytes = word.as_bytes();
    let is_double = matches!(bytes, [.., one, other] if one == other);
    is_double && consonants(word).last() == Some(true)
}

/// Consonant, vowel, consonant but w, x or y; or a word of a vowel and a consonant.
fn ends_in_cvc(word: &str) -> bool {
    let kinds: Vec<bool> = consonants(word).collect();
    match kinds.as_slice() {
        [false, true] => true,
        [.., true, false, true] => !word.ends_with(['w', 'x', 'y']),
        _ => false,
    }
}

/// Replaces the first suffix that the word has, if word and suffix are as asked for; no further one is tried.
fn replace_first(word: &mut String, rules: &[(&str, &str)], is_asked: impl Fn(&str, &str) -> bool) {
    let found = rules.iter().find(|(suffix, _)| word.ends_with(suffix));
    if let Some((suffix, replacement)) = found.filter(|(suffix, _)| is_asked(word, suffix)) {
        word.truncate(word.len() - suffix.len());
        word.push_str(replacement);
    }
}

fn before<'a>(word: &'a str, suffix: &str) -> &'a str {
    word.strip_suffix(suffix).unwrap_or(word)
}

fn step_1a(word: &str) -> String {
    if word.len() == 4 && word.ends_with("ies") {
        return word[..3].to_owned();
    }
    let mut word = word.to_owned();
    replace_first(
        &mut word,
        &[("sses", "ss"), ("ies", "i"), ("ss", "ss"), ("s", "")],
        |_, _| true,
    );
    word
}

fn step_1b(word: &mut String) {
    if word.ends_with("ied") {
        let kept = if word.len() == 4 { 1 } else { 2 };
        word.truncate(word.len() - kept);
        return;
    }
    if let Some(stem) = word.strip_suffix("eed") {
        if measure(stem) > 0 {
            word.pop();
        }
        return;
    }
    let stems = ["ed", "ing"].into_iter().filter_map(|suffix| word.strip_suffix(suffix));
    let Some(length) = stems.into_iter().find(|stem| has_vowel(stem)).map(str::len) else {
        return;
    };
    word.truncate(length);
    if ["at", "bl", "iz"].into_iter().any(|end| word.ends_with(end)) {
        word.push('e');
    } else if ends_in_double_consonant(word) {
        if !word.ends_with(['l', 's', 'z']) {
            word.pop();
        }
    } else if measure(word) == 1 && ends_in_cvc(word) {
        word.push('e');
    }
}

fn step_1c(word: &mut String) {
    if let Some(stem) = word.strip_suffix('y')
        && stem.len() > 1
        && consonants(stem).last() == Some(true)
    {
        word.pop();
        word.push('i');
    }
}

fn step_2(word: &mut String) {
    if let Some(stem) = word.strip_suffix("alli")
        && measure(stem) > 0
    {
        word.truncate(word.len() - 2);
        step_2(word);
        return;
    }
    replace_first(word, STEP_2, |word, suffix| {
        // The l of "logi" belongs to what is measured.
        measure(before(word, if suffix == "logi" { "ogi" } else { suffix })) > 0
    });
}

fn step_4(word: &mut String) {
    let Some(suffix) = STEP_4.iter().find(|suffix| word.ends_with(**suffix)) else {
        return;
    };
    let stem = &word[..word.len() - suffix.len()];
    if measure(stem) > 1 && (*suffix != "ion" || stem.ends_with(['s', 't'])) {
        word.truncate(stem.len());
    }
}

fn step_5(word: &mut String) {
    if let Some(stem) = word.strip_suffix('e') {
        let measured = measure(stem);
        if measured > 1 || (measured == 1 && !ends_in_cvc(stem)) {
            word.pop();
        }
    }
    if word.ends_with("ll") && measure(&word[..word.len() - 1]) > 1 {
        word.pop();
    }
}
