//! Tokens, log-probabilities and hashes that a test can compute for itself.

/// Splits a text into tokens: each is a word with the white space before it, so they join to the text again.
#[must_use]
pub fn split_tokens(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let (mut start, mut in_word) = (0, false);
    for (at, character) in text.char_indices() {
        if character.is_whitespace() && in_word {
            tokens.push(&text[start..at]);
            start = at;
        }
        in_word = !character.is_whitespace();
    }
    if start < text.len() {
        tokens.push(&text[start..]);
    }
    tokens
}

/// The log-probability of a token, between -10 and -0.01, whatever stands before it.
#[must_use]
pub fn token_logprob(token: &str) -> f64 {
    let hundredths = u32::try_from(prompt_hash(token) % 1000).unwrap_or(0) + 1;
    -f64::from(hundredths) / 100.0
}

/// A stable hash of a prompt (FNV-1a, 64 bits), under which requests are counted.
#[must_use]
pub fn prompt_hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_join_to_the_text() {
        for text in ["", "  ", "one", " one", "Q: 1 +  2\nA:", "end \n", "käse – à"] {
            assert_eq!(split_tokens(text).concat(), text);
        }
    }

    #[test]
    fn a_continuation_after_a_space_is_its_own_tokens() {
        assert_eq!(
            split_tokens("Q: who\nA: the cat"),
            ["Q:", " who", "\nA:", " the", " cat"]
        );
    }

    #[test]
    fn hashes_are_the_published_function() {
        assert_eq!(prompt_hash(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(prompt_hash("foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn logprobs_are_negative_and_bounded() {
        for token in ["a", " b", "\nA:", "ü"] {
            assert!((-10.0..=-0.01).contains(&token_logprob(token)), "{token:?}");
        }
    }
}
