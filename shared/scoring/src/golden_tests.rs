//! What the packages say, row by row.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::*;

#[derive(Deserialize)]
struct Golden {
    texts: Vec<String>,
    token_matches: Vec<TokenMatch>,
    rouge: Vec<RougeRow>,
    sentences_of_corpus: Vec<Sentence>,
    corpus: Scores,
    stems: Vec<[String; 2]>,
    sentences: Vec<Vec<String>>,
    tokens: Vec<Vec<String>>,
    instructions: Vec<Instruction>,
}

#[derive(Deserialize)]
struct TokenMatch {
    prediction: String,
    targets: Vec<String>,
    squad: Option<[f64; 2]>,
    drop: [f64; 2],
}

#[derive(Deserialize)]
struct RougeRow {
    prediction: String,
    targets: Vec<String>,
    plain: [[f64; 3]; 3],
    stemmed: [[f64; 3]; 3],
}

#[derive(Deserialize)]
struct Sentence {
    prediction: String,
    targets: Vec<String>,
    #[serde(flatten)]
    scores: Scores,
}

#[derive(Deserialize)]
struct Scores {
    bleu: BTreeMap<String, f64>,
    chrf: BTreeMap<String, f64>,
}

#[derive(Deserialize)]
struct Instruction {
    id: String,
    arguments: Map<String, Value>,
    followed: Vec<Option<u8>>,
}

fn golden() -> Golden {
    serde_json::from_str(include_str!("../golden/scores.json")).unwrap()
}

fn assert_near(found: f64, wanted: f64, what: &dyn std::fmt::Debug) {
    assert!((found - wanted).abs() < 1e-9, "{found} is not {wanted}: {what:?}");
}

const TOKENISATIONS: [(&str, Tokenisation); 3] = [
    ("13a", Tokenisation::V13a),
    ("characters", Tokenisation::Characters),
    ("none", Tokenisation::None),
];

#[test]
fn token_f1_and_exact_match_are_those_of_squad_and_drop() {
    let rows = golden().token_matches;
    assert!(rows.len() > 500);
    for row in rows {
        let what = (&row.prediction, &row.targets);
        for (by, wanted) in [(Normalisation::Squad, row.squad), (Normalisation::Drop, Some(row.drop))] {
            let Some([exact, f1]) = wanted else { continue };
            let found = token_match(&row.prediction, &row.targets, by);
            assert_near(found.f1, f1, &(by, what));
            assert_eq!(found.is_exact, exact == 1.0, "{by:?} {what:?}");
        }
    }
}

#[test]
fn rouge_is_that_of_rouge_score_with_and_without_stems() {
    for row in golden().rouge {
        for (stem, wanted) in [(false, row.plain), (true, row.stemmed)] {
            let found = Rouge { stem }.score(&row.prediction, &row.targets).unwrap();
            for (found, wanted) in [found.one, found.two, found.longest.unwrap()].iter().zip(wanted) {
                for (found, wanted) in [found.precision, found.recall, found.f1].into_iter().zip(wanted) {
                    assert_near(found, wanted, &(stem, &row.prediction, &row.targets));
                }
            }
        }
    }
}

#[test]
fn stems_are_those_of_nltk() {
    for [word, stem] in golden().stems {
        assert_eq!(porter::stem(&word), stem, "{word}");
    }
}

