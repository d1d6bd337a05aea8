//! The vocabulary: one token per printable ASCII character and newline, and four markers.
//!
//! Characters keep the arithmetic visible to the model and the tokenizer small. Nothing is added at the start of a
//! text: the model never saw a beginning-of-text token. A text round-trips exactly when it is printable ASCII.

use serde_json::{Value, json};

/// The markers, whose ids come first: padding, beginning of text (unused), start and end of a turn, unknown character.
pub const MARKERS: [&str; 5] = ["<|pad|>", "<|bos|>", "<|im_start|>", "<|im_end|>", "<|unk|>"];
/// Fills the unused end of a row.
pub const PAD: u32 = 0;
/// Opens a text where a trainer wants one; named in the configuration because readers expect it.
pub const BEGIN: u32 = 1;
/// Ends every answer.
pub const END: u32 = 3;
const UNKNOWN: u32 = 4;
const NEWLINE: u32 = MARKERS.len() as u32;
const FIRST_PRINTABLE: u32 = NEWLINE + 1;

/// How many ids there are.
pub const VOCABULARY: usize = FIRST_PRINTABLE as usize + 95;

/// The chat format, as a Jinja template.
pub const CHAT_TEMPLATE: &str = "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

/// Writes one user turn in the chat format, ready for the assistant's answer.
pub fn chat_prompt(content: &str) -> String {
    format!("<|im_start|>user\n{content}<|im_end|>\n<|im_start|>assistant\n")
}

/// Turns a text into ids; markers in it become their own ids.
pub fn encode(text: &str) -> Vec<u32> {
    let mut ids = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        let marker = MARKERS.iter().position(|marker| rest.starts_with(marker));
        let (id, length) = match marker {
            Some(id) => (id as u32, MARKERS[id].len()),
            None => (character_id(character), character.len_utf8()),
        };
        ids.push(id);
        rest = &rest[length..];
    }
    ids
}

/// Turns ids into text; markers come out as they are written.
pub fn decode(ids: &[u32]) -> String {
    ids.iter().map(|&id| token(id)).collect()
}

fn character_id(character: char) -> u32 {
    match character {
        '\n' => NEWLINE,
        ' '..='~' => FIRST_PRINTABLE + (character as u32 - ' ' as u32),
        _ => UNKNOWN,
    }
}

fn token(id: u32) -> String {
    match id {
        NEWLINE => "\n".to_owned(),
        marker if marker < NEWLINE => MARKERS[marker as usize].to_owned(),
        printable => char::from_u32(' ' as u32 + printable - FIRST_PRINTABLE)
            .map(String::from)
            .unwrap_or_default(),
    }
}

/// The tokenizer as the `tokenizers` library reads it: byte pairs without a single merge are characters, and the
/// `Fuse` decoder joins them without spaces.
pub fn tokenizer_json() -> Value {
    let vocabulary: serde_json::Map<String, Value> =
        (0..VOCABULARY as u32).map(|id| (token(id), Value::from(id))).collect();
    let markers: Vec<Value> = (0..NEWLINE)
        .map(|id| {
            json!({ "id": id, "content": token(id), "single_word": false, "lstrip": false, "rstrip": false,
                    "normalized": false, "special": true })
        })
        .collect();
    json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": markers,
        "normalizer": null, "pre_tokenizer": null, "post_processor": null, "decoder": { "type": "Fuse" },
        "model": {
            "type": "BPE", "dropout": null, "unk_token": token(UNKNOWN), "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
            "vocab": vocabulary, "merges": []
        }
    })
}

/// The settings that sit beside the tokenizer.
pub fn tokenizer_config_json(context: usize) -> Value {
    json!({
        "tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": context,
        "bos_token": token(BEGIN), "eos_token": token(END), "pad_token": token(PAD), "unk_token": token(UNKNOWN),
        "additional_special_tokens": ["<|im_start|>"], "add_bos_token": false,
        "clean_up_tokenization_spaces": false, "padding_side": "left"
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn everything() -> String {
        (' '..='~').chain(['\n']).chain("Q: 17+25\nA:  42".chars()).collect()
    }

    #[test]
    fn printable_text_and_markers_round_trip() {
        let text = format!("{}{}", chat_prompt("  two  spaces, and <|no marker|>"), everything());
        assert_eq!(decode(&encode(&text)), text);
        assert!(encode(&text).iter().all(|&id| (id as usize) < VOCABULARY));
    }

    #[test]
    fn the_written_tokenizer_agrees_with_the_one_in_training() {
        let written = serde_json::to_vec(&tokenizer_json()).unwrap();
        let library = tokenizers::Tokenizer::from_bytes(written).unwrap();
        assert_eq!(library.get_vocab_size(true), VOCABULARY);
        for text in [
            everything(),
            chat_prompt("Write kato in capitals."),
            "caf\u{e9}".to_owned(),
            String::new(),
        ] {
            let ids = library.encode(text.as_str(), true).unwrap().get_ids().to_vec();
            assert_eq!(ids, encode(&text), "{text:?}");
            assert_eq!(library.decode(&ids, false).unwrap(), decode(&ids), "{text:?}");
        }
        assert_eq!(library.decode(&encode("a  b<|im_end|>"), true).unwrap(), "a  b");
    }
}
