//! The language of a text, as the package `langdetect` tells it.
//!
//! The profiles and the detector are those of its port. `langdetect` draws n-grams at random and may say something else each
//! time where a text is short; here the seed is fixed, so that equal texts have equal grades. A detector takes 60 MB and is
//! made with the first text whose language is asked for.

use std::sync::{LazyLock, Mutex, PoisonError};

use langdetect_rs::detector::Detector;
use langdetect_rs::detector_factory::DetectorFactory;
use langdetect_rs::utils::ngram::NGram;
use regex::Regex;

use crate::Error;
use crate::python::beginning;

/// What the detector looks at, in characters.
const MAX_CHARACTERS: usize = 10_000;
/// What is read to find that many, in bytes.
const MAX_READ_BYTES: usize = 1 << 20;

static DETECTOR: LazyLock<Option<Mutex<Detector>>> = LazyLock::new(|| detector().map(Mutex::new));
static ADDRESSES: LazyLock<Option<[Regex; 2]>> = LazyLock::new(|| {
    let url = Regex::new(r"https?://[-_.?&~;+=/#0-9A-Za-z]{1,2076}").ok()?;
    let mail = Regex::new(r"[-_.0-9A-Za-z]{1,64}@[-_0-9A-Za-z]{1,255}[-_.0-9A-Za-z]{1,255}").ok()?;
    Some([url, mail])
});

/// ISO 639-1, for Chinese with the script (`zh-cn`, `zh-tw`); `unknown` where none is likely, `None` where the text has
/// nothing to tell by.
///
/// # Errors
/// The profiles cannot be read.
pub fn language_of(text: &str) -> Result<Option<String>, Error> {
    let text = prepared(text).ok_or(Error::Profiles)?;
    let detector = DETECTOR.as_ref().ok_or(Error::Profiles)?;
    let mut detector = detector.lock().unwrap_or_else(PoisonError::into_inner);
    detector.text = text;
    detector.langprob = None;
    Ok(detector.detect().ok())
}

fn detector() -> Option<Detector> {
    let mut factory = DetectorFactory::new().build();
    // The port adds Uzbek, which the package does not know.
    let profiles = DetectorFactory::get_default_profiles_json().iter().copied();
    let profiles: Vec<&str> = profiles.filter(|profile| !profile.contains(r#""name":"uz""#)).collect();
    factory.load_json_profile(&profiles).ok()?;
    Some(Detector::new(factory.word_lang_prob_map, factory.langlist, Some(0)))
}

/// Without addresses and repeated spaces, of bounded length.
fn prepared(text: &str) -> Option<String> {
    let mut text = beginning(text, MAX_READ_BYTES).to_owned();
    for address in ADDRESSES.as_ref()? {
        text = address.replace_all(&text, " ").into_owned();
    }
    let mut before = ' ';
    let mut kept = String::new();
    for letter in NGram::normalize_vi(&text).chars().take(MAX_CHARACTERS) {
        if letter != ' ' || before != ' ' {
            kept.push(letter);
        }
        before = letter;
    }
    Some(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_its_language_again_and_again() {
        let of = |text| language_of(text).unwrap();
        for _ in 0..3 {
            assert_eq!(
                of("Der schnelle braune Fuchs springt über den faulen Hund.").unwrap(),
                "de"
            );
            assert_eq!(
                of("Mwanafunzi anasoma kitabu shuleni kila siku na rafiki zake.").unwrap(),
                "sw"
            );
        }
        assert_eq!(of("12345 !!! https://example.org/the/way"), None);
        assert_eq!(of(""), None);
    }
}