#[test]
fn bleu_of_sentences_and_of_their_sum_is_that_of_sacrebleu() {
    let golden = golden();
    for (name, tokenisation) in TOKENISATIONS {
        let mut sum = vec![0.0; BLEU_COUNTS];
        for row in &golden.sentences_of_corpus {
            let counts = bleu_counts(&row.prediction, &row.targets, tokenisation).unwrap();
            assert_near(
                sentence_bleu(&counts),
                row.scores.bleu[name],
                &(name, &row.prediction, &row.targets),
            );
            let counts = bleu_counts(&row.prediction, &row.targets[..1], tokenisation).unwrap();
            sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
        assert_near(corpus_bleu(&sum), golden.corpus.bleu[name], &name);
    }
}

#[test]
fn chrf_of_sentences_and_of_their_sum_is_that_of_sacrebleu() {
    let golden = golden();
    for (name, words, length) in [("chrf", false, 18), ("chrf++", true, 24)] {
        let mut sum = vec![0.0; length];
        for row in &golden.sentences_of_corpus {
            let counts = chrf_counts(&row.prediction, &row.targets, words).unwrap();
            assert_near(
                sentence_chrf(&counts),
                row.scores.chrf[name],
                &(name, &row.prediction, &row.targets),
            );
            let counts = chrf_counts(&row.prediction, &row.targets[..1], words).unwrap();
            sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
        assert_near(corpus_chrf(&sum), golden.corpus.chrf[name], &name);
    }
}

#[test]
fn sentences_and_words_are_those_of_nltk() {
    let golden = golden();
    for (text, (wanted, wanted_words)) in golden.texts.iter().zip(golden.sentences.iter().zip(&golden.tokens)) {
        let found: Vec<&str> = sentences::texts(text).collect();
        assert_eq!(&found, wanted, "{text}");
        assert_eq!(&tokens::all(text), wanted_words, "{text}");
    }
}

#[test]
fn instructions_are_followed_where_the_published_checks_say_so() {
    let golden = golden();
    let mut seen = std::collections::BTreeSet::new();
    let mut differing = Vec::new();
    for row in golden.instructions {
        let instructions = Instructions::try_new(&[&row.id], std::slice::from_ref(&row.arguments)).unwrap();
        assert_eq!(row.followed.len(), golden.texts.len());
        for (text, wanted) in golden.texts.iter().zip(row.followed) {
            let Some(wanted) = wanted else { continue };
            let followed = instructions.check(text).unwrap();
            let found = u8::from(followed.strictly[0]) + 2 * u8::from(followed.loosely[0]);
            if found != wanted {
                differing.push(format!(
                    "{} {:?} on {text:?}: {found}, not {wanted}",
                    row.id, row.arguments
                ));
            }
        }
        seen.insert(row.id);
    }
    assert_eq!(seen.len(), INSTRUCTION_IDS.len());
    assert!(differing.is_empty(), "{differing:#?}");
}

fn any_text() -> impl Strategy<Value = String> {
    let marked = r#"[a-zA-Z0-9 .,?!'"*\[\]{}()<>\n\t&;:#-]{0,120}"#;
    prop_oneof![
        any::<String>(),
        marked.prop_map(String::from),
        "(\u{202b}?[א-ת ]{0,9}\u{0}?\\.){0,9}"
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_text_has_scores_within_their_bounds(said in any_text(), target in any_text()) {
        let share = |score: f64| (0.0..=1.0 + 1e-9).contains(&score);
        for by in [Normalisation::Squad, Normalisation::Drop] {
            prop_assert!(share(token_match(&said, &[&target], by).f1));
            // DROP counts a target of nothing but marks as none.
            prop_assert!(by == Normalisation::Drop || token_match(&said, &[&said], by).is_exact);
        }
        let rouge = Rouge { stem: true }.score(&said, &[&target]).unwrap();
        prop_assert!(share(rouge.one.f1) && share(rouge.two.f1) && share(rouge.longest.unwrap().f1));
        for (_, tokenisation) in TOKENISATIONS {
            prop_assert!(share(sentence_bleu(&bleu_counts(&said, &[&target], tokenisation).unwrap()) / 100.0));
        }
        prop_assert!(share(sentence_chrf(&chrf_counts(&said, &[&target], true).unwrap()) / 100.0));
        let mut end = 0;
        for sentence in sentences(&said) {
            prop_assert!(end <= sentence.start && said.get(sentence.clone()).is_some());
            end = sentence.end;
        }
        let _ = tokens::all(&said);
        if let Some(found) = find_json(&said) {
            prop_assert!(said.get(found.span).is_some());
        }
    }
}

/// Ten megabytes without a bound that holds would take minutes, or the machine's memory.
#[test]
fn ten_megabytes_of_anything_are_scored_or_refused() {
    let long = |unit: &str, megabytes: usize| unit.repeat((megabytes << 20) / unit.len());
    let target = ["the quick brown fox"];
    for text in [
        long("The quick. ", 10),
        long("[", 10),
        long("?)", 1),
        long("*", 1),
        long("\u{5d0}\0", 1),
    ] {
        assert!(token_match(&text, &target, Normalisation::Squad).f1 < 0.1);
        assert!(Rouge::default().score(&text, &target).unwrap().longest.is_some());
        assert!(bleu_counts(&text, &target, Tokenisation::V13a).is_ok());
        assert!(!sentences(&text).is_empty());
        assert_eq!(find_json(&text), None);
    }
}
