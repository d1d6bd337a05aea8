//! Decoding tokens one by one.
//!
//! A token may hold part of a character only, and decoders may treat the first token of a text specially, so each piece is the
//! difference between two decodings of a short window of tokens. Text that ends in an unfinished character is held back until it
//! is finished, or until so many tokens have passed that it cannot be; then it is U+FFFD, as in a decoding of the whole.

use super::TextModel;

/// A character has at most four bytes, hence at most four tokens.
const MAX_TOKENS_PER_CHARACTER: usize = 4;
/// Tokens after which a window without a clean end is cut, so that the work per token stays bounded.
const MAX_WINDOW: usize = 32;
/// Tokens kept as the left context of such a cut.
const KEPT_ON_CUT: usize = 8;
const REPLACEMENT: char = '\u{FFFD}';

/// The state of one growing text.
#[derive(Debug)]
pub(crate) struct Detokenizer {
    skip_special: bool,
    /// The tokens whose joint decoding the next piece is cut from.
    window: Vec<u32>,
    /// How many of them are left context: the decoding of those alone ended cleanly.
    context: usize,
    /// Bytes of the window's decoding that were given out.
    emitted: usize,
}

impl Detokenizer {
    /// Starts an empty text. `skip_special` leaves special tokens out of it.
    pub(crate) fn new(skip_special: bool) -> Self {
        Self {
            skip_special,
            window: Vec::new(),
            context: 0,
            emitted: 0,
        }
    }

    /// Starts a text that goes on where `tokens` end, so that its first token is decoded as one in the middle.
    pub(crate) fn after(model: &TextModel, tokens: &[u32], skip_special: bool) -> Self {
        let window = tokens[tokens.len().saturating_sub(KEPT_ON_CUT)..].to_vec();
        let text = model.decode(&window, skip_special);
        if text.ends_with(REPLACEMENT) {
            return Self::new(skip_special);
        }
        Self {
            skip_special,
            context: window.len(),
            window,
            emitted: text.len(),
        }
    }

    /// All text of the tokens so far was given out.
    pub(crate) fn is_clean(&self) -> bool {
        self.context == self.window.len()
    }

    /// Adds a token and returns the text that became certain.
    pub(crate) fn push(&mut self, model: &TextModel, token: u32) -> String {
        self.window.push(token);
        let text = model.decode(&self.window, self.skip_special);
        let unfinished = text.ends_with(REPLACEMENT);
        if unfinished && self.window.len() - self.context <= MAX_TOKENS_PER_CHARACTER {
            return String::new();
        }
        let certain = if unfinished {
            text.len() - REPLACEMENT.len_utf8()
        } else {
            text.len()
        };
        let piece = self.take(&text, certain);
        if !unfinished {
            self.window.drain(..self.context);
            self.context = self.window.len();
            self.emitted = model.decode(&self.window, self.skip_special).len();
        } else if self.window.len() > MAX_WINDOW {
            self.window.drain(..self.window.len() - KEPT_ON_CUT);
            self.context = 0;
            let held = text.len() - certain;
            self.emitted = model.decode(&self.window, self.skip_special).len().saturating_sub(held);
        }
        piece
    }

    /// Gives out what was held back.
    pub(crate) fn finish(&mut self, model: &TextModel) -> String {
        let text = model.decode(&self.window, self.skip_special);
        self.take(&text, text.len())
    }

    fn take(&mut self, text: &str, end: usize) -> String {
        let piece = text.get(self.emitted..end).unwrap_or_default().to_owned();
        self.emitted = self.emitted.max(end);
        piece
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::sample;

    #[test]
    fn a_text_that_goes_on_has_the_pieces_of_the_whole() {
        let model = TextModel::load(&sample("hf-single"), 384).unwrap();
        let tokens = model
            .encode("caf\u{e9} \u{1f600} a\n\nthe Work \u{e9}\u{e9}", false)
            .unwrap();
        for cut in 0..tokens.len() {
            let mut first = Detokenizer::new(true);
            let beginning: String = tokens[..cut].iter().map(|token| first.push(&model, *token)).collect();
            if !first.is_clean() {
                continue;
            }
            let mut second = Detokenizer::after(&model, &tokens[..cut], true);
            let mut text = beginning;
            tokens[cut..]
                .iter()
                .for_each(|token| text += &second.push(&model, *token));
            assert_eq!(
                text + &second.finish(&model),
                model.decode(&tokens, true),
                "cut at {cut}"
            );
        }
    }

    fn pieces(model: &TextModel, tokens: &[u32]) -> Vec<String> {
        let mut detokenizer = Detokenizer::new(true);
        let mut pieces: Vec<_> = tokens.iter().map(|token| detokenizer.push(model, *token)).collect();
        pieces.push(detokenizer.finish(model));
        pieces
    }

    #[test]
    fn a_character_of_several_tokens_appears_when_it_is_whole() {
        let model = TextModel::load(&sample("hf-single"), 384).unwrap();
        let tokens = model.encode("a\u{20ac}b", false).unwrap();
        assert!(tokens.len() > 3, "the sample's tokenizer splits the sign into bytes");
        let pieces = pieces(&model, &tokens);
        assert_eq!(pieces.concat(), "a\u{20ac}b");
        assert!(pieces.iter().all(|piece| !piece.contains(REPLACEMENT)));
    }

    #[test]
    fn a_character_cut_at_the_end_is_shown_as_replacement() {
        let model = TextModel::load(&sample("hf-single"), 384).unwrap();
        let tokens = model.encode("a\u{20ac}", false).unwrap();
        let cut = &tokens[..tokens.len() - 1];
        assert_eq!(pieces(&model, cut).concat(), "a\u{FFFD}");
    }

    #[test]
    fn any_token_sequence_decodes_as_a_whole_would() {
        let model = TextModel::load(&sample("hf-single"), 384).unwrap();
        let draws = crate::sampling::Draws::new(11, 0);
        for round in 0..200usize {
            // Many bytes above 127 and few letters, the hard mixture.
            let token = |at: usize| {
                let all = (draws.uniform(round * 1000 + at) * 384.0) as u32;
                if at.is_multiple_of(3) { all } else { 100 + all % 160 }
            };
            let tokens: Vec<u32> = (0..60).map(token).collect();
            assert_eq!(pieces(&model, &tokens).concat(), model.decode(&tokens, true));
        }
    }

    #[test]
    fn broken_bytes_do_not_hold_the_text_back_for_ever() {
        let model = TextModel::load(&sample("hf-single"), 384).unwrap();
        let broken = model.encode("\u{20ac}", false).unwrap()[1];
        let pieces = pieces(&model, &[broken; 100]);
        assert!(
            pieces[10..].iter().take(80).all(|piece| !piece.is_empty()),
            "{pieces:?}"
        );
        assert_eq!(pieces.concat(), "\u{FFFD}".repeat(100));
    }
}
