//! A request body, taken apart field by field so that each error names its field and nothing is overlooked.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::error::ApiError;

/// Fields without influence on the answer of this engine.
const WITHOUT_EFFECT: &[&str] = &[
    "user",
    "cache_salt",
    "request_id",
    "priority",
    "metadata",
    "store",
    "service_tier",
];

/// The fields of a request that were not taken yet.
#[derive(Debug)]
pub(super) struct Fields(Map<String, Value>);

impl Fields {
    /// Parses a body, which must be a JSON object.
    pub(super) fn parse(body: &[u8]) -> Result<Self, ApiError> {
        match serde_json::from_slice(body) {
            Ok(Value::Object(map)) => Ok(Self(map)),
            Ok(_) => Err(ApiError::bad_request("the body must be a JSON object", None)),
            Err(error) => Err(ApiError::bad_request(format!("the body is not JSON: {error}"), None)),
        }
    }

    /// Takes a field out; absent and null are the same.
    pub(super) fn take<T: DeserializeOwned>(&mut self, name: &str) -> Result<Option<T>, ApiError> {
        match self.0.shift_remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match serde_json::from_value(value) {
                Ok(value) => Ok(Some(value)),
                Err(error) => Err(ApiError::bad_request(format!("field `{name}`: {error}"), Some(name))),
            },
        }
    }

    /// Refuses whatever is left, unless it has no effect or asks for what happens anyway.
    pub(super) fn finish(self) -> Result<(), ApiError> {
        for (name, value) in &self.0 {
            if value.is_null() || WITHOUT_EFFECT.contains(&name.as_str()) {
                continue;
            }
            let message = match neutral(name) {
                Some(neutral) if neutral.iter().any(|neutral| is_same(neutral, value)) => continue,
                Some(neutral) => {
                    let only = neutral.first().unwrap_or(&Value::Null);
                    format!("`{name}` is not supported by the embedded engine: leave it out or send {only}")
                }
                None => format!("unknown field `{name}`"),
            };
            return Err(ApiError::bad_request(message, Some(name)));
        }
        Ok(())
    }
}

/// The values of a known but unsupported field that change nothing.
fn neutral(name: &str) -> Option<Vec<Value>> {
    Some(match name {
        "presence_penalty" | "frequency_penalty" | "min_p" | "min_tokens" => vec![json!(0)],
        "repetition_penalty" | "length_penalty" | "best_of" => vec![json!(1)],
        "use_beam_search" | "continue_final_message" => vec![json!(false)],
        "spaces_between_special_tokens" => vec![json!(true)],
        "suffix" => vec![json!("")],
        "logit_bias" => vec![json!({})],
        "stop_token_ids" | "tools" => vec![json!([])],
        "tool_choice" => vec![json!("none"), json!("auto")],
        "response_format" => vec![json!({"type": "text"})],
        "prompt_logprobs" | "truncate_prompt_tokens" | "logprob_token_ids" | "bad_words" => vec![],
        _ => return None,
    })
}

/// Equality that does not tell `1` from `1.0`.
fn is_same(left: &Value, right: &Value) -> bool {
    match (left.as_f64(), right.as_f64()) {
        (Some(left), Some(right)) => left == right,
        _ => left == right,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finish(body: Value) -> Result<(), ApiError> {
        Fields::parse(body.to_string().as_bytes()).unwrap().finish()
    }

    #[test]
    fn what_changes_nothing_is_accepted() {
        finish(json!({"min_p": 0.0, "presence_penalty": 0, "user": "x", "anything": null, "tools": []})).unwrap();
    }

    #[test]
    fn what_would_be_ignored_is_refused_by_name() {
        for (body, name) in [
            (json!({"min_p": 0.1}), "min_p"),
            (json!({"temprature": 1}), "temprature"),
            (json!({"prompt_logprobs": 1}), "prompt_logprobs"),
        ] {
            let error = finish(body).unwrap_err().to_json();
            assert_eq!(error["error"]["param"], name);
            assert!(error["error"]["message"].as_str().unwrap().contains(name));
        }
    }

    #[test]
    fn a_field_of_the_wrong_type_is_named() {
        let mut fields = Fields::parse(br#"{"n": "two"}"#).unwrap();
        let error = fields.take::<usize>("n").unwrap_err().to_json();
        assert_eq!(
            (error["error"]["code"].as_u64(), &error["error"]["param"]),
            (Some(400), &json!("n"))
        );
    }
}
